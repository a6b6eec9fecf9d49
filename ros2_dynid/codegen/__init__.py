"""Generated dynamics: one expression graph per robot, emitted as C or NumPy, compiled and cached."""
