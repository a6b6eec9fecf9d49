# SPDX-License-Identifier: Apache-2.0

"""`python -m ros2_dynid.nodes.recorder`."""

import sys

from ros2_dynid.nodes.recorder.node import main

sys.exit(main())
