// SPDX-License-Identifier: Apache-2.0
// The model of a running controller: read and checked at configuration, replaced from outside the
// control loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "rclcpp/rclcpp.hpp"
#include "rclcpp_lifecycle/lifecycle_node.hpp"
#include "realtime_tools/realtime_buffer.hpp"
#include "ros2_dynid/dynamics.hpp"
#include "ros2_dynid/msg/base_parameters.hpp"
#include "ros2_dynid/srv/set_payload.hpp"

namespace ros2_dynid
{

/// Read a model and check it against the joints that are asked for (none: its own) and the robot
/// description; throws.
Model checked_model(
  const std::string & path, const std::vector<std::string> & joints,
  const std::string & description);

/// For each joint of the model, its place in `joints` (none: the model's own order).
std::vector<std::size_t> places(const Model & model, const std::vector<std::string> & joints);

/// A parameter's values in the order of the model: one a joint, or one for all; throws with the
/// parameter's name.
std::vector<double> per_joint(
  const std::vector<double> & given, const std::vector<std::size_t> & places,
  const std::string & name);

/// Values where they are given and above 0, else those of the model's limits, which may be
/// infinite.
std::vector<double> or_limits(
  const std::vector<double> & given, const Model & model, double Limits::* limit);

struct ModelNews
{
  std::uint64_t number = 0;
  Model model;
  Load load;
};

/// New parameters (a file, a BaseParameters topic) and payloads (service ~/set_payload), checked,
/// then handed to update().
class LiveModel : public std::enable_shared_from_this<LiveModel>
{
public:
  /// effort: limits that the robot must be able to hold a new model with; empty: not checked.
  LiveModel(
    rclcpp_lifecycle::LifecycleNode::SharedPtr node, Model model, std::vector<double> effort);

  /// Offer the service, and subscribe to `topic` of BaseParameters, "": none. A request in work
  /// keeps the object alive: a controller may be cleaned up meanwhile.
  void listen(const std::string & topic);

  /// What the last request left.
  Model model() const;

  /// Take the parameters of a file of the same robot: a reason if it is refused, else "". Only
  /// tried, not taken, if `trial`.
  std::string take_file(const std::string & path, bool trial);

  /// In update(): what is new since the last call, or nothing. Neither waits nor allocates.
  const ModelNews * news() noexcept;

  /// In update(): where the robot is.
  void seen(const double * q) noexcept;

private:
  std::string refusal(const Model & model, const Load & load) const;
  void give(Model model, const Load & load);

  rclcpp_lifecycle::LifecycleNode::SharedPtr node_;
  mutable std::mutex mutex_;  // of what follows; update() never takes it
  ModelNews current_;
  std::vector<double> effort_;
  realtime_tools::RealtimeBuffer<ModelNews> buffer_;
  std::vector<std::atomic<double>> q_;
  std::atomic<bool> known_{false};
  std::uint64_t taken_ = 0;
  rclcpp::Subscription<msg::BaseParameters>::SharedPtr subscription_;
  rclcpp::Service<srv::SetPayload>::SharedPtr service_;
};

}  // namespace ros2_dynid
