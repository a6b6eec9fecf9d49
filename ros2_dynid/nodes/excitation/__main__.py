# SPDX-License-Identifier: Apache-2.0

"""`python -m ros2_dynid.nodes.excitation`."""

import sys

from ros2_dynid.nodes.excitation.node import main

sys.exit(main())
