// SPDX-License-Identifier: Apache-2.0
// The law of hand guiding: gravity, a fraction of the friction, and guards of speed and range.
//
//   tau = Q(q) + off + fraction w (friction(dq) - off) - damping dq - M(q) over(dq) / time -
//   wall(q, dq)
//
// over(dq) is what a joint's speed has beyond its limit, so that it decays with the time constant
// `time` whatever the robot weighs; w takes the friction's help away before. Beyond twice the
// limit, as when a hand lets go of a load that the model does not know, the whole motion is braked,
// M(q) dq / time, until the robot is at rest. What is commanded is that less what the robot adds
// itself: of an arm that holds itself, friction, damping and guards are left. Construction
// allocates and throws; nothing after that does either.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <utility>
#include <vector>

#include "ros2_dynid/effort_law.hpp"

namespace ros2_dynid
{

struct HandGuidingOptions
{
  std::vector<double> speed;         ///< largest speed of each joint [rad/s or m/s]
  std::vector<double> lower, upper;  ///< range [rad or m], infinite where there is none
  std::vector<double> margin;   ///< the wall begins this far before the range's ends [rad or m]
  std::vector<double> damping;  ///< [N.m.s/rad]
  double friction = 0.5;        ///< fraction of the friction that is compensated, 0 to 0.95
  double smoothing = 0.05;      ///< speed over which Coulomb friction changes sign [rad/s or m/s]
  double wall = 0.25;           ///< share of the effort limit that pushes back at the range's end
  double time = 0.05;           ///< time constant of braking [s]
  double settle = 0.5;          ///< at rest for this time, the brake lets go [s]
  double timeout = 0.05;        ///< state or model lost for longer than this is an error [s]
};

enum class HandGuidingMode
{
  guide,
  brake,
  blind
};

class HandGuidingLaw : public EffortLaw
{
public:
  HandGuidingLaw(const Model & model, HandGuidingOptions options, EffortBounds bounds)
  : EffortLaw(model, std::move(bounds), options.smoothing, options.timeout),
    options_(std::move(options)),
    offset_(n_),
    over_(n_),
    M_(n_ * n_)
  {
    const auto & o = options_;
    for (const auto * list : {&o.speed, &o.lower, &o.upper, &o.margin, &o.damping})
    {
      if (list->size() != n_)
        throw std::invalid_argument("give one value of each guard for each joint of the model");
    }
    for (std::size_t a = 0; a < n_; ++a)
    {
      if (!(o.speed[a] > 0.0) || !std::isfinite(o.speed[a]))
        throw std::invalid_argument("a speed limit is not known or not positive");
      if (!(o.lower[a] < o.upper[a])) throw std::invalid_argument("a joint's range is empty");
      if (!(o.margin[a] > 0.0)) throw std::invalid_argument("a margin is not positive");
      if (!(o.damping[a] >= 0.0)) throw std::invalid_argument("a damping is negative");
    }
    if (!(o.friction >= 0.0 && o.friction <= 0.95))
    {
      throw std::invalid_argument(
        "the fraction of friction is not within 0 and 0.95: with all of it the arm would drift");
    }
    for (const double x : {o.smoothing, o.wall, o.time, o.settle})
    {
      if (!(x > 0.0) || !std::isfinite(x))
        throw std::invalid_argument("an option of hand guiding is not positive");
    }
  }

  HandGuidingMode mode() const noexcept { return mode_; }

  /// The first joint (from 0) that is outside its range or not finite, or joints() if all are
  /// inside.
  std::size_t outside(const double * q) const noexcept
  {
    for (std::size_t a = 0; a < n_; ++a)
      if (!(q[a] >= options_.lower[a] && q[a] <= options_.upper[a])) return a;
    return n_;
  }

  /// Begin at the position q with the torque that holds the robot, or with the command before end()
  /// if it is resumed (EffortLaw::begin). False if q is outside the range or it is not finite.
  bool start(const double * q, bool resumed = false) noexcept
  {
    if (outside(q) != n_ || !begin(q, resumed)) return false;
    mode_ = HandGuidingMode::guide;
    rest_ = 0.0;
    return true;
  }

  /// Compensate this fraction of the friction. False, and nothing changes, outside 0 to 0.95.
  bool set_friction(double fraction) noexcept
  {
    if (!(fraction >= 0.0 && fraction <= 0.95)) return false;
    options_.friction = fraction;
    output_.change();
    return true;
  }

  /// Compute the command, dt [s] after the last. False if state or model have been lost for longer
  /// than the timeout: the command is then what holds the robot where it was last seen.
  bool update(const double * q, const double * dq, double dt) noexcept
  {
    const bool seen = see(q, dq);
    bool model = hold();
    HandGuidingMode next = HandGuidingMode::blind;
    if (seen)
    {
      next = watch(dq, passed(dt));
      model = add_motion(next, q, dq, model) && model;
    }
    const bool fade = next != mode_ && next != HandGuidingMode::brake;  // the brake acts at once
    mode_ = next;
    send(fade, dt);
    return in_time(seen && model, dt);
  }

private:
  /// Braking begins beyond twice a joint's speed limit and ends when all have been at rest for a
  /// while.
  HandGuidingMode watch(const double * dq, double time) noexcept
  {
    bool fast = false, still = true;
    for (std::size_t a = 0; a < n_; ++a)
    {
      const double speed = std::fabs(dq[a]);
      fast = fast || speed > 2.0 * options_.speed[a];
      still = still && speed < 0.1 * options_.speed[a];
    }
    rest_ = still ? rest_ + time : 0.0;
    if (fast) return HandGuidingMode::brake;
    if (mode_ == HandGuidingMode::brake && rest_ < options_.settle) return HandGuidingMode::brake;
    return HandGuidingMode::guide;
  }

  /// Add friction, damping and guards to tau_. False, and it stays, if one of them is not finite.
  bool add_motion(HandGuidingMode mode, const double * q, const double * dq, bool model) noexcept
  {
    const bool brake = mode == HandGuidingMode::brake;
    const auto & o = options_;
    for (std::size_t a = 0; a < n_; ++a)
    {
      const double speed = std::fabs(dq[a]);
      over_[a] = brake                ? dq[a]
                 : speed > o.speed[a] ? std::copysign(speed - o.speed[a], dq[a])
                                      : 0.0;
      tau_[a] -= o.damping[a] * dq[a];
    }
    if (!model) return finite();
    offset_ = friction_;  // as hold() left it
    dynamics_.friction(dq, rigid_.data(), friction_.data());
    if (!adds_.nothing()) adds_.in_motion(dynamics_, q, friction_.data(), added_.data());
    dynamics_.inertia(q, M_.data());
    double power = 0.0;
    for (std::size_t a = 0; a < n_; ++a)
    {  // friction_ - offset_ is compensated; then over_ gives way to M over_
      double help = brake ? 0.0 : o.friction * (friction_[a] - offset_[a]);
      help *= std::clamp(2.0 - 2.0 * std::fabs(dq[a]) / o.speed[a], 0.0, 1.0);
      const double above = depth(q[a] - o.upper[a], o.margin[a]),
                   below = depth(o.lower[a] - q[a], o.margin[a]);
      const double inside = std::max(above, below), side = above > below ? 1.0 : -1.0;
      const bool outward = dq[a] * side > 0.0;
      if (outward) help *= std::max(0.0, 1.0 - inside);
      tau_[a] += help - side * o.wall * output_.limits()[a] * inside;
      if (outward && !brake) over_[a] += std::min(1.0, inside) * (dq[a] - over_[a]);
      friction_[a] = 0.0;
    }
    for (std::size_t a = 0; a < n_; ++a)
    {
      for (std::size_t b = 0; b < n_; ++b) friction_[a] += M_[a * n_ + b] * over_[b] / o.time;
      power += friction_[a] * over_[a];
    }
    for (std::size_t a = 0; a < n_; ++a)
      if (power > 0.0) tau_[a] -= friction_[a];  // a wrong M must not drive
    if (finite()) return true;
    added_ = hold_added_;
    for (std::size_t a = 0; a < n_; ++a) tau_[a] = hold_[a] - o.damping[a] * dq[a];
    return false;
  }

  /// How deep a joint is in the wall: 0 where it begins, 1 at the range's end, at most 2.
  static double depth(double beyond, double margin) noexcept
  {
    return std::clamp(1.0 + beyond / margin, 0.0, 2.0);
  }

  HandGuidingOptions options_;
  std::vector<double> offset_, over_, M_;
  HandGuidingMode mode_ = HandGuidingMode::guide;
  double rest_ = 0.0;
};

}  // namespace ros2_dynid
