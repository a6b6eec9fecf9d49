"""Exciting trajectories: how to move a robot so that its base parameters can be identified (seed 001)."""
