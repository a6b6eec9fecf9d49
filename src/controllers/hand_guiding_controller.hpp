// SPDX-License-Identifier: Apache-2.0
// Hand guiding: gravity, a fraction of the friction, guards of speed and range. The law is in
// hand_guiding_law.hpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "controller_interface/controller_interface.hpp"
#include "controller_support.hpp"
#include "live_model.hpp"
#include "ros2_dynid/controller_parameters.hpp"
#include "ros2_dynid/hand_guiding_controller_parameters.hpp"

namespace ros2_dynid
{

class HandGuidingController : public controller_interface::ControllerInterface
{
public:
  controller_interface::CallbackReturn on_init() override;
  controller_interface::InterfaceConfiguration command_interface_configuration() const override;
  controller_interface::InterfaceConfiguration state_interface_configuration() const override;
  controller_interface::CallbackReturn on_configure(const rclcpp_lifecycle::State &) override;
  controller_interface::CallbackReturn on_cleanup(const rclcpp_lifecycle::State &) override;
  controller_interface::CallbackReturn on_activate(const rclcpp_lifecycle::State &) override;
  controller_interface::CallbackReturn on_deactivate(const rclcpp_lifecycle::State &) override;
  controller_interface::return_type update(
    const rclcpp::Time &, const rclcpp::Duration & period) override;

private:
  void build_parts();
  void take_news();

  std::shared_ptr<hand_guiding_controller::ParamListener> listener_;
  hand_guiding_controller::Params params_;
  std::vector<std::string> names_, state_kinds_{"position", "velocity"};
  std::shared_ptr<LiveModel> live_;
  std::unique_ptr<EffortLoop<HandGuidingLaw>> loop_;
  LastEnd end_;
};

}  // namespace ros2_dynid
