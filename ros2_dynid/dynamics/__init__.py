"""Rigid-body dynamics in modified DH frames, batched over samples: torques, regressors, energies, inertia matrix."""
