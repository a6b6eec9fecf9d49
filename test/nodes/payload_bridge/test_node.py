# SPDX-License-Identifier: Apache-2.0

"""The node payload_bridge and a driver of another type: payload turned, limits first, asked back, refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from geometry_msgs.msg import Inertia, Vector3
from ros2_dynid.srv import ForwardPayload, IdentifyPayload, SetPayload

from ros2_dynid.control.payload_bridge import shipped_drivers
from ros2_dynid.errors import InputError
from ros2_dynid.nodes.common.caller import ClientError
from ros2_dynid.nodes.payload_bridge.node import check_path, fitting_fields, service_type
from ros_graph import graph
from urdf_text import joint, urdf

URDF = urdf(
    '<link name="base"/>',
    '<link name="arm"><inertial><mass value="3"/>'
    '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>',
    '<link name="tool0"/>',
    joint("turn", "base", "arm", inside='<limit lower="-2" upper="2" velocity="3" effort="90"/>'),
    '<joint name="mount" type="fixed"><parent link="arm"/><child link="tool0"/>'
    '<origin xyz="0.1 0 0.2" rpy="0 0 1.5707963267948966"/></joint>',
    name="one_arm",
)
BRIDGES = """
bridges:
  arm:
    type: ros2_dynid/srv/SetPayload
    service: driver/set_payload
    link: tool0
    fields: {payload.m: mass, payload.com.x: com.x, payload.com.y: com.y, payload.com.z: com.z, payload.ixx: inertia.xx,
             payload.iyy: inertia.yy, payload.izz: inertia.zz, link: link}
    success: success
    message: message
    limits: {mass: 5.0, com: 0.5}
    ask: {type: ros2_dynid/srv/IdentifyPayload, service: driver/get_payload,
          fields: {payload.m: mass, payload.com.x: com.x, payload.com.y: com.y}}
"""
BARS = {"mass_std": 0.01, "com_std": Vector3(x=1e-3, y=1e-3, z=1e-3)}


@pytest.mark.timeout(120)
def test_a_payload_reaches_the_driver_in_its_frame(tmp_path):
    (tmp_path / "arm.urdf").write_text(URDF)
    (tmp_path / "bridges.yaml").write_text(BRIDGES)
    taken, answer = [], {"success": True, "mass": None}

    def take(request, response):
        taken.append(request)
        response.success, response.message = answer["success"], "" if answer["success"] else "the arm moves"
        return response

    def tell(request, response):
        response.payload = taken[-1].payload
        if answer["mass"] is not None:
            response.payload.m = answer["mass"]
        return response

    with graph(tmp_path, str(tmp_path / "arm.urdf")) as made:
        client = made.client
        client.create_service(SetPayload, "driver/set_payload", take)
        client.create_service(IdentifyPayload, "driver/get_payload", tell)
        made.start("payload_bridge", driver="arm", bridges_file=tmp_path / "bridges.yaml", timeout=20.0)
        made.ready("payload_bridge")
        # given in the frame of the arm; tool0 is turned by a quarter about z: x of the arm is -y of the tool
        payload = Inertia(m=1.5, com=Vector3(x=0.15, y=0.02, z=0.25), ixx=0.01, iyy=0.02, izz=0.015)

        def send(**fields):
            return client.call(
                ForwardPayload, "payload_bridge/forward", **{"link": "arm", "payload": payload, **BARS, **fields}
            )

        done = send()
        assert "1.5 kg" in done.message and "confirms" in done.message
        got = taken[-1]
        assert got.link == "tool0" and got.payload.m == 1.5
        assert np.allclose((got.payload.com.x, got.payload.com.y, got.payload.com.z), (0.02, -0.05, 0.05))
        assert np.allclose((got.payload.ixx, got.payload.iyy, got.payload.izz), (0.02, 0.01, 0.015))
        count = len(taken)
        for fields, words in (
            ({"mass_std": 0.0}, "without error bars"),
            ({"mass_std": 0.5}, "33% only"),
            ({"payload": Inertia(m=9.0, com=payload.com)}, "beyond the limit of 5 kg"),
            ({"payload": Inertia(m=1.0, com=Vector3(x=float("nan")))}, "not finite"),
            ({"link": "elsewhere"}, "no last link 'elsewhere'"),
        ):
            with pytest.raises(ClientError, match=words):
                send(**fields)
        assert len(taken) == count  # none of them reached the driver
        answer["mass"] = 2.5
        with pytest.raises(ClientError, match="tells another mass"):
            send()
        answer.update(success=False, mass=None)
        with pytest.raises(ClientError, match="refuses the payload: the arm moves"):
            send()
        answer["success"] = True
        assert "0 kg" in send(payload=Inertia(), mass_std=0.0, com_std=Vector3()).message
        assert taken[-1].payload.m == 0.0


def test_types_and_fields_are_found_by_introspection():
    kind = service_type("ros2_dynid/srv/SetPayload")
    check_path(kind.Request, "payload.com.x", "com.x")
    for path, figure, words in (
        ("payload.mass", "mass", "'payload.mass' does not exist"),
        ("payload.com", "com", "cannot hold com"),
        ("link", "mass", "cannot hold mass"),
        ("link.x", "mass", "no fields of its own"),
    ):
        with pytest.raises(InputError, match=words):
            check_path(kind.Request, path, figure)
    for name, words in (
        ("SetPayload", "no service type"),
        ("no_such_msgs/srv/SetLoad", "not installed"),
        ("ros2_dynid/srv/Nothing", "no service Nothing"),
        ("os/srv/System", "not installed"),
    ):
        with pytest.raises(InputError, match=words):
            service_type(name)


def test_the_first_map_of_fields_that_the_installed_request_has_is_used():
    kind = service_type("ros2_dynid/srv/SetPayload").Request
    newer, older = {"load.m": "mass"}, {"payload.m": "mass", "link": "link"}
    driver = replace(shipped_drivers()["ur"], fields=newer, others=(older,))
    assert fitting_fields(kind, driver) == older and fitting_fields(kind, replace(driver, fields=older)) == older
    with pytest.raises(InputError, match=r"the field 'load\.m' does not exist"):
        fitting_fields(kind, replace(driver, others=({"mass": "mass"},)))
