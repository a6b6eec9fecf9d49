# SPDX-License-Identifier: Apache-2.0

"""`python -m ros2_dynid.nodes.identification`."""

import sys

from ros2_dynid.nodes.identification.node import main

sys.exit(main())
