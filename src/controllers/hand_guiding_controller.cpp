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
  return interfaces_of(names_, {"effort"});
}

InterfaceConfiguration HandGuidingController::state_interface_configuration() const
{
  return interfaces_of(names_, {"position", "velocity"});
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
  const EffortBounds bounds = effort_bounds_of(params_, model, places, get_update_rate());
  states_ = StateValues(2 * names_.size());
  writer_ = CommandWriter(names_.size());
  live_ = std::make_shared<LiveModel>(get_node(), model, bounds.limits);
  law_ = std::make_unique<HandGuidingLaw>(
    model, hand_guiding_options_of(params_, model, places), bounds);
  live_->listen(params_.parameters_topic);
}

CallbackReturn HandGuidingController::on_cleanup(const rclcpp_lifecycle::State &)
{
  live_.reset();
  law_.reset();
  names_.clear();
  return CallbackReturn::SUCCESS;
}

CallbackReturn HandGuidingController::on_activate(const rclcpp_lifecycle::State &)
{
  const auto logger = get_node()->get_logger();
  states_.forget();
  states_.read(state_interfaces_);
  take_news();
  const std::size_t outside = law_->outside(states_.at(0));
  if (outside < names_.size())
  {
    RCLCPP_ERROR(
      logger, "%s is outside its range or not known; move it by hand or with another controller",
      names_[outside].c_str());
    return CallbackReturn::ERROR;
  }
  if (!all_finite(states_.at(0), 2 * names_.size()) || !law_->start(states_.at(0)))
  {
    RCLCPP_ERROR(logger, "the velocity of a joint is not known");
    return CallbackReturn::ERROR;
  }
  writer_.write(command_interfaces_, law_->command());  // the arm must not fall before an update
  return CallbackReturn::SUCCESS;
}

CallbackReturn HandGuidingController::on_deactivate(const rclcpp_lifecycle::State &)
{
  states_.read(state_interfaces_);
  leave_last_command(*law_, states_, writer_, command_interfaces_, get_node()->get_logger());
  return CallbackReturn::SUCCESS;
}

return_type HandGuidingController::update(const rclcpp::Time &, const rclcpp::Duration & period)
{
  take_news();
  states_.read(state_interfaces_);
  const bool well = law_->update(states_.at(0), states_.at(names_.size()), period.seconds());
  live_->see(states_.at(0));
  const bool written = writer_.write(command_interfaces_, law_->command());
  return well && written ? return_type::OK : return_type::ERROR;
}

void HandGuidingController::take_news()
{
  live_->hand_news_to(*law_);
  if (listener_->try_update_params(params_)) law_->set_friction(params_.friction);
}

}  // namespace ros2_dynid

PLUGINLIB_EXPORT_CLASS(ros2_dynid::HandGuidingController, controller_interface::ControllerInterface)
