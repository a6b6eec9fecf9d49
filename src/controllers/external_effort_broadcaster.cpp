// SPDX-License-Identifier: Apache-2.0
#include "external_effort_broadcaster.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "pluginlib/class_list_macros.hpp"
#include "ros2_dynid/controller_parameters.hpp"

namespace ros2_dynid
{

using controller_interface::CallbackReturn;
using controller_interface::InterfaceConfiguration;
using controller_interface::return_type;

namespace
{

const Tool * tool_of(const Model & model, const std::string & link)
{
  if (link.empty()) return nullptr;
  for (const auto & tool : model.tools)
    if (tool.link == link) return &tool;
  throw std::runtime_error(
    "the model has no last link " + link + "; set `frame` to one of its links");
}

}  // namespace

ExternalEffortPublication::ExternalEffortPublication(
  rclcpp_lifecycle::LifecycleNode::SharedPtr node, const Model & model, const Tool * tool)
: node_(std::move(node)), geometry_(model)
{
  const std::size_t n = geometry_.joints();
  told_.q.assign(n, 0.0);
  told_.external.assign(n, 0.0);
  box_.set(told_);
  state_.name = model.active_names();
  state_.effort.assign(n, 0.0);
  state_publisher_ = node_->create_publisher<sensor_msgs::msg::JointState>(
    "~/external_effort", rclcpp::SystemDefaultsQoS());
  if (!tool) return;
  tool_ = *tool;
  wrench_ = std::make_unique<WrenchEstimator>(n);
  force_.header.frame_id = tool->link;
  wrench_publisher_ = node_->create_publisher<geometry_msgs::msg::WrenchStamped>(
    "~/wrench", rclcpp::SystemDefaultsQoS());
}

void ExternalEffortPublication::listen(double rate)
{
  timer_ = rclcpp::create_timer(
    node_, node_->get_clock(), rclcpp::Duration::from_seconds(1.0 / rate),
    [weak = weak_from_this()]
    {
      if (const auto self = weak.lock()) self->publish();
    });
  timer_->cancel();
}

void ExternalEffortPublication::tell(
  const rclcpp::Time & time, bool known, const double * q, const double * external)
{
  const auto now = std::make_pair(time, known);
  const auto values = std::make_pair(q, external);
  box_.try_set(
    [&now, &values](Snapshot & snapshot)
    {
      snapshot.time = now.first;
      snapshot.known = now.second;
      std::copy(values.first, values.first + snapshot.q.size(), snapshot.q.begin());
      std::copy(values.second, values.second + snapshot.q.size(), snapshot.external.begin());
    });
}

void ExternalEffortPublication::publish()
{
  const rclcpp::Time before = told_.time;
  box_.get(told_);
  if (told_.time == before) return;
  state_.header.stamp = force_.header.stamp = told_.time;
  for (std::size_t a = 0; a < told_.q.size(); ++a)
    state_.effort[a] = told_.known ? told_.external[a] : unknown;
  state_publisher_->publish(state_);
  std::array<double, 6> F{};
  if (!wrench_ || !told_.known) return;
  if (!wrench_->update(geometry_, tool_, told_.q.data(), told_.external.data(), F)) return;
  auto & wrench = force_.wrench;
  double * const to[] = {&wrench.force.x,  &wrench.force.y,  &wrench.force.z,
                         &wrench.torque.x, &wrench.torque.y, &wrench.torque.z};
  for (std::size_t k = 0; k < F.size(); ++k) *to[k] = F[k];
  wrench_publisher_->publish(force_);
}

CallbackReturn ExternalEffortBroadcaster::on_init()
{
  return attempt(
    get_node()->get_logger(), [this]
    { listener_ = std::make_shared<external_effort_broadcaster::ParamListener>(get_node()); });
}

InterfaceConfiguration ExternalEffortBroadcaster::command_interface_configuration() const
{
  return {controller_interface::interface_configuration_type::NONE, {}};
}

InterfaceConfiguration ExternalEffortBroadcaster::state_interface_configuration() const
{
  return interfaces_of(names_, {"position", "velocity", "effort"});
}

CallbackReturn ExternalEffortBroadcaster::on_configure(const rclcpp_lifecycle::State &)
{
  return attempt(get_node()->get_logger(), [this] { build_parts(); });
}

void ExternalEffortBroadcaster::build_parts()
{
  const auto node = get_node();
  const auto p = listener_->get_params();
  const Model model = checked_model(p.model, p.joints, get_robot_description());
  const Places places = places_of(model, p.joints);
  names_ = model.active_names();
  ObserverOptions options;
  options.bandwidth = p.bandwidth;
  options.smoothing = p.smoothing;
  options.longest_step = 4.0 / std::min(p.bandwidth, static_cast<double>(get_update_rate()));
  ContactOptions contacts;
  contacts.bandwidth = p.bandwidth;
  contacts.width = p.width;
  loop_ = std::make_unique<ExternalEffortLoop>(
    model, options, per_joint(p.thresholds, places, "thresholds"), contacts);
  if (!loop_->contacts().usable())
  {
    RCLCPP_WARN(
      node->get_logger(),
      "the model has no error bars and no `thresholds` are set: no contact will be found");
  }
  const std::size_t n = names_.size();
  contact_.joints = names_;
  contact_.external_effort.assign(n, 0.0);
  contact_.threshold.assign(n, 0.0);
  contact_.beyond.assign(n, false);
  contact_publisher_ = std::make_unique<realtime_tools::RealtimePublisher<msg::Contact>>(
    node->create_publisher<msg::Contact>(
      "~/contact", rclcpp::QoS(10).reliable().transient_local()));
  live_ = std::make_shared<LiveModel>(node, model, std::vector<double>{});
  publication_ = std::make_shared<ExternalEffortPublication>(node, model, tool_of(model, p.frame));
  live_->listen(p.parameters_topic);
  publication_->listen(p.publish_rate);
}

CallbackReturn ExternalEffortBroadcaster::on_cleanup(const rclcpp_lifecycle::State &)
{
  publication_.reset();
  contact_publisher_.reset();
  live_.reset();
  loop_.reset();
  names_.clear();
  return CallbackReturn::SUCCESS;
}

CallbackReturn ExternalEffortBroadcaster::on_activate(const rclcpp_lifecycle::State &)
{
  loop_->start();
  tell_contact_ = false;
  fill_contact(get_node()->now());
  contact_publisher_->try_publish(contact_);  // makes room in the publisher: update() need not
  loop_->give(ordered_exported_state_interfaces_);
  publication_->activate();
  return CallbackReturn::SUCCESS;
}

CallbackReturn ExternalEffortBroadcaster::on_deactivate(const rclcpp_lifecycle::State &)
{
  publication_->deactivate();
  for (auto & interface : ordered_exported_state_interfaces_)
    static_cast<void>(interface->set_value(unknown));
  return CallbackReturn::SUCCESS;
}

std::vector<hardware_interface::StateInterface::SharedPtr>
ExternalEffortBroadcaster::on_export_state_interfaces_list()
{
  std::vector<hardware_interface::StateInterface::SharedPtr> list;
  const std::string own = get_node()->get_name();
  using hardware_interface::StateInterface;
  for (const auto & name : names_)
    list.push_back(exported_interface<StateInterface>(own + "/" + name, "external_effort"));
  list.push_back(exported_interface<StateInterface>(own, "contact"));
  return list;
}

return_type ExternalEffortBroadcaster::update_reference_from_subscribers(
  const rclcpp::Time &, const rclcpp::Duration &)
{
  return return_type::OK;
}

return_type ExternalEffortBroadcaster::update_and_write_commands(
  const rclcpp::Time & time, const rclcpp::Duration & period)
{
  live_->hand_news_to(loop_->observer());
  const ContactEvent event = loop_->update(state_interfaces_, period.seconds());
  loop_->give(ordered_exported_state_interfaces_);
  tell_contact_ = tell_contact_ || event != ContactEvent::none;
  if (tell_contact_)
  {
    fill_contact(time);
    // an event must not be lost: again in the next update
    tell_contact_ = !contact_publisher_->try_publish(contact_);
  }
  publication_->tell(time, loop_->known(), loop_->positions(), loop_->external());
  return return_type::OK;
}

void ExternalEffortBroadcaster::fill_contact(const rclcpp::Time & time)
{
  contact_.header.stamp = time;
  contact_.contact = loop_->contacts().contact();
  for (std::size_t a = 0; a < names_.size(); ++a)
  {
    contact_.external_effort[a] = loop_->external()[a];
    contact_.threshold[a] = loop_->contacts().thresholds()[a];
    contact_.beyond[a] = loop_->contacts().beyond()[a] != 0;
  }
}

}  // namespace ros2_dynid

PLUGINLIB_EXPORT_CLASS(
  ros2_dynid::ExternalEffortBroadcaster, controller_interface::ChainableControllerInterface)
