# SPDX-License-Identifier: Apache-2.0

"""`python -m ros2_dynid.nodes.wrist_sensor`."""

import sys

from ros2_dynid.nodes.wrist_sensor.node import main

sys.exit(main())
