# SPDX-License-Identifier: Apache-2.0

"""A node that asks the running node `identification` for its robot and its model: python call_services.py.

Start that node first: ros2 run ros2_dynid identification --ros-args -p robot:=demo6 -p model:=result/model.yaml
"""

import rclpy
from rclpy.node import Node
from ros2_dynid.srv import ConvertUrdf, GetBaseParameters


class Asking(Node):
    """Calls the services of the identification node, one after the other."""

    def __init__(self) -> None:
        super().__init__("asking")

    def call(self, kind, name):
        """Return the answer of a service, as soon as it is there."""
        client = self.create_client(kind, f"identification/{name}")
        if not client.wait_for_service(timeout_sec=20.0):
            raise SystemExit(f"there is no service identification/{name}: start the node first")
        answer = client.call_async(kind.Request())
        rclpy.spin_until_future_complete(self, answer, timeout_sec=20.0)
        if not answer.done() or not answer.result().success:
            raise SystemExit(f"{name}: {answer.result().message if answer.done() else 'no answer'}")
        return answer.result()


with rclpy.init():
    node = Asking()
    for joint in node.call(ConvertUrdf, "convert_urdf").joints:
        print(f"{joint.name:14} alpha {joint.alpha:6.3f}  d {joint.d:6.3f}  theta {joint.theta:6.3f}  r {joint.r:6.3f}")
    parameters = node.call(GetBaseParameters, "get_base_parameters").parameters
    for one in parameters.parameters:
        print(f"{one.name:6} {one.value:10.4f} +- {one.std:.4f}")
