// SPDX-License-Identifier: Apache-2.0
// References of the topic ~/reference: checked outside the control loop, then handed to update().
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rclcpp/rclcpp.hpp"
#include "rclcpp_lifecycle/lifecycle_node.hpp"
#include "realtime_tools/realtime_thread_safe_box.hpp"
#include "ros2_dynid/references.hpp"
#include "trajectory_msgs/msg/joint_trajectory.hpp"

namespace ros2_dynid
{

class ReferenceStream : public std::enable_shared_from_this<ReferenceStream>
{
public:
  /// names: joints of the model; longest_age: a stamp further from the clock than this is refused
  /// [s].
  ReferenceStream(
    rclcpp_lifecycle::LifecycleNode::SharedPtr node, const std::vector<std::string> & names,
    double longest_age, std::shared_ptr<RefusedReferences> refused)
  : node_(std::move(node)), reader_(names, longest_age), refused_(std::move(refused))
  {
  }

  /// Subscribe, and say once a second what was refused. A message in work keeps the object alive.
  void listen()
  {
    subscription_ = node_->create_subscription<trajectory_msgs::msg::JointTrajectory>(
      "~/reference", rclcpp::SystemDefaultsQoS(),
      [weak = weak_from_this()](const trajectory_msgs::msg::JointTrajectory & message)
      {
        if (const auto self = weak.lock()) self->take(message);
      });
    timer_ = node_->create_wall_timer(
      std::chrono::seconds(1),
      [weak = weak_from_this()]
      {
        const auto self = weak.lock();
        const std::string news = self ? self->refused_->news() : "";
        if (!news.empty()) RCLCPP_WARN(self->node_->get_logger(), "%s", news.c_str());
      });
  }

  /// In update(): hand the newest reference, if there is one, to `follow(values)`: positions,
  /// velocities and accelerations in the model's order. Neither waits nor allocates.
  template <typename Follow>
  void hand_news_to(const Follow & follow)
  {
    box_.try_get([this, &follow](const ReferenceNews & latest)
                 { follower_.hand_to(follow, latest); });
  }

  /// At activation: what came before is not followed.
  void forget() noexcept { follower_.forget(newest_.load()); }

private:
  void take(const trajectory_msgs::msg::JointTrajectory & message)
  {
    const double now = node_->now().seconds();
    if (!reader_.take(message, now, *refused_)) return;
    current_.number = ++newest_;
    current_.values = reader_.values();
    box_.set(current_);
  }

  rclcpp_lifecycle::LifecycleNode::SharedPtr node_;
  ReferenceReader reader_;
  std::shared_ptr<RefusedReferences> refused_;
  ReferenceNews current_;
  realtime_tools::RealtimeThreadSafeBox<ReferenceNews> box_;
  std::atomic<std::uint64_t> newest_{0};
  ReferenceFollower follower_;  // of update()
  rclcpp::Subscription<trajectory_msgs::msg::JointTrajectory>::SharedPtr subscription_;
  rclcpp::TimerBase::SharedPtr timer_;
};

}  // namespace ros2_dynid
