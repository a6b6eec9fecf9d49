// SPDX-License-Identifier: Apache-2.0
// The law of the feedforward controller: tau = model(q_r, dq_r, ddq_r) + Kp (q_r - q) + Kd (dq_r -
// dq), less what the robot adds.
//
// A reference that stops, is not finite or is beyond a limit ends in gravity and damping. A state
// that is not finite ends in gravity where the robot was last seen. Every change of law, model,
// load or gains fades in. Construction allocates and throws; nothing after that does either.
#pragma once

#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <utility>
#include <vector>

#include "ros2_dynid/added_effort.hpp"
#include "ros2_dynid/dynamics.hpp"
#include "ros2_dynid/effort_output.hpp"
#include "ros2_dynid/references.hpp"

namespace ros2_dynid
{

struct Gains
{
  std::vector<double> kp, kd;   ///< [N.m/rad], [N.m.s/rad]
  std::vector<double> damping;  ///< without a reference [N.m.s/rad]
};

struct FeedforwardOptions
{
  double smoothing = 0.02;  ///< speed over which Coulomb friction changes sign [rad/s or m/s]
  double timeout =
    0.05;  ///< a reference older than this has stopped; a state lost for longer is an error [s]
};

enum class FeedforwardMode
{
  hold,
  follow,
  blind
};

class FeedforwardLaw
{
public:
  FeedforwardLaw(
    const Model & model, Gains gains, EffortBounds bounds,
    const FeedforwardOptions & options = FeedforwardOptions())
  : dynamics_(model),
    adds_(model),
    reference_limits_(model),
    output_(std::move(bounds)),
    options_(options),
    n_(dynamics_.joints()),
    gains_(std::move(gains)),
    q_(n_),
    q_r_(n_),
    dq_r_(n_),
    ddq_r_(n_),
    zero_(n_, 0.0),
    rigid_(n_),
    friction_(n_),
    tau_(n_),
    added_(n_, 0.0),
    hold_(n_),
    hold_added_(n_, 0.0)
  {
    if (output_.joints() != n_)
      throw std::invalid_argument("give one effort limit for each joint of the model");
    if (!fits(gains_))
      throw std::invalid_argument(
        "give gains that are finite and not negative, one for each joint");
    if (!(options.timeout > 0.0)) throw std::invalid_argument("the timeout is not positive");
    dynamics_.set_smoothing(options.smoothing);
  }

  std::size_t joints() const noexcept { return n_; }
  FeedforwardMode mode() const noexcept { return mode_; }
  const double * command() const noexcept { return output_.command(); }
  /// References that were refused, here or by whoever reads them before: any thread may ask and
  /// count.
  RefusedReferences & refused() noexcept { return refused_; }

  /// Begin at the position q with the torque that holds the robot, without a reference. False if it
  /// is not finite.
  bool start(const double * q) noexcept
  {
    if (!all_finite(q, n_)) return false;
    for (std::size_t a = 0; a < n_; ++a) q_[a] = q[a];
    if (!hold_still()) return false;
    output_.left_to_command(tau_.data(), added_.data());
    if (!output_.start(tau_.data())) return false;
    mode_ = FeedforwardMode::hold;
    fresh_ = has_reference_ = false;
    lost_ = 0.0;
    return true;
  }

  /// Leave the torque that holds the robot, at q or, if that is not finite, where the robot was
  /// last seen.
  void end(const double * q) noexcept
  {
    if (start(q) || start(q_.data())) return;
    tau_ = hold_;
    output_.left_to_command(tau_.data(), hold_added_.data());
    output_.start(tau_.data());
  }

  /// Follow this reference until the next. False, and it is counted, if it is refused: beyond a
  /// limit, the robot is stopped at once; not finite, the last one goes on until its timeout.
  ///
  /// lead [s]: the reference is of this time after the update, as of a controller that writes where
  /// the robot shall be at the end of the period; the state measured now is compared with where the
  /// reference is now.
  bool set_reference(
    const double * q, const double * dq, const double * ddq, double lead = 0.0) noexcept
  {
    if (!reference_limits_.pass(q, dq, ddq, refused_))
    {
      if (all_finite(q, n_) && all_finite(dq, n_) && all_finite(ddq, n_)) clear_reference();
      return false;
    }
    for (std::size_t a = 0; a < n_; ++a)
    {
      q_r_[a] = q[a];
      dq_r_[a] = dq[a];
      ddq_r_[a] = ddq[a];
    }
    lead_ = lead;
    fresh_ = has_reference_ = true;
    return true;
  }

  /// Forget the reference: gravity and damping from the next update on.
  void clear_reference() noexcept { fresh_ = has_reference_ = false; }

  bool set_gains(const Gains & gains) noexcept
  {
    if (!fits(gains)) return false;
    for (std::size_t a = 0; a < n_; ++a)
    {
      gains_.kp[a] = gains.kp[a];
      gains_.kd[a] = gains.kd[a];
      gains_.damping[a] = gains.damping[a];
    }
    output_.change();
    return true;
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

  /// Compute the command, dt [s] after the last. False if state or model have been lost for longer
  /// than the timeout: the command is then what holds the robot where it was last seen.
  bool update(const double * q, const double * dq, double dt) noexcept
  {
    const double time = dt > 0.0 && std::isfinite(dt) ? dt : 0.0;
    const bool seen = all_finite(q, n_) && all_finite(dq, n_);
    if (seen)
      for (std::size_t a = 0; a < n_; ++a) q_[a] = q[a];
    age_ = fresh_ ? 0.0 : age_ + time;
    fresh_ = false;
    const bool follow = has_reference_ && age_ <= options_.timeout;
    has_reference_ = follow;
    bool sent = false;
    if (seen && follow)
    {
      along_reference();
      for (std::size_t a = 0; a < n_; ++a)
      {
        const double dq_now = dq_r_[a] - lead_ * ddq_r_[a],
                     q_now = q_r_[a] - 0.5 * lead_ * (dq_r_[a] + dq_now);
        tau_[a] += gains_.kp[a] * (q_now - q[a]) + gains_.kd[a] * (dq_now - dq[a]);
      }
      sent = put(FeedforwardMode::follow, dt);
    }
    if (!sent)
    {
      const bool model = hold_still();
      if (!model)
      {  // the last that was known
        tau_ = hold_;
        added_ = hold_added_;
      }
      if (seen)
        for (std::size_t a = 0; a < n_; ++a) tau_[a] -= gains_.damping[a] * dq[a];
      sent = put(seen ? FeedforwardMode::hold : FeedforwardMode::blind, dt) && model;
    }
    lost_ = seen && sent ? 0.0 : lost_ + time;
    return lost_ <= options_.timeout;
  }

private:
  /// Put what holds the robot at q_ into tau_, and what it adds of that into added_. False if they
  /// are not finite.
  bool hold_still() noexcept
  {
    dynamics_.inverse_dynamics(q_.data(), zero_.data(), zero_.data(), tau_.data());
    if (!adds_.nothing()) adds_.at_rest(dynamics_, q_.data(), added_.data());
    if (!all_finite(tau_.data(), n_) || !all_finite(added_.data(), n_)) return false;
    hold_ = tau_;
    hold_added_ = added_;
    return true;
  }

  /// Put the torque of the reference into tau_, and what the robot adds of it into added_.
  void along_reference() noexcept
  {
    dynamics_.rigid(q_r_.data(), dq_r_.data(), ddq_r_.data(), rigid_.data());
    dynamics_.friction(dq_r_.data(), rigid_.data(), friction_.data());
    for (std::size_t a = 0; a < n_; ++a) tau_[a] = rigid_[a] + friction_[a];
    if (!adds_.nothing()) adds_.in_motion(dynamics_, q_r_.data(), friction_.data(), added_.data());
  }

  bool put(FeedforwardMode mode, double dt) noexcept
  {
    if (!all_finite(tau_.data(), n_) || !all_finite(added_.data(), n_)) return false;
    if (mode != mode_) output_.change();
    mode_ = mode;
    if (!adds_.nothing()) output_.left_to_command(tau_.data(), added_.data());
    return output_.put(tau_.data(), dt);
  }
  bool fits(const Gains & gains) const noexcept
  {
    for (const auto * list : {&gains.kp, &gains.kd, &gains.damping})
    {
      if (list->size() != n_) return false;
      for (const double x : *list)
        if (!(x >= 0.0) || !std::isfinite(x)) return false;
    }
    return true;
  }

  Dynamics dynamics_;
  AddedTorque adds_;
  ReferenceLimits reference_limits_;
  RefusedReferences refused_;
  EffortOutput output_;
  FeedforwardOptions options_;
  std::size_t n_;
  Gains gains_;
  std::vector<double> q_, q_r_, dq_r_, ddq_r_, zero_, rigid_, friction_, tau_, added_, hold_,
    hold_added_;
  FeedforwardMode mode_ = FeedforwardMode::hold;
  bool has_reference_ = false, fresh_ = false;
  double age_ = 0.0, lost_ = 0.0, lead_ = 0.0;
};

}  // namespace ros2_dynid
