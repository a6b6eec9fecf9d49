# SPDX-License-Identifier: Apache-2.0

"""The use cases as data: a typed request and outcome for each, and the function that turns one into the other.

Every caller can ask for the same: the command line, a job's process, services and actions decode a request from plain
data and encode the outcome (`ros2_dynid.codec`). A request names files; data in memory go through
`ros2_dynid.pipeline`.

| module | request -> outcome |
| --- | --- |
| `identify` | recordings of a robot -> base parameters with error bars, model.yaml and a report |
| `payload` | recordings without and with a load -> mass, centre of mass and inertia |
| `gains` | recordings without and with a load of known mass -> drive gains |
| `tool` | wrenches of a wrist sensor -> the tool beyond it, and the sensor's bias |
| `plan` | a robot and what surrounds it -> an exciting trajectory |
| `check` | a recording -> is it usable? |
| `fleet` | recordings of many robots -> their models, what they share, who stands out |
| `export` | a model or a robot -> a URDF or a MuJoCo model with its parameters |
| `preview` | a trajectory -> a page that plays it in 3D |
| `mission` | the demo's mission: what its operator is asked to do |
| `report` | folders of identified models -> a page, or a comparison |
| `robot_source` | where the robot comes from: a part of every request |
"""
