"""The simulated robot: MuJoCo moves it, with friction, encoders, noise and latency as a real one has them."""
