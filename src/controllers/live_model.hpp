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
#include "realtime_tools/realtime_thread_safe_box.hpp"
#include "ros2_dynid/dynamics.hpp"
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
    box_.try_get(
      [this, &receiver](const News & latest)
      {
        if (latest.number == taken_) return;
        taken_ = latest.number;
        receiver.set_parameters(latest.model);
        receiver.set_payload(latest.load);
      });
  }

  /// In update(): where the robot is.
  void see(const double * q) noexcept;

private:
  struct News
  {
    std::uint64_t number = 0;
    Model model;
    Load load;
  };

  /// Take the parameters of a file of the same robot: a reason if it is refused, else "". Only
  /// tried, not taken, if `trial`.
  std::string take_file(const std::string & path, bool trial);
  std::string refusal(const Model & model, const Load & load) const;
  void give(Model model, const Load & load);
  void offer_payload();
  void follow_parameter();

  rclcpp_lifecycle::LifecycleNode::SharedPtr node_;
  mutable std::mutex mutex_;  // of current_; update() never takes it
  News current_;
  std::vector<double> effort_;
  realtime_tools::RealtimeThreadSafeBox<News> box_;
  std::uint64_t taken_ = 0;  // by update()
  std::vector<std::atomic<double>> q_;
  std::atomic<bool> known_{false};
  rclcpp::Subscription<msg::BaseParameters>::SharedPtr subscription_;
  rclcpp::Service<srv::SetPayload>::SharedPtr service_;
  rclcpp::node_interfaces::OnSetParametersCallbackHandle::SharedPtr on_set_;
  rclcpp::node_interfaces::PostSetParametersCallbackHandle::SharedPtr post_set_;
};

}  // namespace ros2_dynid
