# SPDX-License-Identifier: Apache-2.0

"""`python -m ros2_dynid.nodes.payload_bridge`."""

import sys

from ros2_dynid.nodes.payload_bridge.node import main

sys.exit(main())
