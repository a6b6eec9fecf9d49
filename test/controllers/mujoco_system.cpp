// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string>
#include <vector>

#include "hardware_interface/system_interface.hpp"
#include "plant.hpp"
#include "pluginlib/class_list_macros.hpp"

namespace ros2_dynid_control_test
{

using hardware_interface::CallbackReturn;
using hardware_interface::return_type;

class MujocoSystem : public hardware_interface::SystemInterface
{
public:
  CallbackReturn on_init(
    const hardware_interface::HardwareComponentInterfaceParams & params) override
  {
    if (SystemInterface::on_init(params) != CallbackReturn::SUCCESS) return CallbackReturn::ERROR;
    const auto & parameters = info_.hardware_parameters;
    plant().build(parameters.at("mjcf"), parameters.at("friction"));
    plant().noise = std::stod(parameters.at("noise"));
    if (parameters.at("carries_itself") == "true") plant().carry_itself();
    return CallbackReturn::SUCCESS;
  }

  /// The brakes are open while somebody commands efforts.
  return_type perform_command_mode_switch(
    const std::vector<std::string> & start, const std::vector<std::string> & stop) override
  {
    if (!start.empty())
      plant().brakes = false;
    else if (!stop.empty())
      plant().brakes = plant().has_brakes;
    return return_type::OK;
  }

  return_type read(const rclcpp::Time &, const rclcpp::Duration &) override
  {
    for (std::size_t j = 0; j < info_.joints.size(); ++j)
    {
      const std::string & name = info_.joints[j].name;
      for (const auto & interface : info_.joints[j].state_interfaces)
      {
        const auto & from = interface.name == "position"   ? plant().q
                            : interface.name == "velocity" ? plant().dq
                                                           : plant().effort;
        set_state(name + "/" + interface.name, from[j]);
      }
    }
    return return_type::OK;
  }

  return_type write(const rclcpp::Time &, const rclcpp::Duration & period) override
  {
    for (std::size_t j = 0; j < info_.joints.size(); ++j)
    {
      const double command = get_command<double>(info_.joints[j].name + "/effort");
      if (std::isfinite(command)) plant().command[j] = command;
    }
    for (int k = static_cast<int>(std::lround(period.seconds() / 1e-3)); k > 0; --k) plant().step();
    return return_type::OK;
  }
};

}  // namespace ros2_dynid_control_test

PLUGINLIB_EXPORT_CLASS(ros2_dynid_control_test::MujocoSystem, hardware_interface::SystemInterface)
