"""Exciting trajectories: how to move a robot so that its base parameters can be told apart (seed 001)."""
