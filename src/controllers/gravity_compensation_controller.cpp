// SPDX-License-Identifier: Apache-2.0
// Hand guiding: gravity, a fraction of the friction, guards of speed and range. The law is in
// hand_guiding_law.hpp.
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "controller_interface/controller_interface.hpp"
#include "interfaces.hpp"
#include "live_model.hpp"
#include "pluginlib/class_list_macros.hpp"
#include "ros2_dynid/gravity_compensation_controller_parameters.hpp"
#include "ros2_dynid/hand_guiding_law.hpp"

namespace ros2_dynid
{

class GravityCompensationController : public controller_interface::ControllerInterface
{
  using CallbackReturn = controller_interface::CallbackReturn;
  using Configuration = controller_interface::InterfaceConfiguration;
  using Parameters = gravity_compensation_controller::Params;

public:
  CallbackReturn on_init() override
  {
    try
    {
      listener_ = std::make_shared<gravity_compensation_controller::ParamListener>(get_node());
    }
    catch (const std::exception & error)
    {
      RCLCPP_ERROR(get_node()->get_logger(), "%s", error.what());
      return CallbackReturn::ERROR;
    }
    return CallbackReturn::SUCCESS;
  }

  Configuration command_interface_configuration() const override
  {
    return interfaces_of(names_, {"effort"});
  }
  Configuration state_interface_configuration() const override
  {
    return interfaces_of(names_, {"position", "velocity"});
  }

  CallbackReturn on_configure(const rclcpp_lifecycle::State &) override
  {
    try
    {
      const Parameters p = listener_->get_params();
      Model model = checked_model(p.model, p.joints, get_robot_description());
      names_ = model.active_names();
      n_ = names_.size();
      const auto order = places(model, p.joints);
      declare_added_effort(model, p.robot_adds, order);
      EffortBounds bounds;
      bounds.limits =
        or_limits(per_joint(p.effort_limits, order, "effort_limits"), model, &Limits::effort);
      HandGuidingOptions options;
      options.speed = per_joint(p.speed_limits, order, "speed_limits");
      const auto active = model.active();
      for (std::size_t a = 0; a < n_; ++a)
      {
        const Limits & limits = model.joints[active[a] - 1].limits;
        if (!(options.speed[a] > 0.0)) options.speed[a] = 0.5 * limits.velocity;
        if (!std::isfinite(options.speed[a]))
          throw std::runtime_error("set `speed_limits`: the model has none for " + names_[a]);
        if (!std::isfinite(bounds.limits[a]))
          throw std::runtime_error("set `effort_limits`: the model has none for " + names_[a]);
        options.lower.push_back(limits.lower);
        options.upper.push_back(limits.upper);
      }
      const auto rates = per_joint(p.effort_rates, order, "effort_rates");
      bounds.rates = usual_rates(bounds.limits);
      for (std::size_t a = 0; a < n_; ++a)
        if (rates[a] > 0.0) bounds.rates[a] = rates[a];
      bounds.ramp = p.ramp_seconds;
      bounds.longest_step = 2.0 / static_cast<double>(get_update_rate());
      options.margin = per_joint(p.range_margins, order, "range_margins");
      options.damping = per_joint(p.damping, order, "damping");
      options.friction = p.friction;
      options.smoothing = p.smoothing;
      options.wall = p.wall;
      options.time = p.brake_seconds;
      options.timeout = p.timeout;
      live_ = std::make_shared<LiveModel>(get_node(), model, bounds.limits);
      live_->listen(p.parameters_topic);
      law_ = std::make_unique<HandGuidingLaw>(model, options, bounds);
      friction_ = p.friction;
      friction_taken_ = p.friction;
    }
    catch (const std::exception & error)
    {
      RCLCPP_ERROR(get_node()->get_logger(), "%s", error.what());
      return CallbackReturn::ERROR;
    }
    q_.assign(n_, unknown);
    dq_.assign(n_, unknown);
    on_set_ = get_node()->add_on_set_parameters_callback(
      [live = live_](const std::vector<rclcpp::Parameter> & changed)
      {
        rcl_interfaces::msg::SetParametersResult result;
        for (const auto & parameter : changed)
        {
          if (parameter.get_name() == "model")
            result.reason = live->take_file(parameter.as_string(), true);
        }
        result.successful = result.reason.empty();
        return result;
      });
    post_set_ = get_node()->add_post_set_parameters_callback(
      [this, live = live_](const std::vector<rclcpp::Parameter> & changed)
      {
        for (const auto & parameter : changed)
        {
          if (parameter.get_name() == "model") live->take_file(parameter.as_string(), false);
          if (parameter.get_name() == "friction") friction_ = parameter.as_double();
        }
      });
    return CallbackReturn::SUCCESS;
  }

  CallbackReturn on_cleanup(const rclcpp_lifecycle::State &) override
  {
    on_set_.reset();
    post_set_.reset();
    live_.reset();
    law_.reset();
    names_.clear();
    return CallbackReturn::SUCCESS;
  }

  CallbackReturn on_activate(const rclcpp_lifecycle::State &) override
  {
    q_.assign(n_, unknown);
    dq_.assign(n_, unknown);
    measure();
    take_news();
    const std::size_t outside = law_->outside(q_.data());
    if (outside < n_)
    {
      RCLCPP_ERROR(
        get_node()->get_logger(),
        "%s is outside its range or not known; move it by hand or with another controller",
        names_[outside].c_str());
      return CallbackReturn::ERROR;
    }
    if (!all_finite(dq_.data(), n_) || !law_->start(q_.data()))
    {
      RCLCPP_ERROR(get_node()->get_logger(), "the velocity of a joint is not known");
      return CallbackReturn::ERROR;
    }
    write(command_interfaces_, law_->command());
    return CallbackReturn::SUCCESS;
  }

  CallbackReturn on_deactivate(const rclcpp_lifecycle::State &) override
  {
    law_->end();  // leave gravity's torque, not a guard's
    if (!write_surely(command_interfaces_, law_->command()))
    {
      RCLCPP_ERROR(
        get_node()->get_logger(), "the torque against gravity could not be left at every joint");
    }
    return CallbackReturn::SUCCESS;
  }

  controller_interface::return_type update(
    const rclcpp::Time &, const rclcpp::Duration & period) override
  {
    take_news();
    measure();
    const bool well = law_->update(q_.data(), dq_.data(), period.seconds());
    live_->seen(q_.data());
    write(command_interfaces_, law_->command());
    return well ? controller_interface::return_type::OK : controller_interface::return_type::ERROR;
  }

private:
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  void take_news()
  {
    if (const ModelNews * news = live_->news())
    {
      law_->set_parameters(news->model);
      law_->set_payload(news->load);
    }
    const double friction = friction_.load(std::memory_order_relaxed);
    if (friction != friction_taken_)
    {
      friction_taken_ = friction;
      law_->set_friction(friction);
    }
  }

  void measure()
  {
    read(state_interfaces_, 0, n_, q_.data());
    read(state_interfaces_, n_, n_, dq_.data());
  }

  std::shared_ptr<gravity_compensation_controller::ParamListener> listener_;
  std::vector<std::string> names_;
  std::size_t n_ = 0;
  std::shared_ptr<LiveModel> live_;
  std::unique_ptr<HandGuidingLaw> law_;
  std::atomic<double> friction_{0.0};
  double friction_taken_ = 0.0;
  std::vector<double> q_, dq_;
  rclcpp::node_interfaces::OnSetParametersCallbackHandle::SharedPtr on_set_;
  rclcpp::node_interfaces::PostSetParametersCallbackHandle::SharedPtr post_set_;
};

}  // namespace ros2_dynid

PLUGINLIB_EXPORT_CLASS(
  ros2_dynid::GravityCompensationController, controller_interface::ControllerInterface)
