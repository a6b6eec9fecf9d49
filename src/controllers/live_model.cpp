// SPDX-License-Identifier: Apache-2.0
#include "live_model.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "description.hpp"
#include "ros2_dynid/holdable.hpp"
#include "ros2_dynid/model_message.hpp"

namespace ros2_dynid
{

Model checked_model(
  const std::string & path, const std::vector<std::string> & joints,
  const std::string & description)
{
  if (path.empty())
    throw std::runtime_error("set `model` to the file that dynid export MODEL --to runtime wrote");
  Model model = load_model(path);
  places(model, joints);
  const std::string why =
    description.empty() ? "" : difference_from_description(model, description);
  if (!why.empty()) throw std::runtime_error(path + ": " + why);
  return model;
}

std::vector<std::size_t> places(const Model & model, const std::vector<std::string> & joints)
{
  const auto names = model.active_names();
  std::vector<std::size_t> list;
  for (std::size_t a = 0; a < names.size(); ++a)
  {
    const auto found = std::find(joints.begin(), joints.end(), names[a]);
    if (joints.empty())
      list.push_back(a);
    else if (found == joints.end())
      throw std::runtime_error("`joints` lacks " + names[a] + ", which the model moves");
    else
      list.push_back(static_cast<std::size_t>(found - joints.begin()));
  }
  if (!joints.empty() && joints.size() != names.size())
    throw std::runtime_error("`joints` names joints that the model has not");
  return list;
}

std::vector<double> per_joint(
  const std::vector<double> & given, const std::vector<std::size_t> & places,
  const std::string & name)
{
  std::vector<double> list;
  for (const std::size_t place : places)
  {
    if (given.size() != 1 && given.size() != places.size())
    {
      throw std::runtime_error(
        "`" + name + "` needs " + std::to_string(places.size()) + " values, or one for all joints");
    }
    list.push_back(given[given.size() == 1 ? 0 : place]);
  }
  return list;
}

std::vector<double> or_limits(
  const std::vector<double> & given, const Model & model, double Limits::* limit)
{
  std::vector<double> list = given;
  const auto active = model.active();
  for (std::size_t a = 0; a < active.size(); ++a)
    if (!(list[a] > 0.0)) list[a] = model.joints[active[a] - 1].limits.*limit;
  return list;
}

LiveModel::LiveModel(
  rclcpp_lifecycle::LifecycleNode::SharedPtr node, Model model, std::vector<double> effort)
: node_(std::move(node)), effort_(std::move(effort)), q_(model.active().size())
{
  current_.model = std::move(model);
  const std::string why = refusal(current_.model, current_.load);
  if (!why.empty()) throw std::runtime_error("the model is refused: " + why);
  buffer_.initRT(current_);
}

void LiveModel::listen(const std::string & topic)
{
  const std::weak_ptr<LiveModel> weak = weak_from_this();
  service_ = node_->create_service<srv::SetPayload>(
    "~/set_payload",
    [weak](
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
  if (topic.empty()) return;
  subscription_ = node_->create_subscription<msg::BaseParameters>(
    topic, rclcpp::QoS(1).reliable().transient_local(),
    [weak](const msg::BaseParameters & message)
    {
      const auto self = weak.lock();
      if (!self) return;
      const std::lock_guard<std::mutex> guard(self->mutex_);
      try
      {
        const Model estimate = with_parameters(self->current_.model, model_of(message));
        const std::string why = self->refusal(estimate, self->current_.load);
        if (!why.empty()) throw std::runtime_error(why);
        self->give(estimate, self->current_.load);
        RCLCPP_INFO(self->node_->get_logger(), "new parameters of %s", message.robot.c_str());
      }
      catch (const std::runtime_error & error)
      {
        RCLCPP_ERROR(
          self->node_->get_logger(), "new parameters are refused, the old ones stay: %s",
          error.what());
      }
    });
}

Model LiveModel::model() const
{
  const std::lock_guard<std::mutex> guard(mutex_);
  return current_.model;
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

const ModelNews * LiveModel::news() noexcept
{
  const ModelNews * latest = buffer_.readFromRT();
  if (latest->number == taken_) return nullptr;
  taken_ = latest->number;
  return latest;
}

void LiveModel::seen(const double * q) noexcept
{
  for (std::size_t a = 0; a < q_.size(); ++a)
    if (!std::isfinite(q[a])) return;
  for (std::size_t a = 0; a < q_.size(); ++a) q_[a].store(q[a], std::memory_order_relaxed);
  known_.store(true, std::memory_order_release);
}

std::string LiveModel::refusal(const Model & model, const Load & load) const
{
  Dynamics trial(current_.model);
  if (!trial.set_parameters(model) || !trial.set_payload(load)) return "it does not fit the robot";
  if (effort_.empty()) return "";
  std::vector<double> q(q_.size());
  for (std::size_t a = 0; a < q.size(); ++a) q[a] = q_[a].load(std::memory_order_relaxed);
  return cannot_hold(
    model, load, effort_, known_.load(std::memory_order_acquire) ? q.data() : nullptr);
}

void LiveModel::give(Model model, const Load & load)
{
  current_.model = std::move(model);
  current_.load = load;
  ++current_.number;
  buffer_.writeFromNonRT(current_);
}

}  // namespace ros2_dynid
