"""Replay of a recording into the nodes."""
