# SPDX-License-Identifier: Apache-2.0

"""Parameters of the node identification."""

from __future__ import annotations

from ros2_dynid.identification.online.estimator import CUTOFF, MEMORY, ROW_RATE
from ros2_dynid.identification.options import Method
from ros2_dynid.nodes.common.parameters import Described, Settable

METHODS = tuple(str(method) for method in Method)
PARAMETERS = (
    Described(
        "recordings_folder",
        "~/.ros/ros2_dynid/recordings",
        "folder that bags in requests must lie in",
        read_only=True,
    ),
    Described(
        "models_folder",
        "~/.ros/ros2_dynid/models",
        "folder for models; nothing is written outside of it",
        read_only=True,
    ),
    Described(
        "method",
        "wls",
        f"estimator: {', '.join(METHODS)}",
        choices=METHODS,
    ),
    Described(
        "sensor", "auto", "which torque the efforts are: motor, link, link+Fc, JOINT=link, found, or auto: motor"
    ),
    Described("model", "", "model file to serve from the start; empty: none", settable=Settable.UNCONFIGURED),
    Described("online", False, "estimate from every joint state while the node runs", settable=Settable.INACTIVE),
    Described(
        "online_rate",
        ROW_RATE,
        "rows of the online estimator in a second and joint [Hz]",
        1.0,
        1000.0,
        settable=Settable.INACTIVE,
    ),
    Described("online_cutoff", CUTOFF, "cutoff of the online filter [Hz]", 0.5, 200.0, settable=Settable.INACTIVE),
    Described(
        "payload",
        False,
        "publish the load that joint states show, as ~/payload and ~/payload_std; needs online and a model served",
        settable=Settable.INACTIVE,
    ),
    Described("online_memory", MEMORY, "time constant of forgetting [s]", 0.5, 3600.0, settable=Settable.INACTIVE),
    Described(
        "drift_ratio",
        3.0,
        "drift: torque error over this many times what the model's data and error bars allow for",
        1.1,
        100.0,
    ),
    Described(
        "predicted_rate",
        100.0,
        "of the predicted torque for plots on ~/predicted, at most [Hz]",
        1.0,
        1000.0,
        settable=Settable.INACTIVE,
    ),
)
