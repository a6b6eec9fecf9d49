// SPDX-License-Identifier: Apache-2.0
// What the robot feels: external efforts as states and topic, contacts, wrench at a link. The
// observer is in observer.hpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "controller_interface/chainable_controller_interface.hpp"
#include "controller_support.hpp"
#include "geometry_msgs/msg/wrench_stamped.hpp"
#include "live_model.hpp"
#include "realtime_tools/realtime_publisher.hpp"
#include "realtime_tools/realtime_thread_safe_box.hpp"
#include "ros2_dynid/external_effort_broadcaster_parameters.hpp"
#include "ros2_dynid/external_effort_loop.hpp"
#include "ros2_dynid/msg/contact.hpp"
#include "sensor_msgs/msg/joint_state.hpp"

namespace ros2_dynid
{

/// Sends ~/external_effort and ~/wrench at a rate of the node's clock, while it is active: waking
/// another thread would cost update() more than all that it computes.
class ExternalEffortPublication : public std::enable_shared_from_this<ExternalEffortPublication>
{
public:
  struct Snapshot
  {
    rclcpp::Time time{0, 0, RCL_ROS_TIME};
    bool known = false;
    std::vector<double> q, external;
  };

  /// tool: link of the wrench, or nullptr.
  ExternalEffortPublication(
    rclcpp_lifecycle::LifecycleNode::SharedPtr node, const Model & model, const Tool * tool);

  /// Begin and end to send at this rate [Hz]; a message in work keeps the object alive.
  void listen(double rate);
  void activate() { timer_->reset(); }
  void deactivate() { timer_->cancel(); }

  /// In update(): what was found last. Neither waits nor allocates.
  void tell(const rclcpp::Time & time, bool known, const double * q, const double * external);

private:
  void publish();

  rclcpp_lifecycle::LifecycleNode::SharedPtr node_;
  realtime_tools::RealtimeThreadSafeBox<Snapshot> box_;
  Snapshot told_;
  std::unique_ptr<WrenchEstimator> wrench_;
  Dynamics geometry_;
  Tool tool_;
  sensor_msgs::msg::JointState state_;
  geometry_msgs::msg::WrenchStamped force_;
  rclcpp::Publisher<sensor_msgs::msg::JointState>::SharedPtr state_publisher_;
  rclcpp::Publisher<geometry_msgs::msg::WrenchStamped>::SharedPtr wrench_publisher_;
  rclcpp::TimerBase::SharedPtr timer_;
};

class ExternalEffortBroadcaster : public controller_interface::ChainableControllerInterface
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
  void build_parts();
  void fill_contact(const rclcpp::Time & time);

  std::shared_ptr<external_effort_broadcaster::ParamListener> listener_;
  std::vector<std::string> names_;
  std::shared_ptr<LiveModel> live_;
  std::shared_ptr<ExternalEffortPublication> publication_;
  std::unique_ptr<ExternalEffortLoop> loop_;
  bool tell_contact_ = false;
  msg::Contact contact_;
  std::unique_ptr<realtime_tools::RealtimePublisher<msg::Contact>> contact_publisher_;
};

}  // namespace ros2_dynid
