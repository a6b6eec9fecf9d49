// SPDX-License-Identifier: Apache-2.0
#include "live_model.hpp"

#include <cmath>
#include <stdexcept>
#include <utility>

#include "ros2_dynid/controller_parameters.hpp"
#include "ros2_dynid/model_message.hpp"
#include "ros2_dynid/model_refusal.hpp"
#include "urdf_description.hpp"

namespace ros2_dynid
{

Model checked_model(
  const std::string & path, const std::vector<std::string> & joints,
  const std::string & description)
{
  if (path.empty())
    throw std::runtime_error("set `model` to the file that dynid export MODEL --to runtime wrote");
  Model model = load_model(path);
  refuse_loops(model, "controllers");
  places_of(model, joints);
  if (description.empty()) return model;
  const std::string why = difference_from_description(model, description_of(description));
  if (!why.empty()) throw std::runtime_error(path + ": " + why);
  return model;
}

LiveModel::LiveModel(
  rclcpp_lifecycle::LifecycleNode::SharedPtr node, Model model, std::vector<double> effort)
: node_(std::move(node)), current_(std::move(model), std::move(effort))
{
  box_.set(current_.news());
}

void LiveModel::listen(const std::string & topic)
{
  offer_payload();
  follow_parameter();
  if (topic.empty()) return;
  subscription_ = node_->create_subscription<msg::BaseParameters>(
    topic, rclcpp::QoS(1).reliable().transient_local(),
    [weak = weak_from_this()](const msg::BaseParameters & message)
    {
      const auto self = weak.lock();
      if (!self) return;
      const std::lock_guard<std::mutex> guard(self->mutex_);
      const auto logger = self->node_->get_logger();
      try
      {
        const std::string why = self->current_.take_parameters(model_of(message));
        if (!why.empty()) throw std::runtime_error(why);
        self->box_.set(self->current_.news());
        RCLCPP_INFO(logger, "new parameters of %s", message.robot.c_str());
      }
      catch (const std::runtime_error & error)
      {
        RCLCPP_ERROR(logger, "new parameters are refused, the old ones stay: %s", error.what());
      }
    });
}

void LiveModel::offer_payload()
{
  service_ = node_->create_service<srv::SetPayload>(
    "~/set_payload",
    [weak = weak_from_this()](
      srv::SetPayload::Request::SharedPtr request, srv::SetPayload::Response::SharedPtr response)
    {
      response->success = false;
      const auto self = weak.lock();
      if (!self)
      {
        response->message = "the controller is being cleaned up; configure it";
        return;
      }
      const std::lock_guard<std::mutex> guard(self->mutex_);
      try
      {
        response->message =
          self->current_.take_load(load_of(self->current_.news().model, *request));
        response->success = response->message.empty();
        self->box_.set(self->current_.news());
      }
      catch (const std::runtime_error & error)
      {
        response->message = error.what();
      }
    });
}

void LiveModel::follow_parameter()
{
  on_set_ = node_->add_on_set_parameters_callback(
    [weak = weak_from_this()](const std::vector<rclcpp::Parameter> & changed)
    {
      rcl_interfaces::msg::SetParametersResult result;
      const auto self = weak.lock();
      for (const auto & parameter : changed)
        if (self && parameter.get_name() == "model")
          result.reason = self->take_file(parameter.as_string(), true);
      result.successful = result.reason.empty();
      return result;
    });
  post_set_ = node_->add_post_set_parameters_callback(
    [weak = weak_from_this()](const std::vector<rclcpp::Parameter> & changed)
    {
      const auto self = weak.lock();
      for (const auto & parameter : changed)
        if (self && parameter.get_name() == "model") self->take_file(parameter.as_string(), false);
    });
}

std::string LiveModel::take_file(const std::string & path, bool trial)
{
  const std::lock_guard<std::mutex> guard(mutex_);
  try
  {
    const std::string why = current_.take_parameters(load_model(path), trial);
    box_.set(current_.news());
    return why;
  }
  catch (const std::runtime_error & error)
  {
    return error.what();
  }
}

}  // namespace ros2_dynid
