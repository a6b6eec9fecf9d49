// SPDX-License-Identifier: Apache-2.0
// tau = model(reference) + Kp e + Kd de, behind joint_trajectory_controller or a topic. The law is
// in feedforward_law.hpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "controller_interface/chainable_controller_interface.hpp"
#include "controller_support.hpp"
#include "live_model.hpp"
#include "reference_stream.hpp"
#include "ros2_dynid/controller_parameters.hpp"
#include "ros2_dynid/feedforward_controller_parameters.hpp"

namespace ros2_dynid
{

class FeedforwardController : public controller_interface::ChainableControllerInterface
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
  std::vector<hardware_interface::CommandInterface::SharedPtr> on_export_reference_interfaces_list()
    override;
  controller_interface::return_type update_reference_from_subscribers(
    const rclcpp::Time &, const rclcpp::Duration &) override;
  controller_interface::return_type update_and_write_commands(
    const rclcpp::Time &, const rclcpp::Duration & period) override;

private:
  void build_parts();
  void refuse_wrong_gains();
  void take_news();

  std::shared_ptr<feedforward_controller::ParamListener> listener_;
  feedforward_controller::Params params_;
  std::vector<std::string> names_, state_kinds_{"position", "velocity"};
  Places places_;
  Gains gains_;
  std::shared_ptr<LiveModel> live_;
  std::shared_ptr<ReferenceStream> stream_;
  std::unique_ptr<FeedforwardLoop> loop_;
  LastEnd end_;
  rclcpp::node_interfaces::OnSetParametersCallbackHandle::SharedPtr on_set_;
};

}  // namespace ros2_dynid
