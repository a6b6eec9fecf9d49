// SPDX-License-Identifier: Apache-2.0
// What the controllers share of ros2_control.
#pragma once

#include <chrono>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "controller_interface/controller_interface_base.hpp"
#include "hardware_interface/component_parser.hpp"
#include "hardware_interface/types/hardware_interface_type_values.hpp"
#include "rclcpp/rclcpp.hpp"
#include "ros2_dynid/effort_loop.hpp"

namespace ros2_dynid
{

/// Interfaces of joints; owner: the controller that exports them, "": the hardware.
inline controller_interface::InterfaceConfiguration interfaces_of(
  const std::vector<std::string> & joints, const std::vector<std::string> & kinds,
  const std::string & owner = "")
{
  controller_interface::InterfaceConfiguration asked{
    controller_interface::interface_configuration_type::INDIVIDUAL, {}};
  const std::string prefix = owner.empty() ? "" : owner + "/";
  for (const auto & kind : kinds)
    for (const auto & joint : joints) asked.names.push_back(prefix + joint + "/" + kind);
  return asked;
}

/// States of each joint that a controller of efforts reads: measured efforts, too, if they are
/// checked and the description says that the hardware has them.
inline std::vector<std::string> state_kinds(
  bool check_efforts, const std::vector<std::string> & joints, const std::string & urdf)
{
  std::set<std::string> measured;
  if (check_efforts && urdf.find("<ros2_control") != std::string::npos)
  {
    for (const auto & hardware : hardware_interface::parse_control_resources_from_urdf(urdf))
      for (const auto & joint : hardware.joints)
        for (const auto & state : joint.state_interfaces)
          if (state.name == hardware_interface::HW_IF_EFFORT) measured.insert(joint.name);
  }
  for (const auto & joint : joints)
    if (measured.count(joint) == 0) return {"position", "velocity"};
  return {"position", "velocity", "effort"};
}

/// Whether measured efforts contradict what the robot is declared to add; it is logged.
template <typename Loop, typename States>
bool contradicts(
  Loop & loop, const States & states, const std::vector<std::string> & joints,
  const rclcpp::Logger & logger)
{
  const RestVerdict verdict = loop.judge_rest(states);
  if (verdict.good()) return false;
  RCLCPP_ERROR(logger, "%s", describe(verdict, joints[verdict.joint]).c_str());
  return true;
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

/// When a controller was deactivated. A manager that restarts it activates it a moment later.
class LastEnd
{
public:
  void note() noexcept { at_ = std::chrono::steady_clock::now(); }
  bool was_just_now() const noexcept
  {
    return std::chrono::steady_clock::now() - at_ < std::chrono::milliseconds(100);
  }

private:
  std::chrono::steady_clock::time_point at_{};
};

/// End a law and leave its last command at the robot, which keeps it until another controller
/// commands.
template <typename Loop, typename States, typename Commands>
void leave_last_command(
  Loop & loop, const States & states, Commands & commands, const rclcpp::Logger & logger)
{
  const LawEnd end = loop.stop(states, commands, [] { std::this_thread::yield(); });
  if (!end.rests)
  {
    RCLCPP_WARN(
      logger,
      "deactivated in motion: friction brakes, with half as much again, and gravity is that of "
      "here; let another controller take over");
  }
  if (!end.written)
    RCLCPP_ERROR(logger, "the torque against gravity could not be left at every joint");
}

}  // namespace ros2_dynid
