// SPDX-License-Identifier: Apache-2.0
#include "wrist_wrench_broadcaster.hpp"

#include <algorithm>
#include <stdexcept>

#include "live_model.hpp"
#include "pluginlib/class_list_macros.hpp"

namespace ros2_dynid
{

using controller_interface::CallbackReturn;
using controller_interface::InterfaceConfiguration;
using controller_interface::return_type;

namespace
{

constexpr const char * axes[] = {"force.x",  "force.y",  "force.z",
                                 "torque.x", "torque.y", "torque.z"};

Tool link_of(const Model & model, const std::string & name, const std::string & parameter)
{
  for (const auto & tool : model.tools)
    if (tool.link == name) return tool;
  throw std::runtime_error(
    "the model has no last link " + name + "; set `" + parameter + "` to one of its links");
}

template <std::size_t count>
void fill(std::array<double, count> & into, const std::vector<double> & values)
{
  std::copy_n(values.begin(), count, into.begin());
}

}  // namespace

CallbackReturn WristWrenchBroadcaster::on_init()
{
  return attempt(
    get_node()->get_logger(),
    [this] { listener_ = std::make_shared<wrist_wrench_broadcaster::ParamListener>(get_node()); });
}

InterfaceConfiguration WristWrenchBroadcaster::command_interface_configuration() const
{
  return {controller_interface::interface_configuration_type::NONE, {}};
}

InterfaceConfiguration WristWrenchBroadcaster::state_interface_configuration() const
{
  auto asked = interfaces_of(names_, {"position", "velocity"});
  for (const char * axis : axes) asked.names.push_back(params_.sensor_name + "/" + axis);
  return asked;
}

CallbackReturn WristWrenchBroadcaster::on_configure(const rclcpp_lifecycle::State &)
{
  return attempt(get_node()->get_logger(), [this] { build_parts(); });
}

void WristWrenchBroadcaster::build_parts()
{
  params_ = listener_->get_params();
  const Model model = checked_model(params_.model, {}, get_robot_description());
  names_ = model.active_names();
  loop_ = std::make_unique<WristLoop>(
    model, link_of(model, params_.link, "link"), params_.filter_seconds);
  const auto & c = params_.tool.com;
  WristTool tool{params_.tool.mass, {c[0], c[1], c[2]}, {}, {}, params_.reversed ? -1.0 : 1.0};
  fill(tool.inertia, params_.tool.inertia);
  fill(tool.bias, params_.bias);
  if (!loop_->sensor().set_tool(tool))
    throw std::runtime_error("no body has the mass, centre and inertia of `tool`");
  of_sensor_.header.frame_id = params_.link;
  sensor_publisher_ = std::make_unique<Publisher>(
    get_node()->create_publisher<Message>("~/wrench", rclcpp::SystemDefaultsQoS()));
  if (!params_.frame.empty())
  {
    frame_ = link_of(model, params_.frame, "frame");
    of_frame_.header.frame_id = params_.frame;
    frame_publisher_ = std::make_unique<Publisher>(
      get_node()->create_publisher<Message>("~/wrench_in_frame", rclcpp::SystemDefaultsQoS()));
  }
  offer_tool(tool);
}

void WristWrenchBroadcaster::offer_tool(const WristTool & first)
{
  tool_ = std::make_shared<ToolBox>(first);
  service_ = get_node()->create_service<srv::SetPayload>(
    "~/set_tool",
    [box = tool_, link = params_.link](
      srv::SetPayload::Request::SharedPtr request, srv::SetPayload::Response::SharedPtr response)
    {
      WristTool tool = box->get();
      const auto & body = request->payload;
      tool.mass = body.m;
      tool.centre = {body.com.x, body.com.y, body.com.z};
      tool.inertia = {body.ixx, body.ixy, body.ixz, body.iyy, body.iyz, body.izz};
      if (!request->link.empty() && request->link != link)
        response->message = "give the tool in the sensor's link " + link;
      else if (!tool_exists(tool))
        response->message = "no body has this mass, centre and inertia";
      response->success = response->message.empty();
      if (response->success) box->set(tool);
    });
}

CallbackReturn WristWrenchBroadcaster::on_cleanup(const rclcpp_lifecycle::State &)
{
  service_.reset();
  sensor_publisher_.reset();
  frame_publisher_.reset();
  loop_.reset();
  names_.clear();
  return CallbackReturn::SUCCESS;
}

CallbackReturn WristWrenchBroadcaster::on_activate(const rclcpp_lifecycle::State &)
{
  loop_->start();
  loop_->give(ordered_exported_state_interfaces_);
  return CallbackReturn::SUCCESS;
}

CallbackReturn WristWrenchBroadcaster::on_deactivate(const rclcpp_lifecycle::State &)
{
  loop_->start();
  loop_->give(ordered_exported_state_interfaces_);
  return CallbackReturn::SUCCESS;
}

std::vector<hardware_interface::StateInterface::SharedPtr>
WristWrenchBroadcaster::on_export_state_interfaces_list()
{
  std::vector<hardware_interface::StateInterface::SharedPtr> list;
  for (const char * axis : axes)
    list.push_back(
      exported_interface<hardware_interface::StateInterface>(get_node()->get_name(), axis));
  return list;
}

return_type WristWrenchBroadcaster::update_reference_from_subscribers(
  const rclcpp::Time &, const rclcpp::Duration &)
{
  return return_type::OK;
}

return_type WristWrenchBroadcaster::update_and_write_commands(
  const rclcpp::Time & time, const rclcpp::Duration & period)
{
  take_tool();
  const bool known = loop_->update(state_interfaces_, period.seconds());
  loop_->give(ordered_exported_state_interfaces_);
  if (!known) return return_type::OK;
  send(*sensor_publisher_, of_sensor_, time, loop_->rest());
  if (frame_publisher_)
  {
    const Wrench seen = loop_->sensor().seen_from(loop_->rest(), loop_->positions(), frame_);
    send(*frame_publisher_, of_frame_, time, seen);
  }
  return return_type::OK;
}

void WristWrenchBroadcaster::take_tool()
{
  tool_->try_get([this](const WristTool & tool) { loop_->sensor().set_tool(tool); });
}

void WristWrenchBroadcaster::send(
  Publisher & publisher, Message & message, const rclcpp::Time & time, const Wrench & wrench)
{
  message.header.stamp = time;
  auto & force = message.wrench.force;
  auto & torque = message.wrench.torque;
  force.x = wrench[0], force.y = wrench[1], force.z = wrench[2];
  torque.x = wrench[3], torque.y = wrench[4], torque.z = wrench[5];
  publisher.try_publish(message);
}

}  // namespace ros2_dynid

PLUGINLIB_EXPORT_CLASS(
  ros2_dynid::WristWrenchBroadcaster, controller_interface::ChainableControllerInterface)
