# SPDX-License-Identifier: Apache-2.0

"""`python -m ros2_dynid.nodes.mission`."""

import sys

from ros2_dynid.nodes.mission.node import main

sys.exit(main())
