"""Shared by the commands: arguments for robots and recordings, and the spelling of options."""
