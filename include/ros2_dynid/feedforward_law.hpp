// The law of the feedforward controller: tau = model(q_r, dq_r, ddq_r) + Kp (q_r - q) + Kd (dq_r - dq).
//
// A reference that stops or is not finite ends in gravity and damping. A state that is not finite ends in gravity where the
// robot was last seen. Every change of law, model, load or gains fades in. Construction allocates and throws; nothing after
// that does either.
#pragma once

#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <utility>
#include <vector>

#include "ros2_dynid/dynamics.hpp"
#include "ros2_dynid/effort_output.hpp"

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
  double timeout = 0.05;    ///< a reference older than this has stopped; a state lost for longer is an error [s]
};

enum class FeedforwardMode { hold, follow, blind };

class FeedforwardLaw
{
public:
  FeedforwardLaw(const Model & model, Gains gains, EffortBounds bounds, const FeedforwardOptions & options = FeedforwardOptions())
  : dynamics_(model), output_(std::move(bounds)), options_(options), n_(dynamics_.joints()), gains_(std::move(gains)), q_(n_),
    q_r_(n_), dq_r_(n_), ddq_r_(n_), zero_(n_, 0.0), tau_(n_), hold_(n_)
  {
    if (output_.joints() != n_) throw std::invalid_argument("give one effort limit for each joint of the model");
    if (!fits(gains_)) throw std::invalid_argument("give gains that are finite and not negative, one for each joint");
    if (!(options.timeout > 0.0)) throw std::invalid_argument("the timeout is not positive");
    dynamics_.set_smoothing(options.smoothing);
  }

  std::size_t joints() const noexcept { return n_; }
  FeedforwardMode mode() const noexcept { return mode_; }
  const double * command() const noexcept { return output_.command(); }

  /// Begin at the position q with gravity's torque, without a reference. False if the torque is not finite.
  bool start(const double * q) noexcept
  {
    if (!all_finite(q, n_)) return false;
    for (std::size_t a = 0; a < n_; ++a) q_[a] = q[a];
    dynamics_.inverse_dynamics(q, zero_.data(), zero_.data(), tau_.data());
    if (!output_.start(tau_.data())) return false;
    hold_ = tau_;
    mode_ = FeedforwardMode::hold;
    fresh_ = has_reference_ = false;
    lost_ = 0.0;
    return true;
  }

  /// Leave gravity's torque, at q or, if that is not finite, where the robot was last seen.
  void end(const double * q) noexcept
  {
    if (!start(q) && !start(q_.data())) output_.start(hold_.data());
  }

  /// Follow this reference until the next. False, and the last one goes on until its timeout, if it is not finite.
  ///
  /// lead [s]: the reference is of this time after the update, as of a controller that writes where the robot shall be at the end of
  /// the period; the state measured now is compared with where the reference is now.
  bool set_reference(const double * q, const double * dq, const double * ddq, double lead = 0.0) noexcept
  {
    if (!all_finite(q, n_) || !all_finite(dq, n_) || !all_finite(ddq, n_)) return false;
    for (std::size_t a = 0; a < n_; ++a) {
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
    for (std::size_t a = 0; a < n_; ++a) {
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

  /// Compute the command, dt [s] after the last. False if state or model have been lost for longer than the timeout: the
  /// command is then gravity's where the robot was last seen.
  bool update(const double * q, const double * dq, double dt) noexcept
  {
    const double time = dt > 0.0 && std::isfinite(dt) ? dt : 0.0;
    const bool seen = all_finite(q, n_) && all_finite(dq, n_);
    if (seen) for (std::size_t a = 0; a < n_; ++a) q_[a] = q[a];
    age_ = fresh_ ? 0.0 : age_ + time;
    fresh_ = false;
    const bool follow = has_reference_ && age_ <= options_.timeout;
    has_reference_ = follow;
    bool sent = false;
    if (seen && follow) {
      dynamics_.inverse_dynamics(q_r_.data(), dq_r_.data(), ddq_r_.data(), tau_.data());
      for (std::size_t a = 0; a < n_; ++a) {
        const double dq_now = dq_r_[a] - lead_ * ddq_r_[a], q_now = q_r_[a] - 0.5 * lead_ * (dq_r_[a] + dq_now);
        tau_[a] += gains_.kp[a] * (q_now - q[a]) + gains_.kd[a] * (dq_now - dq[a]);
      }
      sent = put(FeedforwardMode::follow, dt);
    }
    if (!sent) {
      dynamics_.inverse_dynamics(q_.data(), zero_.data(), zero_.data(), tau_.data());
      const bool model = all_finite(tau_.data(), n_);
      for (std::size_t a = 0; a < n_; ++a) {
        if (model) hold_[a] = tau_[a];
        else tau_[a] = hold_[a];  // the last that was known
        if (seen) tau_[a] -= gains_.damping[a] * dq[a];
      }
      sent = put(seen ? FeedforwardMode::hold : FeedforwardMode::blind, dt) && model;
    }
    lost_ = seen && sent ? 0.0 : lost_ + time;
    return lost_ <= options_.timeout;
  }

private:
  bool put(FeedforwardMode mode, double dt) noexcept
  {
    if (!all_finite(tau_.data(), n_)) return false;
    if (mode != mode_) output_.change();
    mode_ = mode;
    return output_.put(tau_.data(), dt);
  }
  bool fits(const Gains & gains) const noexcept
  {
    for (const auto * list : {&gains.kp, &gains.kd, &gains.damping}) {
      if (list->size() != n_) return false;
      for (const double x : *list) if (!(x >= 0.0) || !std::isfinite(x)) return false;
    }
    return true;
  }

  Dynamics dynamics_;
  EffortOutput output_;
  FeedforwardOptions options_;
  std::size_t n_;
  Gains gains_;
  std::vector<double> q_, q_r_, dq_r_, ddq_r_, zero_, tau_, hold_;
  FeedforwardMode mode_ = FeedforwardMode::hold;
  bool has_reference_ = false, fresh_ = false;
  double age_ = 0.0, lost_ = 0.0, lead_ = 0.0;
};

}  // namespace ros2_dynid
