// SPDX-License-Identifier: Apache-2.0
// References of a controller: streamed messages put into the model's order, and what is refused,
// counted by its fault.
//
// Counting neither waits nor allocates; reading messages and telling of faults belong outside the
// control loop.
#pragma once

#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ros2_dynid/effort_output.hpp"
#include "ros2_dynid/model.hpp"

namespace ros2_dynid
{

enum class ReferenceFault : std::size_t
{
  points,
  joints,
  sizes,
  stale,
  order,
  not_finite,
  position,
  velocity
};
constexpr std::size_t reference_faults = 8;

/// Counts what was refused; any thread may count.
class RefusedReferences
{
public:
  void count(ReferenceFault fault) noexcept
  {
    counts_[static_cast<std::size_t>(fault)].fetch_add(1, std::memory_order_relaxed);
  }

  std::uint64_t of(ReferenceFault fault) const noexcept
  {
    return counts_[static_cast<std::size_t>(fault)].load(std::memory_order_relaxed);
  }

  /// What was refused since the last call, in one line, or nothing (""). One thread asks;
  /// allocates.
  std::string news()
  {
    static const char * const texts[reference_faults] = {
      "without exactly one point",
      "of other joints",
      "without one position, velocity and acceleration for each joint",
      "too old or ahead of the clock",
      "not newer than the one before",
      "not finite",
      "beyond a position limit",
      "beyond a velocity limit"};
    std::string line;
    for (std::size_t k = 0; k < reference_faults; ++k)
    {
      const std::uint64_t now = counts_[k].load(std::memory_order_relaxed);
      if (now != told_[k])
        line += (line.empty() ? "" : ", ") + std::to_string(now - told_[k]) + " " + texts[k];
      told_[k] = now;
    }
    return line.empty() ? "" : "references refused: " + line;
  }

private:
  std::array<std::atomic<std::uint64_t>, reference_faults> counts_{};
  std::array<std::uint64_t, reference_faults> told_{};
};

/// Puts streamed references, JointTrajectory messages of one point or any type with the same
/// fields, into the model's order.
class ReferenceReader
{
public:
  /// names: joints of the model; longest_age: a stamp further from the clock than this is refused
  /// [s].
  ReferenceReader(std::vector<std::string> names, double longest_age)
  : names_(std::move(names)), longest_age_(longest_age), values_(3 * names_.size())
  {
  }

  /// Positions, velocities and accelerations of the last message taken, one after the other, in the
  /// model's order.
  const std::vector<double> & values() const noexcept { return values_; }

  /// Take a message at `now` [s]. False, and the values stay, if it is refused. A stamp of 0 is not
  /// looked at.
  template <typename Message>
  bool take(const Message & message, double now, RefusedReferences & refused)
  {
    const auto refuse = [&refused](ReferenceFault fault)
    {
      refused.count(fault);
      return false;
    };
    if (now < now_) last_ = 0.0;  // the clock was set back: the order begins anew
    now_ = now;
    const std::size_t n = names_.size();
    if (message.points.size() != 1) return refuse(ReferenceFault::points);
    if (message.joint_names.size() != n) return refuse(ReferenceFault::joints);
    const auto & point = message.points[0];
    const std::vector<double> * lists[] = {
      &point.positions, &point.velocities, &point.accelerations};
    for (const auto * list : lists)
    {
      if (list->size() != n) return refuse(ReferenceFault::sizes);
      if (!all_finite(list->data(), n)) return refuse(ReferenceFault::not_finite);
    }
    std::vector<std::size_t> places;
    for (const auto & name : names_)
    {
      std::size_t place = 0;
      while (place < n && message.joint_names[place] != name) ++place;
      if (place == n) return refuse(ReferenceFault::joints);
      places.push_back(place);
    }
    const double stamp = static_cast<double>(message.header.stamp.sec) +
                         1e-9 * static_cast<double>(message.header.stamp.nanosec);
    if (stamp > 0.0)
    {
      if (std::fabs(now - stamp) > longest_age_) return refuse(ReferenceFault::stale);
      if (stamp <= last_) return refuse(ReferenceFault::order);
      last_ = stamp;
    }
    for (std::size_t k = 0; k < 3; ++k)
    {
      for (std::size_t a = 0; a < n; ++a) values_[k * n + a] = (*lists[k])[places[a]];
    }
    return true;
  }

private:
  std::vector<std::string> names_;
  double longest_age_, last_ = 0.0, now_ = 0.0;
  std::vector<double> values_;
};

/// A reference of a stream: positions, velocities and accelerations in the model's order.
struct ReferenceNews
{
  std::uint64_t number = 0;  ///< from 1, in the order in which they came
  std::vector<double> values;
};

/// Follows each reference of a stream once, and none that came before it was told to forget.
class ReferenceFollower
{
public:
  void forget(std::uint64_t newest) noexcept { taken_ = newest; }

  template <typename Follow>
  void hand_to(const Follow & follow, const ReferenceNews & latest) noexcept
  {
    if (latest.number <= taken_) return;
    taken_ = latest.number;
    follow(latest.values.data());
  }

private:
  std::uint64_t taken_ = 0;
};

/// What a reference may be: the position and velocity limits of the model's joints, as far as they
/// are known.
class ReferenceLimits
{
public:
  /// Slack for interpolated and rounded references that lead up to a limit: [rad or m], and a share
  /// of the velocity limit.
  static constexpr double position_slack = 1e-3, velocity_slack = 0.02;

  explicit ReferenceLimits(const Model & model)
  {
    for (const std::size_t j : model.active())
    {
      const Limits & limits = model.joints[j - 1].limits;
      lower_.push_back(limits.lower - position_slack);
      upper_.push_back(limits.upper + position_slack);
      velocity_.push_back(limits.velocity * (1.0 + velocity_slack));
    }
  }

  /// Whether a reference may be followed; if not, its fault is counted.
  bool pass(const double * q, const double * dq, const double * ddq, RefusedReferences & refused)
    const noexcept
  {
    const std::size_t n = lower_.size();
    if (!all_finite(q, n) || !all_finite(dq, n) || !all_finite(ddq, n))
    {
      refused.count(ReferenceFault::not_finite);
      return false;
    }
    for (std::size_t a = 0; a < n; ++a)
    {
      const bool inside = q[a] >= lower_[a] && q[a] <= upper_[a];
      if (inside && std::fabs(dq[a]) <= velocity_[a]) continue;
      refused.count(inside ? ReferenceFault::velocity : ReferenceFault::position);
      return false;
    }
    return true;
  }

private:
  std::vector<double> lower_, upper_, velocity_;
};

}  // namespace ros2_dynid
