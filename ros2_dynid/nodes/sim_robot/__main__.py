# SPDX-License-Identifier: Apache-2.0

"""`python -m ros2_dynid.nodes.sim_robot`."""

import sys

from ros2_dynid.nodes.sim_robot.node import main

sys.exit(main())
