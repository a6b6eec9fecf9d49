# SPDX-License-Identifier: Apache-2.0

"""Rigid-body dynamics in modified DH frames, batched over samples: torques, regressors, energies, inertia matrix."""
