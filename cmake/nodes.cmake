# Nodes that `ros2 run ros2_dynid NAME` starts.
set(nodes excitation recorder identification feedforward sim_robot panel payload_bridge guard wrist_sensor)
