// SPDX-License-Identifier: Apache-2.0
// The model of a running controller: read and checked at configuration, replaced from outside the
// control loop.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "rclcpp/rclcpp.hpp"
#include "rclcpp_lifecycle/lifecycle_node.hpp"
#include "realtime_tools/realtime_thread_safe_box.hpp"
#include "ros2_dynid/current_model.hpp"
#include "ros2_dynid/msg/base_parameters.hpp"
#include "ros2_dynid/srv/set_payload.hpp"

namespace ros2_dynid
{

/// Read a model and compare it with the joints that are asked for (none: its own) and with the
/// robot description ("": none); throws.
Model checked_model(
  const std::string & path, const std::vector<std::string> & joints,
  const std::string & description);

/// New parameters (parameter `model`, a BaseParameters topic) and payloads (service
/// ~/set_payload), checked, then handed to update().
class LiveModel : public std::enable_shared_from_this<LiveModel>
{
public:
  /// effort: limits that the robot must be able to hold a new model with; empty: not checked.
  /// Throws if the model itself is refused.
  LiveModel(
    rclcpp_lifecycle::LifecycleNode::SharedPtr node, Model model, std::vector<double> effort);

  /// Offer the service, follow the parameter, and subscribe to `topic` of BaseParameters, "": none.
  /// A request in work keeps the object alive: a controller may be cleaned up meanwhile.
  void listen(const std::string & topic);

  /// In update(): hand what is new since the last call to a law or an observer. Neither waits nor
  /// allocates.
  template <typename Receiver>
  void hand_news_to(Receiver & receiver)
  {
    box_.try_get([this, &receiver](const ModelNews & latest)
                 { reader_.hand_to(receiver, latest); });
  }

  /// In update(): where the robot is.
  void see(const double * q) noexcept { current_.see(q); }

private:
  /// Take the parameters of a file of the same robot: a reason if it is refused, else "". Only
  /// tried, not taken, if `trial`.
  std::string take_file(const std::string & path, bool trial);
  void offer_payload();
  void follow_parameter();

  rclcpp_lifecycle::LifecycleNode::SharedPtr node_;
  mutable std::mutex mutex_;  // of current_; update() never takes it
  CurrentModel current_;
  realtime_tools::RealtimeThreadSafeBox<ModelNews> box_;
  NewsReader reader_;  // of update()
  rclcpp::Subscription<msg::BaseParameters>::SharedPtr subscription_;
  rclcpp::Service<srv::SetPayload>::SharedPtr service_;
  rclcpp::node_interfaces::OnSetParametersCallbackHandle::SharedPtr on_set_;
  rclcpp::node_interfaces::PostSetParametersCallbackHandle::SharedPtr post_set_;
};

}  // namespace ros2_dynid
