// SPDX-License-Identifier: Apache-2.0
#include "feedforward_controller.hpp"

#include "pluginlib/class_list_macros.hpp"

namespace ros2_dynid
{

using controller_interface::CallbackReturn;
using controller_interface::InterfaceConfiguration;
using controller_interface::return_type;

CallbackReturn FeedforwardController::on_init()
{
  return attempt(
    get_node()->get_logger(),
    [this] { listener_ = std::make_shared<feedforward_controller::ParamListener>(get_node()); });
}

InterfaceConfiguration FeedforwardController::command_interface_configuration() const
{
  return interfaces_of(names_, {"effort"}, params_.command_prefix);
}

InterfaceConfiguration FeedforwardController::state_interface_configuration() const
{
  return interfaces_of(names_, state_kinds_);
}

CallbackReturn FeedforwardController::on_configure(const rclcpp_lifecycle::State &)
{
  return attempt(get_node()->get_logger(), [this] { build_parts(); });
}

void FeedforwardController::build_parts()
{
  params_ = listener_->get_params();
  Model model = checked_model(params_.model, params_.joints, get_robot_description());
  places_ = places_of(model, params_.joints);
  declare_added_effort(model, params_.robot_adds, places_);
  names_ = model.active_names();
  state_kinds_ = state_kinds(params_.check_rest_efforts, names_, get_robot_description());
  const double rate = get_update_rate();
  const EffortBounds bounds = effort_bounds_of(params_, model, places_, rate);
  gains_ = gains_of(params_, places_);
  live_ = std::make_shared<LiveModel>(get_node(), model, bounds.limits);
  loop_ = std::make_unique<FeedforwardLoop>(
    params_.reference_lead, 1.0 / rate, model, gains_, bounds,
    FeedforwardOptions{params_.smoothing, params_.timeout});
  stream_ =
    std::make_shared<ReferenceStream>(get_node(), names_, params_.timeout, loop_->law().refused());
  live_->listen(params_.parameters_topic);
  stream_->listen();
  refuse_wrong_gains();
}

/// Gains that do not fit are refused when they are set; update() takes those that do.
void FeedforwardController::refuse_wrong_gains()
{
  on_set_ = get_node()->add_on_set_parameters_callback(
    [listener = listener_, places = places_](const std::vector<rclcpp::Parameter> & changed)
    {
      rcl_interfaces::msg::SetParametersResult result;
      auto p = listener->get_params();
      try
      {
        for (const auto & parameter : changed)
        {
          if (parameter.get_name() == "kp") p.kp = parameter.as_double_array();
          if (parameter.get_name() == "kd") p.kd = parameter.as_double_array();
          if (parameter.get_name() == "damping") p.damping = parameter.as_double_array();
        }
        gains_of(p, places);
      }
      catch (const std::exception & error)
      {
        result.reason = error.what();
      }
      result.successful = result.reason.empty();
      return result;
    });
}

CallbackReturn FeedforwardController::on_cleanup(const rclcpp_lifecycle::State &)
{
  on_set_.reset();
  stream_.reset();
  live_.reset();
  loop_.reset();
  names_.clear();
  return CallbackReturn::SUCCESS;
}

CallbackReturn FeedforwardController::on_activate(const rclcpp_lifecycle::State &)
{
  take_news();
  if (contradicts(*loop_, state_interfaces_, names_, get_node()->get_logger()))
    return CallbackReturn::ERROR;
  stream_->forget();
  auto & references = ordered_exported_reference_interfaces_;
  if (loop_->start(state_interfaces_, command_interfaces_, references, end_.was_just_now()))
    return CallbackReturn::SUCCESS;
  RCLCPP_ERROR(get_node()->get_logger(), "position or velocity of a joint is not known");
  return CallbackReturn::ERROR;
}

CallbackReturn FeedforwardController::on_deactivate(const rclcpp_lifecycle::State &)
{
  leave_last_command(*loop_, state_interfaces_, command_interfaces_, get_node()->get_logger());
  end_.note();
  return CallbackReturn::SUCCESS;
}

std::vector<hardware_interface::CommandInterface::SharedPtr>
FeedforwardController::on_export_reference_interfaces_list()
{
  std::vector<hardware_interface::CommandInterface::SharedPtr> list;
  const std::string own = get_node()->get_name();
  for (const char * kind : {"position", "velocity", "acceleration"})
    for (const auto & name : names_)
      list.push_back(
        exported_interface<hardware_interface::CommandInterface>(own + "/" + name, kind));
  return list;
}

return_type FeedforwardController::update_reference_from_subscribers(
  const rclcpp::Time &, const rclcpp::Duration &)
{
  stream_->hand_news_to([this](const double * values) { loop_->follow(values); });
  return return_type::OK;
}

return_type FeedforwardController::update_and_write_commands(
  const rclcpp::Time &, const rclcpp::Duration & period)
{
  take_news();
  const bool well = loop_->update(
    state_interfaces_, command_interfaces_, ordered_exported_reference_interfaces_,
    is_in_chained_mode(), period.seconds());
  live_->see(loop_->positions());
  return well ? return_type::OK : return_type::ERROR;
}

void FeedforwardController::take_news()
{
  live_->hand_news_to(loop_->law());
  if (!listener_->try_update_params(params_)) return;
  put_gains(params_, places_, gains_);
  loop_->law().set_gains(gains_);
}

}  // namespace ros2_dynid

PLUGINLIB_EXPORT_CLASS(
  ros2_dynid::FeedforwardController, controller_interface::ChainableControllerInterface)
