"""The use cases as data: a typed request and outcome for each, and the function that turns one into the other.

Every caller can ask for the same: the command line, a job's process, services and actions decode a request from plain
data and encode the outcome (`ros2_dynid.codec`). A request names files; data in memory go through
`ros2_dynid.pipeline`.

| module | request -> outcome |
| --- | --- |
| `identify` | recordings of a robot -> base parameters with error bars, model.yaml and a report |
| `payload` | recordings without and with a load -> mass, centre of mass and inertia |
| `gains` | recordings without and with a load of known mass -> drive gains |
| `plan` | a robot and what surrounds it -> an exciting trajectory |
| `check` | a recording -> is it usable? |
| `fleet` | recordings of many robots -> their models, what they share, who stands out |
| `report` | folders of identified models -> a page, or a comparison |
| `robot_source` | where the robot comes from: a part of every request |
"""

from ros2_dynid.codec import Plain, decode, encode
from ros2_dynid.progress import Cancelled, Progress
from ros2_dynid.usecases.check import CheckOutcome, CheckRequest, check
from ros2_dynid.usecases.fleet import FleetOutcome, FleetRequest, fleet
from ros2_dynid.usecases.gains import GainsOutcome, GainsRequest, gains
from ros2_dynid.usecases.identify import IdentifyOutcome, IdentifyRequest, identify
from ros2_dynid.usecases.payload import PayloadOutcome, PayloadRequest, payload
from ros2_dynid.usecases.plan import PlanOutcome, PlanRequest, plan
from ros2_dynid.usecases.report import ReportOutcome, ReportRequest, report
from ros2_dynid.usecases.robot_source import RobotSource

__all__ = [
    "Cancelled",
    "CheckOutcome",
    "CheckRequest",
    "FleetOutcome",
    "FleetRequest",
    "GainsOutcome",
    "GainsRequest",
    "IdentifyOutcome",
    "IdentifyRequest",
    "PayloadOutcome",
    "PayloadRequest",
    "Plain",
    "PlanOutcome",
    "PlanRequest",
    "Progress",
    "ReportOutcome",
    "ReportRequest",
    "RobotSource",
    "check",
    "decode",
    "encode",
    "fleet",
    "gains",
    "identify",
    "payload",
    "plan",
    "report",
]
