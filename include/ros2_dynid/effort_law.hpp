// SPDX-License-Identifier: Apache-2.0
// What every law of efforts stands on: the torque that holds the robot, what the robot adds of it,
// the limits of what is sent, and what is left behind at the end.
//
// Construction allocates and throws; nothing after that does either.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <utility>
#include <vector>

#include "ros2_dynid/added_effort.hpp"
#include "ros2_dynid/dynamics.hpp"
#include "ros2_dynid/effort_output.hpp"
#include "ros2_dynid/rest_efforts.hpp"

namespace ros2_dynid
{

class EffortLaw
{
public:
  /// Share of a joint's Coulomb friction that brakes it at the end. Such an effort stays applied
  /// after the joint has come to rest: below 1 friction holds it, even if the model's is twice too
  /// large.
  static constexpr double brake_share = 0.5;

  std::size_t joints() const noexcept { return n_; }
  const double * command() const noexcept { return output_.command(); }

  /// Leave the last command: what holds the robot at q, or where it was last seen if q is not
  /// finite, and against each speed dq that is known and faster than the smoothing a brake that
  /// friction can hold at rest. Within the effort limits, but not within their rates: nothing
  /// follows this command that could complete a ramp. Whether every joint is known to be at rest.
  bool end(const double * q, const double * dq) noexcept
  {
    for (std::size_t a = 0; a < n_; ++a) before_end_[a] = command()[a];
    if (all_finite(q, n_)) remember(q);
    hold();
    dynamics_.undecided_friction(zero_.data(), rigid_.data(), smoothing_, friction_.data());
    bool rests = true;
    for (std::size_t a = 0; a < n_; ++a)
    {
      const double brake = brake_share * (1.0 - adds_.friction_share(a)) * friction_[a];
      const bool moves = std::fabs(dq[a]) > smoothing_;
      if (moves && std::isfinite(dq[a]) && std::isfinite(brake))
        tau_[a] -= std::copysign(brake, dq[a]);
      rests = rests && std::fabs(dq[a]) <= smoothing_;
    }
    send_first();
    return rests;
  }

  /// What efforts tau measured at q with the speeds dq say against what the robot is declared to
  /// add. Nothing where a joint moves, a value is not known, or all efforts are 0, as of a driver
  /// that measures none.
  RestVerdict judge_rest(
    const double * q, const double * dq, const double * tau, const RestCheck & check = {}) noexcept
  {
    bool measured = false;
    for (std::size_t a = 0; a < n_; ++a)
    {
      if (!(std::fabs(dq[a]) < check.speed)) return {};
      measured = measured || tau[a] != 0.0;
    }
    if (!measured || !all_finite(q, n_) || !all_finite(tau, n_)) return {};
    dynamics_.gravity(q, rigid_.data());
    dynamics_.friction(zero_.data(), rigid_.data(), friction_.data());
    for (std::size_t a = 0; a < n_; ++a)
    {
      const double limit = output_.limits()[a];
      resting_[a] = {tau[a], rigid_[a], friction_[a], 0.0, limit, adds_.of(a).gravity};
    }
    for (const double way : {1.0, -1.0})
    {
      for (double & speed : tau_) speed = way * check.dry_speed * smoothing_;
      dynamics_.friction(tau_.data(), rigid_.data(), friction_.data());
      for (std::size_t a = 0; a < n_; ++a)
        resting_[a].dry = std::max(resting_[a].dry, std::fabs(friction_[a] - resting_[a].offset));
    }
    bool declared = true;
    for (std::size_t a = 0; a < n_; ++a) declared = declared && adds_.of(a).gravity_measured;
    return ros2_dynid::judge_rest(resting_, declared, adds_.lacking() && !gravity_known_, check);
  }

  bool set_parameters(const Model & model) noexcept
  {
    if (!dynamics_.set_parameters(model)) return false;
    output_.change();
    return true;
  }
  bool set_payload(const Load & load) noexcept
  {
    if (!dynamics_.set_payload(load)) return false;
    output_.change();
    return true;
  }

protected:
  /// timeout: state or model lost for longer than this is an error [s].
  EffortLaw(const Model & model, EffortBounds bounds, double smoothing, double timeout)
  : dynamics_(model),
    adds_(model),
    output_(std::move(bounds)),
    n_(dynamics_.joints()),
    smoothing_(smoothing),
    timeout_(timeout),
    q_(n_),
    zero_(n_, 0.0),
    rigid_(n_),
    friction_(n_),
    tau_(n_),
    added_(n_, 0.0),
    hold_(n_),
    hold_added_(n_, 0.0),
    before_end_(n_, 0.0),
    resting_(n_)
  {
    for (const double g : model.gravity) gravity_known_ = gravity_known_ || g != 0.0;
    if (output_.joints() != n_)
      throw std::invalid_argument("give one effort limit for each joint of the model");
    if (!(timeout > 0.0) || !std::isfinite(timeout))
      throw std::invalid_argument("the timeout is not positive");
    dynamics_.set_smoothing(smoothing);
  }
  ~EffortLaw() = default;

  /// Begin at q with the torque that holds the robot. False if it is not finite.
  ///
  /// resumed: the law ended since the last update and nothing else was applied, as when a manager
  /// restarts a controller. The robot still carries the command before end(): it goes on from
  /// there, within the rates.
  bool begin(const double * q, bool resumed) noexcept
  {
    if (!all_finite(q, n_)) return false;
    remember(q);
    if (!hold()) return false;
    if (resumed)
      output_.start(before_end_.data());
    else
      send_first();
    lost_ = 0.0;
    return true;
  }

  /// Whether position and speed of every joint are known; if so, the position is remembered.
  bool see(const double * q, const double * dq) noexcept
  {
    if (!all_finite(q, n_) || !all_finite(dq, n_)) return false;
    remember(q);
    return true;
  }

  /// Put what holds the robot where it was last seen into tau_, what it adds of that into added_,
  /// gravity and offset into rigid_ and friction_. False if they are not finite: tau_ and added_
  /// are then the last ones that were.
  bool hold() noexcept
  {
    dynamics_.gravity(q_.data(), rigid_.data());
    dynamics_.friction(zero_.data(), rigid_.data(), friction_.data());
    for (std::size_t a = 0; a < n_; ++a) tau_[a] = rigid_[a] + friction_[a];
    if (!adds_.nothing()) adds_.at_rest(dynamics_, q_.data(), added_.data());
    if (!finite())
    {
      tau_ = hold_;
      added_ = hold_added_;
      return false;
    }
    hold_ = tau_;
    hold_added_ = added_;
    return true;
  }

  bool finite() const noexcept
  {
    return all_finite(tau_.data(), n_) && all_finite(added_.data(), n_);
  }

  /// Send tau_, less what the robot adds, dt [s] after the last; fade: it is that of another law.
  bool send(bool fade, double dt) noexcept
  {
    if (!finite()) return false;
    if (fade) output_.change();
    if (!adds_.nothing()) output_.left_to_command(tau_.data(), added_.data());
    return output_.put(tau_.data(), dt);
  }

  /// Whether state and model have not been lost for longer than the timeout.
  bool in_time(bool well, double dt) noexcept
  {
    lost_ = well ? 0.0 : lost_ + passed(dt);
    return lost_ <= timeout_;
  }

  /// Time that has passed [s]; a dt that is no time counts as none.
  static double passed(double dt) noexcept { return dt > 0.0 && std::isfinite(dt) ? dt : 0.0; }

  Dynamics dynamics_;
  AddedTorque adds_;
  EffortOutput output_;
  std::size_t n_;
  double smoothing_, timeout_, lost_ = 0.0;
  std::vector<double> q_, zero_, rigid_, friction_, tau_, added_, hold_, hold_added_;

private:
  std::vector<double> before_end_;  ///< command that end() replaced
  std::vector<RestingJoint> resting_;
  bool gravity_known_ = false;  ///< whether the model has gravity at all

  void remember(const double * q) noexcept
  {
    for (std::size_t a = 0; a < n_; ++a) q_[a] = q[a];
  }
  void send_first() noexcept
  {
    output_.left_to_command(tau_.data(), added_.data());
    output_.start(tau_.data());
  }
};

}  // namespace ros2_dynid
