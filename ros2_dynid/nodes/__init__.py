# SPDX-License-Identifier: Apache-2.0

"""The ROS 2 nodes, and the only place that imports ROS: thin, convert -> call -> publish.

A node's folder has node.py (lifecycle, topics, what the node is for), parameters.py, and as far as it needs them
services.py (what it offers), requests.py (messages to requests of use cases), clients.py (what it asks of others) and
publishers.py; `common` has what nodes share.
"""

import pathlib
import signal
import sys

# A node interrupted while its process still imports ends without a word; from spin.run() on, signals end it in order.
# Python says "-m" here while it looks for the module to run; an installed node is a script in lib/ros2_dynid.
if sys.argv[0] == "-m" or pathlib.Path(sys.argv[0]).parent.name == "ros2_dynid":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
