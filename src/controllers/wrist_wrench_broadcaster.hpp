// SPDX-License-Identifier: Apache-2.0
// A wrist force-torque sensor without its bias and tool: states and WrenchStamped. What is computed
// is in wrist_sensor.hpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "controller_interface/chainable_controller_interface.hpp"
#include "controller_support.hpp"
#include "geometry_msgs/msg/wrench_stamped.hpp"
#include "realtime_tools/realtime_publisher.hpp"
#include "realtime_tools/realtime_thread_safe_box.hpp"
#include "ros2_dynid/srv/set_payload.hpp"
#include "ros2_dynid/wrist_loop.hpp"
#include "ros2_dynid/wrist_wrench_broadcaster_parameters.hpp"

namespace ros2_dynid
{

class WristWrenchBroadcaster : public controller_interface::ChainableControllerInterface
{
public:
  controller_interface::CallbackReturn on_init() override;
  controller_interface::InterfaceConfiguration command_interface_configuration() const override;
  controller_interface::InterfaceConfiguration state_interface_configuration() const override;
  controller_interface::CallbackReturn on_configure(const rclcpp_lifecycle::State &) override;
  controller_interface::CallbackReturn on_cleanup(const rclcpp_lifecycle::State &) override;
  controller_interface::CallbackReturn on_activate(const rclcpp_lifecycle::State &) override;
  controller_interface::CallbackReturn on_deactivate(const rclcpp_lifecycle::State &) override;

protected:
  std::vector<hardware_interface::StateInterface::SharedPtr> on_export_state_interfaces_list()
    override;
  controller_interface::return_type update_reference_from_subscribers(
    const rclcpp::Time &, const rclcpp::Duration &) override;
  controller_interface::return_type update_and_write_commands(
    const rclcpp::Time & time, const rclcpp::Duration & period) override;

private:
  using Message = geometry_msgs::msg::WrenchStamped;
  using Publisher = realtime_tools::RealtimePublisher<Message>;
  using ToolBox = realtime_tools::RealtimeThreadSafeBox<WristTool>;

  void build_parts();
  void offer_tool(const WristTool & first);
  void take_tool();
  static void send(
    Publisher & publisher, Message & message, const rclcpp::Time & time, const Wrench & wrench);

  std::shared_ptr<wrist_wrench_broadcaster::ParamListener> listener_;
  wrist_wrench_broadcaster::Params params_;
  std::vector<std::string> names_;
  std::unique_ptr<WristLoop> loop_;
  std::shared_ptr<ToolBox> tool_;
  Tool frame_;
  Message of_sensor_, of_frame_;
  std::unique_ptr<Publisher> sensor_publisher_, frame_publisher_;
  rclcpp::Service<srv::SetPayload>::SharedPtr service_;
};

}  // namespace ros2_dynid
