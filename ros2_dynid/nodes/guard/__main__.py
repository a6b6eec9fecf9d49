# SPDX-License-Identifier: Apache-2.0

"""`python -m ros2_dynid.nodes.guard`."""

import sys

from ros2_dynid.nodes.guard.node import main

sys.exit(main())
