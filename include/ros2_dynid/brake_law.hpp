// SPDX-License-Identifier: Apache-2.0
// The law of the last controller of a chain: it passes efforts on while they come, and brakes the
// robot when they stop.
//
//   braking: tau = Q(q) + off - M(q) dq / time - damping dq, less what the robot adds.
//
// Each joint's speed decays with the time constant `time`, whatever the robot weighs, as far as the
// effort limits allow; at rest gravity is left. Passed on or braking, efforts stay within limits
// and rates; the brake is not faded in. Construction allocates and throws; nothing after that does
// either.
#pragma once

#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <utility>
#include <vector>

#include "ros2_dynid/effort_law.hpp"

namespace ros2_dynid
{

struct BrakeOptions
{
  std::vector<double> damping;  ///< [N.m.s/rad or N.s/m]
  double time = 0.1;            ///< time constant with which the speeds decay [s]
  double smoothing = 0.02;      ///< below this speed a joint counts as resting [rad/s or m/s]
  double timeout = 0.01;  ///< efforts older than this have stopped; a state lost for longer is an
                          ///< error [s]
};

enum class BrakeMode
{
  brake,
  pass,
  blind
};

class BrakeLaw : public EffortLaw
{
public:
  BrakeLaw(const Model & model, BrakeOptions options, EffortBounds bounds)
  : EffortLaw(model, std::move(bounds), options.smoothing, options.timeout),
    options_(std::move(options)),
    passed_on_(n_),
    M_(n_ * n_)
  {
    if (options_.damping.size() != n_)
      throw std::invalid_argument("give one damping for each joint of the model");
    for (const double x : options_.damping)
      if (!(x >= 0.0) || !std::isfinite(x)) throw std::invalid_argument("a damping is negative");
    for (const double x : {options_.time, options_.smoothing})
      if (!(x > 0.0) || !std::isfinite(x))
        throw std::invalid_argument("an option of the brake is not positive");
  }

  BrakeMode mode() const noexcept { return mode_; }

  /// Begin at the position q with the torque that holds the robot, or with the command before end()
  /// if it is resumed (EffortLaw::begin). False if it is not finite.
  bool start(const double * q, bool resumed = false) noexcept
  {
    if (!begin(q, resumed)) return false;
    mode_ = BrakeMode::brake;
    has_efforts_ = fresh_ = false;
    return true;
  }

  /// Pass these efforts on until the next. False, and the last ones go on until their timeout, if
  /// one is not finite.
  bool set_efforts(const double * tau) noexcept
  {
    if (!all_finite(tau, n_)) return false;
    for (std::size_t a = 0; a < n_; ++a) passed_on_[a] = tau[a];
    has_efforts_ = fresh_ = true;
    return true;
  }

  /// Compute the command, dt [s] after the last. False if state or model have been lost for longer
  /// than the timeout: the command is then what holds the robot where it was last seen.
  bool update(const double * q, const double * dq, double dt) noexcept
  {
    const bool seen = see(q, dq);
    age_ = fresh_ ? 0.0 : age_ + passed(dt);
    fresh_ = false;
    has_efforts_ = has_efforts_ && age_ <= timeout_;
    bool well = seen;
    if (seen && has_efforts_)
    {
      mode_ = BrakeMode::pass;
      output_.put(passed_on_.data(), dt);
    }
    else
    {
      well = hold() && seen;
      if (seen) well = add_brake(q, dq) && well;
      mode_ = seen ? BrakeMode::brake : BrakeMode::blind;
      send(false, dt);
    }
    return in_time(well, dt);
  }

private:
  /// Take the brake from tau_. False, and the damping alone brakes, if it is not finite.
  bool add_brake(const double * q, const double * dq) noexcept
  {
    dynamics_.inertia(q, M_.data());
    double power = 0.0;
    for (std::size_t a = 0; a < n_; ++a)
    {
      friction_[a] = 0.0;
      for (std::size_t b = 0; b < n_; ++b) friction_[a] += M_[a * n_ + b] * dq[b] / options_.time;
      power += friction_[a] * dq[a];
    }
    const bool good = std::isfinite(power);
    for (std::size_t a = 0; a < n_; ++a)
    {  // a wrong M must not drive
      if (good && power > 0.0) tau_[a] -= friction_[a];
      tau_[a] -= options_.damping[a] * dq[a];
    }
    return good;
  }

  BrakeOptions options_;
  std::vector<double> passed_on_, M_;
  BrakeMode mode_ = BrakeMode::brake;
  bool has_efforts_ = false, fresh_ = false;
  double age_ = 0.0;
};

}  // namespace ros2_dynid
