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
  places_of(model, joints);
  if (description.empty()) return model;
  const std::string why = difference_from_description(model, description_of(description));
  if (!why.empty()) throw std::runtime_error(path + ": " + why);
  return model;
}

LiveModel::LiveModel(
  rclcpp_lifecycle::LifecycleNode::SharedPtr node, Model model, std::vector<double> effort)
: node_(std::move(node)), effort_(std::move(effort)), q_(model.active().size())
{
  current_.model = std::move(model);
  const std::string why = refusal(current_.model, current_.load);
  if (!why.empty()) throw std::runtime_error("the model is refused: " + why);
  box_.set(current_);
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
        const Model estimate = with_parameters(self->current_.model, model_of(message));
        const std::string why = self->refusal(estimate, self->current_.load);
        if (!why.empty()) throw std::runtime_error(why);
        self->give(estimate, self->current_.load);
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
        const Load load = load_of(self->current_.model, *request);
        response->message = self->refusal(self->current_.model, load);
        response->success = response->message.empty();
        if (response->success) self->give(self->current_.model, load);
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
    const Model estimate = with_parameters(current_.model, load_model(path));
    const std::string why = refusal(estimate, current_.load);
    if (why.empty() && !trial) give(estimate, current_.load);
    return why;
  }
  catch (const std::runtime_error & error)
  {
    return error.what();
  }
}

void LiveModel::see(const double * q) noexcept
{
  for (std::size_t a = 0; a < q_.size(); ++a)
    if (!std::isfinite(q[a])) return;
  for (std::size_t a = 0; a < q_.size(); ++a) q_[a].store(q[a], std::memory_order_relaxed);
  known_.store(true, std::memory_order_release);
}

std::string LiveModel::refusal(const Model & model, const Load & load) const
{
  std::vector<double> q(q_.size());
  const bool known = known_.load(std::memory_order_acquire);
  for (std::size_t a = 0; a < q.size(); ++a) q[a] = q_[a].load(std::memory_order_relaxed);
  return refusal_of(current_.model, model, load, effort_, known ? q.data() : nullptr);
}

void LiveModel::give(Model model, const Load & load)
{
  current_.model = std::move(model);
  current_.load = load;
  ++current_.number;
  box_.set(current_);
}

}  // namespace ros2_dynid
