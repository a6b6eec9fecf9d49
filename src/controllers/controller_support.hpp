// SPDX-License-Identifier: Apache-2.0
// What the controllers share of ros2_control.
#pragma once

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "controller_interface/controller_interface_base.hpp"
#include "rclcpp/rclcpp.hpp"
#include "ros2_dynid/interface_values.hpp"

namespace ros2_dynid
{

inline controller_interface::InterfaceConfiguration interfaces_of(
  const std::vector<std::string> & joints, const std::vector<std::string> & kinds)
{
  controller_interface::InterfaceConfiguration asked{
    controller_interface::interface_configuration_type::INDIVIDUAL, {}};
  for (const auto & kind : kinds)
    for (const auto & joint : joints) asked.names.push_back(joint + "/" + kind);
  return asked;
}

/// An interface PREFIX/KIND that a controller exports.
template <typename Interface>
std::shared_ptr<Interface> exported_interface(const std::string & prefix, const std::string & kind)
{
  hardware_interface::InterfaceInfo info;
  info.name = kind;
  info.data_type = "double";
  return std::make_shared<Interface>(hardware_interface::InterfaceDescription(prefix, info));
}

/// Run a transition; what it throws is logged and makes it fail.
template <typename Transition>
controller_interface::CallbackReturn attempt(
  const rclcpp::Logger & logger, const Transition & transition)
{
  try
  {
    transition();
  }
  catch (const std::exception & error)
  {
    RCLCPP_ERROR(logger, "%s", error.what());
    return controller_interface::CallbackReturn::ERROR;
  }
  return controller_interface::CallbackReturn::SUCCESS;
}

/// End a law and leave its last command at the robot, which keeps it until another controller
/// commands.
template <typename Law, typename Interfaces>
void leave_last_command(
  Law & law, const StateValues & states, CommandWriter & writer, Interfaces & commands,
  const rclcpp::Logger & logger)
{
  if (!law.end(states.at(0), states.at(law.joints())))
  {
    RCLCPP_WARN(
      logger,
      "deactivated in motion: friction brakes, with half as much again, and gravity is that of "
      "here; let another controller take over");
  }
  if (!writer.write_last(commands, law.command(), [] { std::this_thread::yield(); }))
    RCLCPP_ERROR(logger, "the torque against gravity could not be left at every joint");
}

}  // namespace ros2_dynid
