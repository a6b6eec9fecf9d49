// SPDX-License-Identifier: Apache-2.0
// What the robot feels: external efforts as states and topic, contacts, wrench at a link. The
// observer is in observer.hpp.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "controller_interface/chainable_controller_interface.hpp"
#include "geometry_msgs/msg/wrench_stamped.hpp"
#include "interfaces.hpp"
#include "live_model.hpp"
#include "pluginlib/class_list_macros.hpp"
#include "realtime_tools/realtime_publisher.hpp"
#include "ros2_dynid/external_effort_broadcaster_parameters.hpp"
#include "ros2_dynid/msg/contact.hpp"
#include "ros2_dynid/observer.hpp"
#include "sensor_msgs/msg/joint_state.hpp"

namespace ros2_dynid
{

class ExternalEffortBroadcaster : public controller_interface::ChainableControllerInterface
{
  using CallbackReturn = controller_interface::CallbackReturn;
  using Configuration = controller_interface::InterfaceConfiguration;
  using Parameters = external_effort_broadcaster::Params;
  using Wrench = geometry_msgs::msg::WrenchStamped;
  using State = sensor_msgs::msg::JointState;

public:
  CallbackReturn on_init() override
  {
    try
    {
      listener_ = std::make_shared<external_effort_broadcaster::ParamListener>(get_node());
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
    return {controller_interface::interface_configuration_type::NONE, {}};
  }
  Configuration state_interface_configuration() const override
  {
    return interfaces_of(names_, {"position", "velocity", "effort"});
  }

  CallbackReturn on_configure(const rclcpp_lifecycle::State &) override
  {
    try
    {
      const Parameters p = listener_->get_params();
      const Model model = checked_model(p.model, p.joints, get_robot_description());
      names_ = model.active_names();
      n_ = names_.size();
      ObserverOptions options;
      options.bandwidth = p.bandwidth;
      options.smoothing = p.smoothing;
      options.longest_step = 4.0 / std::min(p.bandwidth, static_cast<double>(get_update_rate()));
      ContactOptions contacts;
      contacts.bandwidth = p.bandwidth;
      contacts.width = p.width;
      const auto thresholds = per_joint(p.thresholds, places(model, p.joints), "thresholds");
      observer_ = std::make_unique<MomentumObserver>(model, options);
      contacts_ = std::make_unique<ContactDetector>(model.error_bars, thresholds, contacts);
      if (!contacts_->usable())
      {
        RCLCPP_WARN(
          get_node()->get_logger(),
          "the model has no error bars and no `thresholds` are set: no contact will be found");
      }
      wrench_.reset();
      if (!p.frame.empty())
      {
        bool found = false;
        for (const auto & tool : model.tools)
        {
          if (tool.link != p.frame) continue;
          tool_ = tool;
          found = true;
        }
        if (!found)
          throw std::runtime_error(
            "the model has no last link " + p.frame + "; set `frame` to one of its links");
        wrench_ = std::make_unique<WrenchEstimator>(n_);
        geometry_ = std::make_unique<Dynamics>(model);
      }
      live_ = std::make_shared<LiveModel>(get_node(), model, std::vector<double>{});
      live_->listen(p.parameters_topic);
      period_ = 1.0 / p.publish_rate;
    }
    catch (const std::exception & error)
    {
      RCLCPP_ERROR(get_node()->get_logger(), "%s", error.what());
      return CallbackReturn::ERROR;
    }
    measured_.assign(3 * n_, unknown);
    state_.name = contact_.joints = names_;
    state_.effort.assign(n_, 0.0);
    contact_.external_effort.assign(n_, 0.0);
    contact_.threshold.assign(n_, 0.0);
    contact_.beyond.assign(n_, false);
    force_.header.frame_id = wrench_ ? tool_.link : "";
    const auto node = get_node();
    state_publisher_ =
      node->create_publisher<State>("~/external_effort", rclcpp::SystemDefaultsQoS());
    contact_publisher_ = std::make_unique<realtime_tools::RealtimePublisher<msg::Contact>>(
      node->create_publisher<msg::Contact>(
        "~/contact", rclcpp::QoS(10).reliable().transient_local()));
    if (wrench_)
      wrench_publisher_ = node->create_publisher<Wrench>("~/wrench", rclcpp::SystemDefaultsQoS());
    shared_ = told_ = Snapshot{
      rclcpp::Time(0, 0, RCL_ROS_TIME), false, std::vector<double>(n_, 0.0),
      std::vector<double>(n_, 0.0)};
    timer_ = node->create_wall_timer(std::chrono::duration<double>(period_), [this] { publish(); });
    on_set_ = node->add_on_set_parameters_callback(
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
    post_set_ = node->add_post_set_parameters_callback(
      [live = live_](const std::vector<rclcpp::Parameter> & changed)
      {
        for (const auto & parameter : changed)
        {
          if (parameter.get_name() == "model") live->take_file(parameter.as_string(), false);
        }
      });
    return CallbackReturn::SUCCESS;
  }

  CallbackReturn on_cleanup(const rclcpp_lifecycle::State &) override
  {
    timer_.reset();
    on_set_.reset();
    post_set_.reset();
    state_publisher_.reset();
    contact_publisher_.reset();
    wrench_publisher_.reset();
    live_.reset();
    observer_.reset();
    contacts_.reset();
    names_.clear();
    return CallbackReturn::SUCCESS;
  }

  CallbackReturn on_activate(const rclcpp_lifecycle::State &) override
  {
    observer_->restart();
    contacts_->restart();
    lost_ = 0.0;
    tell_contact_ = false;
    fill_contact(get_node()->now());
    contact_publisher_->try_publish(
      contact_);  // makes room in the publisher, so that update() need not
    active_ = true;
    give_states();
    return CallbackReturn::SUCCESS;
  }

  CallbackReturn on_deactivate(const rclcpp_lifecycle::State &) override
  {
    active_ = false;
    for (auto & interface : ordered_exported_state_interfaces_)
      static_cast<void>(interface->set_value(unknown));
    return CallbackReturn::SUCCESS;
  }

protected:
  std::vector<hardware_interface::StateInterface::SharedPtr> on_export_state_interfaces_list()
    override
  {
    std::vector<hardware_interface::StateInterface::SharedPtr> list;
    const std::string own = get_node()->get_name();
    const auto add = [&list](const std::string & prefix, const std::string & kind)
    {
      hardware_interface::InterfaceInfo info;
      info.name = kind;
      info.data_type = "double";
      list.push_back(
        std::make_shared<hardware_interface::StateInterface>(
          hardware_interface::InterfaceDescription(prefix, info)));
    };
    for (const auto & name : names_) add(own + "/" + name, "external_effort");
    add(own, "contact");
    return list;
  }

  controller_interface::return_type update_reference_from_subscribers(
    const rclcpp::Time &, const rclcpp::Duration &) override
  {
    return controller_interface::return_type::OK;
  }

  controller_interface::return_type update_and_write_commands(
    const rclcpp::Time & time, const rclcpp::Duration & period) override
  {
    if (const ModelNews * news = live_->news())
    {
      observer_->set_parameters(news->model);
      observer_->set_payload(news->load);
    }
    read(state_interfaces_, 0, 3 * n_, measured_.data());
    const double dt = period.seconds();
    const double *q = &measured_[0], *dq = &measured_[n_], *effort = &measured_[2 * n_];
    const bool good = observer_->update(q, dq, effort, dt);
    const ContactEvent event =
      good ? contacts_->update(observer_->external(), observer_->undecided(), dt)
           : ContactEvent::none;
    lost_ = good ? 0.0 : lost_ + (dt > 0.0 ? dt : 0.0);
    give_states();
    tell_contact_ = tell_contact_ || event != ContactEvent::none;
    if (tell_contact_)
    {
      fill_contact(time);
      tell_contact_ = !contact_publisher_->try_publish(
        contact_);  // an event must not be lost: again in the next update
    }
    // What is sent at a rate is left for a timer: waking another thread costs more than all of the
    // above.
    const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (lock.owns_lock())
    {
      shared_.time = time;
      shared_.known = lost_ <= stale;
      std::copy(q, q + n_, shared_.q.begin());
      std::copy(observer_->external(), observer_->external() + n_, shared_.external.begin());
    }
    return controller_interface::return_type::OK;
  }

private:
  struct Snapshot
  {
    rclcpp::Time time;
    bool known = false;
    std::vector<double> q, external;
  };
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  static constexpr double stale =
    0.1;  ///< after this time without a usable sample nothing is known [s]

  void give_states()
  {
    auto & interfaces = ordered_exported_state_interfaces_;
    const bool known = lost_ <= stale;
    for (std::size_t a = 0; a < n_; ++a)
      static_cast<void>(interfaces[a]->set_value(known ? observer_->external()[a] : unknown));
    static_cast<void>(
      interfaces[n_]->set_value(known ? (contacts_->contact() ? 1.0 : 0.0) : unknown));
  }

  void fill_contact(const rclcpp::Time & time)
  {
    contact_.header.stamp = time;
    contact_.contact = contacts_->contact();
    for (std::size_t a = 0; a < n_; ++a)
    {
      contact_.external_effort[a] = observer_->external()[a];
      contact_.threshold[a] = contacts_->thresholds()[a];
      contact_.beyond[a] = contacts_->beyond()[a] != 0;
    }
  }

  /// In the timer: send what update() found last.
  void publish()
  {
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      if (!active_ || shared_.time == told_.time) return;
      told_ = shared_;
    }
    state_.header.stamp = told_.time;
    for (std::size_t a = 0; a < n_; ++a)
      state_.effort[a] = told_.known ? told_.external[a] : unknown;
    state_publisher_->publish(state_);
    if (!wrench_ || !told_.known) return;
    std::array<double, 6> F{};
    if (!wrench_->update(*geometry_, tool_, told_.q.data(), told_.external.data(), F)) return;
    force_.header.stamp = told_.time;
    force_.wrench.force.x = F[0];
    force_.wrench.force.y = F[1];
    force_.wrench.force.z = F[2];
    force_.wrench.torque.x = F[3];
    force_.wrench.torque.y = F[4];
    force_.wrench.torque.z = F[5];
    wrench_publisher_->publish(force_);
  }

  std::shared_ptr<external_effort_broadcaster::ParamListener> listener_;
  std::vector<std::string> names_;
  std::size_t n_ = 0;
  std::shared_ptr<LiveModel> live_;
  std::unique_ptr<MomentumObserver> observer_;
  std::unique_ptr<ContactDetector> contacts_;
  std::unique_ptr<WrenchEstimator> wrench_;
  Tool tool_;
  std::vector<double> measured_;
  double period_ = 0.01, lost_ = 0.0;
  bool tell_contact_ = false;
  State state_;
  msg::Contact contact_;
  Wrench force_;
  std::mutex mutex_;  // of shared_; update() only tries it
  Snapshot shared_, told_;
  std::atomic<bool> active_{false};
  std::unique_ptr<Dynamics> geometry_;
  rclcpp::TimerBase::SharedPtr timer_;
  rclcpp::Publisher<State>::SharedPtr state_publisher_;
  std::unique_ptr<realtime_tools::RealtimePublisher<msg::Contact>> contact_publisher_;
  rclcpp::Publisher<Wrench>::SharedPtr wrench_publisher_;
  rclcpp::node_interfaces::OnSetParametersCallbackHandle::SharedPtr on_set_;
  rclcpp::node_interfaces::PostSetParametersCallbackHandle::SharedPtr post_set_;
};

}  // namespace ros2_dynid

PLUGINLIB_EXPORT_CLASS(
  ros2_dynid::ExternalEffortBroadcaster, controller_interface::ChainableControllerInterface)
