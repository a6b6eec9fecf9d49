# SPDX-License-Identifier: Apache-2.0

"""A pneumatic cylinder in a robot file."""

from __future__ import annotations


def cylinder(**entry):
    ends = {"from": {"joint": 0, "point": [1, 2, 3]}, "to": {"joint": "j2", "point": [4, 5, 6]}}
    return {"forces": [{"name": "c", "type": "cylinder", **ends, **entry}]}
