"""What the commands share: arguments that name a robot or say how to read a recording, and how options are written."""
