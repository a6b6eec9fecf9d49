# SPDX-License-Identifier: Apache-2.0

"""A robot's motion as a 3D scene, and the pages that play it: one HTML file without a server, and the panel."""
