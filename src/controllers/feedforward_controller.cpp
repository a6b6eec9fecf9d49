// SPDX-License-Identifier: Apache-2.0
// tau = model(reference) + Kp e + Kd de, behind joint_trajectory_controller or a topic. The law is
// in feedforward_law.hpp.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "controller_interface/chainable_controller_interface.hpp"
#include "interfaces.hpp"
#include "live_model.hpp"
#include "pluginlib/class_list_macros.hpp"
#include "realtime_tools/realtime_buffer.hpp"
#include "ros2_dynid/feedforward_controller_parameters.hpp"
#include "ros2_dynid/feedforward_law.hpp"
#include "trajectory_msgs/msg/joint_trajectory_point.hpp"

namespace ros2_dynid
{

class FeedforwardController : public controller_interface::ChainableControllerInterface
{
  using CallbackReturn = controller_interface::CallbackReturn;
  using Configuration = controller_interface::InterfaceConfiguration;
  using Point = trajectory_msgs::msg::JointTrajectoryPoint;
  using Parameters = feedforward_controller::Params;

public:
  CallbackReturn on_init() override
  {
    try
    {
      listener_ = std::make_shared<feedforward_controller::ParamListener>(get_node());
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
      places_ = places(model, p.joints);
      declare_added_effort(model, p.robot_adds, places_);
      n_ = names_.size();
      EffortBounds bounds;
      bounds.limits =
        or_limits(per_joint(p.effort_limits, places_, "effort_limits"), model, &Limits::effort);
      for (std::size_t a = 0; a < n_; ++a)
      {
        if (!std::isfinite(bounds.limits[a]))
        {
          throw std::runtime_error(
            "the model has no effort limit for " + names_[a] + "; set `effort_limits`");
        }
      }
      const auto rates = per_joint(p.effort_rates, places_, "effort_rates");
      bounds.rates = usual_rates(bounds.limits);
      for (std::size_t a = 0; a < n_; ++a)
        if (rates[a] > 0.0) bounds.rates[a] = rates[a];
      bounds.ramp = p.ramp_seconds;
      period_ = 1.0 / static_cast<double>(get_update_rate());
      lead_ = p.reference_lead;
      bounds.longest_step = 2.0 * period_;
      gains_ = NumberedGains{0, gains_of(p)};
      gain_buffer_.initRT(gains_);
      gains_taken_ = 0;
      FeedforwardOptions options;
      options.smoothing = p.smoothing;
      options.timeout = p.timeout;
      live_ = std::make_shared<LiveModel>(get_node(), model, bounds.limits);
      live_->listen(p.parameters_topic);
      law_ = std::make_unique<FeedforwardLaw>(model, gains_.gains, bounds, options);
    }
    catch (const std::exception & error)
    {
      RCLCPP_ERROR(get_node()->get_logger(), "%s", error.what());
      return CallbackReturn::ERROR;
    }
    q_.assign(n_, unknown);
    dq_.assign(n_, unknown);
    reference_.assign(3 * n_, unknown);
    streamed_ = Streamed{0, std::vector<double>(3 * n_, unknown)};
    stream_.initRT(streamed_);
    streamed_taken_ = 0;
    subscription_ = get_node()->create_subscription<Point>(
      "~/reference", rclcpp::SystemDefaultsQoS(),
      [this](const Point & point) { take_point(point); });
    refused_timer_ =
      get_node()->create_wall_timer(std::chrono::seconds(1), [this] { tell_refused(); });
    on_set_ = get_node()->add_on_set_parameters_callback(
      [this, live = live_](const std::vector<rclcpp::Parameter> & changed)
      { return check_change(changed, *live); });
    post_set_ = get_node()->add_post_set_parameters_callback(
      [this, live = live_](const std::vector<rclcpp::Parameter> & changed)
      { take_change(changed, *live); });
    return CallbackReturn::SUCCESS;
  }

  CallbackReturn on_cleanup(const rclcpp_lifecycle::State &) override
  {
    refused_timer_.reset();
    subscription_.reset();
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
    forget_references();
    if (!all_finite(dq_.data(), n_) || !law_->start(q_.data()))
    {
      RCLCPP_ERROR(get_node()->get_logger(), "position or velocity of a joint is not known");
      return CallbackReturn::ERROR;
    }
    write(command_interfaces_, law_->command());  // the arm must not fall before the first update
    return CallbackReturn::SUCCESS;
  }

  CallbackReturn on_deactivate(const rclcpp_lifecycle::State &) override
  {
    // Hardware keeps the last command: leave what holds the arm, not what the motion needed.
    measure();
    law_->end(q_.data());
    if (!write_surely(command_interfaces_, law_->command()))
    {
      RCLCPP_ERROR(
        get_node()->get_logger(), "the torque against gravity could not be left at every joint");
    }
    return CallbackReturn::SUCCESS;
  }

protected:
  std::vector<hardware_interface::CommandInterface::SharedPtr> on_export_reference_interfaces_list()
    override
  {
    std::vector<hardware_interface::CommandInterface::SharedPtr> list;
    for (const char * kind : {"position", "velocity", "acceleration"})
    {
      for (const auto & name : names_)
      {
        hardware_interface::InterfaceInfo info;
        info.name = kind;
        info.data_type = "double";
        list.push_back(
          std::make_shared<hardware_interface::CommandInterface>(
            hardware_interface::InterfaceDescription(
              std::string(get_node()->get_name()) + "/" + name, info)));
      }
    }
    return list;
  }

  controller_interface::return_type update_reference_from_subscribers(
    const rclcpp::Time &, const rclcpp::Duration &) override
  {
    const Streamed * latest = stream_.readFromRT();
    if (latest->number != streamed_taken_)
    {
      streamed_taken_ = latest->number;
      const double * x = latest->values.data();
      law_->set_reference(x, x + n_, x + 2 * n_, std::max(0.0, lead_));
    }
    return controller_interface::return_type::OK;
  }

  controller_interface::return_type update_and_write_commands(
    const rclcpp::Time &, const rclcpp::Duration & period) override
  {
    take_news();
    measure();
    if (is_in_chained_mode())
    {
      // What was read is marked as read, so that a controller before this one that stops to write
      // is noticed.
      auto & interfaces = ordered_exported_reference_interfaces_;
      for (std::size_t k = 0; k < 3 * n_; ++k)
      {
        const auto value = interfaces[k]->get_optional();
        reference_[k] = value.has_value() && interfaces[k]->set_value(unknown) ? *value : unknown;
      }
      const auto is_written = [](double value) { return !std::isnan(value); };
      if (std::any_of(reference_.begin(), reference_.end(), is_written))
      {
        law_->set_reference(
          &reference_[0], &reference_[n_], &reference_[2 * n_], lead_ >= 0.0 ? lead_ : period_);
      }
    }
    const bool well = law_->update(q_.data(), dq_.data(), period.seconds());
    live_->seen(q_.data());
    write(command_interfaces_, law_->command());
    return well ? controller_interface::return_type::OK : controller_interface::return_type::ERROR;
  }

private:
  struct NumberedGains
  {
    std::uint64_t number = 0;
    Gains gains;
  };
  struct Streamed
  {
    std::uint64_t number = 0;
    std::vector<double> values;
  };
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  Gains gains_of(const Parameters & p) const
  {
    Gains gains;
    gains.kp = per_joint(p.kp, places_, "kp");
    gains.kd = per_joint(p.kd, places_, "kd");
    gains.damping = per_joint(p.damping, places_, "damping");
    for (std::size_t a = 0; a < n_; ++a)
      if (!(gains.damping[a] >= 0.0)) gains.damping[a] = gains.kd[a];
    return gains;
  }

  rcl_interfaces::msg::SetParametersResult check_change(
    const std::vector<rclcpp::Parameter> & changed, LiveModel & live)
  {
    rcl_interfaces::msg::SetParametersResult result;
    result.successful = true;
    Parameters p = listener_->get_params();
    try
    {
      for (const auto & parameter : changed)
      {
        if (parameter.get_name() == "kp") p.kp = parameter.as_double_array();
        if (parameter.get_name() == "kd") p.kd = parameter.as_double_array();
        if (parameter.get_name() == "damping") p.damping = parameter.as_double_array();
        if (parameter.get_name() == "model")
          result.reason = live.take_file(parameter.as_string(), true);
      }
      const Gains gains = gains_of(p);
      for (const auto * list : {&gains.kp, &gains.kd, &gains.damping})
      {
        if (!all_finite(list->data(), n_)) result.reason = "a gain is not finite";
      }
    }
    catch (const std::exception & error)
    {
      result.reason = error.what();
    }
    result.successful = result.reason.empty();
    return result;
  }

  void take_change(const std::vector<rclcpp::Parameter> & changed, LiveModel & live)
  {
    bool new_gains = false;
    for (const auto & parameter : changed)
    {
      const std::string & name = parameter.get_name();
      new_gains = new_gains || name == "kp" || name == "kd" || name == "damping";
      if (name == "model") live.take_file(parameter.as_string(), false);
    }
    if (!new_gains) return;
    gains_.gains = gains_of(listener_->get_params());
    ++gains_.number;
    gain_buffer_.writeFromNonRT(gains_);
  }

  void take_point(const Point & point)
  {
    const std::vector<double> * lists[] = {
      &point.positions, &point.velocities, &point.accelerations};
    for (std::size_t k = 0; k < 3; ++k)
    {
      if (lists[k]->size() != n_)
      {
        law_->refused().count(ReferenceFault::sizes);
        return;
      }
      for (std::size_t a = 0; a < n_; ++a) streamed_.values[k * n_ + a] = (*lists[k])[places_[a]];
    }
    ++streamed_.number;
    stream_.writeFromNonRT(streamed_);
  }

  /// In a timer, outside the control loop: say which references were refused in the last second.
  void tell_refused()
  {
    const std::string news = law_->refused().news();
    if (!news.empty()) RCLCPP_WARN(get_node()->get_logger(), "%s", news.c_str());
  }

  void take_news()
  {
    if (const ModelNews * news = live_->news())
    {
      law_->set_parameters(news->model);
      law_->set_payload(news->load);
    }
    const NumberedGains * latest = gain_buffer_.readFromRT();
    if (latest->number != gains_taken_)
    {
      gains_taken_ = latest->number;
      law_->set_gains(latest->gains);
    }
  }

  /// Never follow a reference from before the activation.
  void forget_references()
  {
    for (auto & interface : ordered_exported_reference_interfaces_)
      static_cast<void>(interface->set_value(unknown));
    streamed_taken_ = stream_.readFromRT()->number;
    law_->clear_reference();
  }

  void measure()
  {
    read(state_interfaces_, 0, n_, q_.data());
    read(state_interfaces_, n_, n_, dq_.data());
  }

  std::shared_ptr<feedforward_controller::ParamListener> listener_;
  std::vector<std::string> names_;
  std::vector<std::size_t> places_;
  std::size_t n_ = 0;
  double period_ = 0.0, lead_ = 0.0;
  std::shared_ptr<LiveModel> live_;
  std::unique_ptr<FeedforwardLaw> law_;
  NumberedGains gains_;
  realtime_tools::RealtimeBuffer<NumberedGains> gain_buffer_;
  std::uint64_t gains_taken_ = 0;
  Streamed streamed_;
  realtime_tools::RealtimeBuffer<Streamed> stream_;
  std::uint64_t streamed_taken_ = 0;
  std::vector<double> q_, dq_, reference_;
  rclcpp::Subscription<Point>::SharedPtr subscription_;
  rclcpp::TimerBase::SharedPtr refused_timer_;
  rclcpp::node_interfaces::OnSetParametersCallbackHandle::SharedPtr on_set_;
  rclcpp::node_interfaces::PostSetParametersCallbackHandle::SharedPtr post_set_;
};

}  // namespace ros2_dynid

PLUGINLIB_EXPORT_CLASS(
  ros2_dynid::FeedforwardController, controller_interface::ChainableControllerInterface)
