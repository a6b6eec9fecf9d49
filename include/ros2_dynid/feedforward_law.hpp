// SPDX-License-Identifier: Apache-2.0
// The law of the feedforward controller:
//
//   tau = model(q_r, dq_r, ddq_r) + Kp (q_r - q) + Kd (dq_r - dq), less what the robot adds.
//
// A reference that stops, is not finite or is beyond a limit ends in gravity and damping. A state
// that is not finite ends in gravity where the robot was last seen. Every change of law, model,
// load or gains fades in. Construction allocates and throws; nothing after that does either.
#pragma once

#include <cmath>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "ros2_dynid/effort_law.hpp"
#include "ros2_dynid/references.hpp"

namespace ros2_dynid
{

struct Gains
{
  std::vector<double> kp, kd;   ///< [N.m/rad], [N.m.s/rad]
  std::vector<double> damping;  ///< without a reference [N.m.s/rad]
};

/// Whether gains are finite and not negative, one for each of n joints.
inline bool gains_fit(const Gains & gains, std::size_t n) noexcept
{
  for (const auto * list : {&gains.kp, &gains.kd, &gains.damping})
  {
    if (list->size() != n) return false;
    for (const double x : *list)
      if (!(x >= 0.0) || !std::isfinite(x)) return false;
  }
  return true;
}

struct FeedforwardOptions
{
  double smoothing = 0.02;  ///< speed over which Coulomb friction changes sign [rad/s or m/s]
  double timeout = 0.05;    ///< a reference older than this has stopped; a state lost for longer is
                            ///< an error [s]
};

enum class FeedforwardMode
{
  hold,
  follow,
  blind
};

class FeedforwardLaw : public EffortLaw
{
public:
  FeedforwardLaw(
    const Model & model, Gains gains, EffortBounds bounds,
    const FeedforwardOptions & options = FeedforwardOptions())
  : EffortLaw(model, std::move(bounds), options.smoothing, options.timeout),
    reference_limits_(model),
    refused_(std::make_shared<RefusedReferences>()),
    gains_(std::move(gains)),
    q_r_(n_),
    dq_r_(n_),
    ddq_r_(n_)
  {
    if (!gains_fit(gains_, n_))
      throw std::invalid_argument(
        "give gains that are finite and not negative, one for each joint");
  }

  FeedforwardMode mode() const noexcept { return mode_; }
  /// References that were refused, here or by whoever reads them before: any thread may ask and
  /// count.
  std::shared_ptr<RefusedReferences> refused() const noexcept { return refused_; }

  /// Begin at the position q with the torque that holds the robot, without a reference, or with the
  /// command before end() if it is resumed (EffortLaw::begin). False if it is not finite.
  bool start(const double * q, bool resumed = false) noexcept
  {
    if (!begin(q, resumed)) return false;
    mode_ = FeedforwardMode::hold;
    clear_reference();
    return true;
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
    if (!reference_limits_.pass(q, dq, ddq, *refused_))
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
    if (!gains_fit(gains, n_)) return false;
    for (std::size_t a = 0; a < n_; ++a)
    {
      gains_.kp[a] = gains.kp[a];
      gains_.kd[a] = gains.kd[a];
      gains_.damping[a] = gains.damping[a];
    }
    output_.change();
    return true;
  }

  /// Compute the command, dt [s] after the last. False if state or model have been lost for longer
  /// than the timeout: the command is then what holds the robot where it was last seen.
  bool update(const double * q, const double * dq, double dt) noexcept
  {
    const bool seen = see(q, dq);
    age_ = fresh_ ? 0.0 : age_ + passed(dt);
    fresh_ = false;
    has_reference_ = has_reference_ && age_ <= timeout_;
    bool well = false;
    if (seen && has_reference_)
    {
      along_reference();
      for (std::size_t a = 0; a < n_; ++a)
      {
        const double dq_now = dq_r_[a] - lead_ * ddq_r_[a];
        const double q_now = q_r_[a] - 0.5 * lead_ * (dq_r_[a] + dq_now);
        tau_[a] += gains_.kp[a] * (q_now - q[a]) + gains_.kd[a] * (dq_now - dq[a]);
      }
      well = send_as(FeedforwardMode::follow, dt);
    }
    if (!well)
    {
      const bool model = hold();
      for (std::size_t a = 0; seen && a < n_; ++a) tau_[a] -= gains_.damping[a] * dq[a];
      well = send_as(seen ? FeedforwardMode::hold : FeedforwardMode::blind, dt) && model;
    }
    return in_time(seen && well, dt);
  }

private:
  /// Put the torque of the reference into tau_, and what the robot adds of it into added_.
  void along_reference() noexcept
  {
    dynamics_.rigid(q_r_.data(), dq_r_.data(), ddq_r_.data(), rigid_.data());
    dynamics_.friction(dq_r_.data(), rigid_.data(), friction_.data());
    for (std::size_t a = 0; a < n_; ++a) tau_[a] = rigid_[a] + friction_[a];
    if (!adds_.nothing()) adds_.in_motion(dynamics_, q_r_.data(), friction_.data(), added_.data());
  }

  bool send_as(FeedforwardMode mode, double dt) noexcept
  {
    if (!finite()) return false;
    const bool fade = mode != mode_;
    mode_ = mode;
    return send(fade, dt);
  }

  ReferenceLimits reference_limits_;
  std::shared_ptr<RefusedReferences> refused_;
  Gains gains_;
  std::vector<double> q_r_, dq_r_, ddq_r_;
  FeedforwardMode mode_ = FeedforwardMode::hold;
  bool has_reference_ = false, fresh_ = false;
  double age_ = 0.0, lead_ = 0.0;
};

}  // namespace ros2_dynid
