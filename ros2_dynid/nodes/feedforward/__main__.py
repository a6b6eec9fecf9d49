# SPDX-License-Identifier: Apache-2.0

"""`python -m ros2_dynid.nodes.feedforward`."""

import sys

from ros2_dynid.nodes.feedforward.node import main

sys.exit(main())
