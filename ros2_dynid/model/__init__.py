"""The robot: frozen data, and the readers that make it from a URDF or a robot file."""
