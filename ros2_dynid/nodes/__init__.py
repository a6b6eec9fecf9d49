"""The ROS 2 nodes, and the only place that imports ROS: thin, convert -> call -> publish."""

import pathlib
import signal
import sys

# A node interrupted while its process still imports ends without a word; from spin.run() on, signals end it in order.
# Python says "-m" here while it looks for the module to run; an installed node is a script in lib/ros2_dynid.
if sys.argv[0] == "-m" or pathlib.Path(sys.argv[0]).parent.name == "ros2_dynid":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
