"""Loads: `payload_fit` finds an unknown one at the end of the robot, `drive_gains` the gains from a known one."""

from ros2_dynid.identification.loads.drive_gains import Gains, drive_gains
from ros2_dynid.identification.loads.from_model import identify_load_on_model
from ros2_dynid.identification.loads.payload_fit import Payload, identify_load, identify_loads

__all__ = ["Gains", "Payload", "drive_gains", "identify_load", "identify_load_on_model", "identify_loads"]
