# SPDX-License-Identifier: Apache-2.0

"""`python -m ros2_dynid.nodes.panel`."""

import sys

from ros2_dynid.nodes.panel.node import main

sys.exit(main())
