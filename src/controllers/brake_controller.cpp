// SPDX-License-Identifier: Apache-2.0
#include "brake_controller.hpp"

#include "pluginlib/class_list_macros.hpp"

namespace ros2_dynid
{

using controller_interface::CallbackReturn;
using controller_interface::InterfaceConfiguration;
using controller_interface::return_type;

CallbackReturn BrakeController::on_init()
{
  return attempt(
    get_node()->get_logger(),
    [this] { listener_ = std::make_shared<brake_controller::ParamListener>(get_node()); });
}

InterfaceConfiguration BrakeController::command_interface_configuration() const
{
  return interfaces_of(names_, {"effort"});
}

InterfaceConfiguration BrakeController::state_interface_configuration() const
{
  return interfaces_of(names_, state_kinds_);
}

CallbackReturn BrakeController::on_configure(const rclcpp_lifecycle::State &)
{
  return attempt(get_node()->get_logger(), [this] { build_parts(); });
}

void BrakeController::build_parts()
{
  const auto p = listener_->get_params();
  Model model = checked_model(p.model, p.joints, get_robot_description());
  const Places places = places_of(model, p.joints);
  declare_added_effort(model, p.robot_adds, places);
  names_ = model.active_names();
  state_kinds_ = state_kinds(p.check_rest_efforts, names_, get_robot_description());
  const EffortBounds bounds = effort_bounds_of(p, model, places, get_update_rate());
  live_ = std::make_shared<LiveModel>(get_node(), model, bounds.limits);
  const BrakeOptions options{
    per_joint(p.damping, places, "damping"), p.brake_seconds, p.smoothing, p.timeout};
  loop_ = std::make_unique<BrakeLoop>(model, options, bounds);
  live_->listen(p.parameters_topic);
}

CallbackReturn BrakeController::on_cleanup(const rclcpp_lifecycle::State &)
{
  live_.reset();
  loop_.reset();
  names_.clear();
  return CallbackReturn::SUCCESS;
}

CallbackReturn BrakeController::on_activate(const rclcpp_lifecycle::State &)
{
  live_->hand_news_to(loop_->law());
  if (contradicts(*loop_, state_interfaces_, names_, get_node()->get_logger()))
    return CallbackReturn::ERROR;
  auto & efforts = ordered_exported_reference_interfaces_;
  if (loop_->start(state_interfaces_, command_interfaces_, efforts, end_.was_just_now()))
    return CallbackReturn::SUCCESS;
  RCLCPP_ERROR(get_node()->get_logger(), "position or velocity of a joint is not known");
  return CallbackReturn::ERROR;
}

CallbackReturn BrakeController::on_deactivate(const rclcpp_lifecycle::State &)
{
  leave_last_command(*loop_, state_interfaces_, command_interfaces_, get_node()->get_logger());
  end_.note();
  return CallbackReturn::SUCCESS;
}

std::vector<hardware_interface::CommandInterface::SharedPtr>
BrakeController::on_export_reference_interfaces_list()
{
  std::vector<hardware_interface::CommandInterface::SharedPtr> list;
  const std::string own = get_node()->get_name();
  for (const auto & name : names_)
    list.push_back(
      exported_interface<hardware_interface::CommandInterface>(own + "/" + name, "effort"));
  return list;
}

return_type BrakeController::update_reference_from_subscribers(
  const rclcpp::Time &, const rclcpp::Duration &)
{
  return return_type::OK;
}

return_type BrakeController::update_and_write_commands(
  const rclcpp::Time &, const rclcpp::Duration & period)
{
  live_->hand_news_to(loop_->law());
  const bool well = loop_->update(
    state_interfaces_, command_interfaces_, ordered_exported_reference_interfaces_,
    is_in_chained_mode(), period.seconds());
  live_->see(loop_->positions());
  return well ? return_type::OK : return_type::ERROR;
}

}  // namespace ros2_dynid

PLUGINLIB_EXPORT_CLASS(
  ros2_dynid::BrakeController, controller_interface::ChainableControllerInterface)
