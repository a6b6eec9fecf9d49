// SPDX-License-Identifier: Apache-2.0
#include "hand_guiding_controller.hpp"

#include "pluginlib/class_list_macros.hpp"

namespace ros2_dynid
{

using controller_interface::CallbackReturn;
using controller_interface::InterfaceConfiguration;
using controller_interface::return_type;

CallbackReturn HandGuidingController::on_init()
{
  return attempt(
    get_node()->get_logger(),
    [this] { listener_ = std::make_shared<hand_guiding_controller::ParamListener>(get_node()); });
}

InterfaceConfiguration HandGuidingController::command_interface_configuration() const
{
  return interfaces_of(names_, {"effort"}, params_.command_prefix);
}

InterfaceConfiguration HandGuidingController::state_interface_configuration() const
{
  return interfaces_of(names_, state_kinds_);
}

CallbackReturn HandGuidingController::on_configure(const rclcpp_lifecycle::State &)
{
  return attempt(get_node()->get_logger(), [this] { build_parts(); });
}

void HandGuidingController::build_parts()
{
  params_ = listener_->get_params();
  Model model = checked_model(params_.model, params_.joints, get_robot_description());
  const Places places = places_of(model, params_.joints);
  declare_added_effort(model, params_.robot_adds, places);
  names_ = model.active_names();
  state_kinds_ = state_kinds(params_.check_rest_efforts, names_, get_robot_description());
  const EffortBounds bounds = effort_bounds_of(params_, model, places, get_update_rate());
  live_ = std::make_shared<LiveModel>(get_node(), model, bounds.limits);
  loop_ = std::make_unique<EffortLoop<HandGuidingLaw>>(
    model, hand_guiding_options_of(params_, model, places), bounds);
  live_->listen(params_.parameters_topic);
}

CallbackReturn HandGuidingController::on_cleanup(const rclcpp_lifecycle::State &)
{
  live_.reset();
  loop_.reset();
  names_.clear();
  return CallbackReturn::SUCCESS;
}

CallbackReturn HandGuidingController::on_activate(const rclcpp_lifecycle::State &)
{
  const auto logger = get_node()->get_logger();
  take_news();
  if (contradicts(*loop_, state_interfaces_, names_, get_node()->get_logger()))
    return CallbackReturn::ERROR;
  if (loop_->start(state_interfaces_, command_interfaces_, end_.was_just_now()))
    return CallbackReturn::SUCCESS;
  const std::size_t outside = loop_->law().outside(loop_->positions());
  if (outside < names_.size())
  {
    RCLCPP_ERROR(
      logger, "%s is outside its range or not known; move it by hand or with another controller",
      names_[outside].c_str());
  }
  else
  {
    RCLCPP_ERROR(logger, "the velocity of a joint is not known");
  }
  return CallbackReturn::ERROR;
}

CallbackReturn HandGuidingController::on_deactivate(const rclcpp_lifecycle::State &)
{
  leave_last_command(*loop_, state_interfaces_, command_interfaces_, get_node()->get_logger());
  end_.note();
  return CallbackReturn::SUCCESS;
}

return_type HandGuidingController::update(const rclcpp::Time &, const rclcpp::Duration & period)
{
  take_news();
  const bool well = loop_->update(state_interfaces_, command_interfaces_, period.seconds());
  live_->see(loop_->positions());
  return well ? return_type::OK : return_type::ERROR;
}

void HandGuidingController::take_news()
{
  live_->hand_news_to(loop_->law());
  if (listener_->try_update_params(params_)) loop_->law().set_friction(params_.friction);
}

}  // namespace ros2_dynid

PLUGINLIB_EXPORT_CLASS(ros2_dynid::HandGuidingController, controller_interface::ControllerInterface)
