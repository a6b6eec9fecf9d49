// SPDX-License-Identifier: Apache-2.0
// What leaves a controller: torques within limits, that change no faster than they may and without
// a step when the law changes.
//
// Construction allocates and throws std::invalid_argument; nothing after that does either.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <utility>
#include <vector>

namespace ros2_dynid
{

inline bool all_finite(const double * x, std::size_t n) noexcept
{
  for (std::size_t k = 0; k < n; ++k)
    if (!std::isfinite(x[k])) return false;
  return true;
}

struct EffortBounds
{
  std::vector<double> limits;  ///< largest torque of each joint [N.m or N]
  std::vector<double> rates;   ///< largest change of it [N.m/s or N/s]
  double ramp = 0.3;           ///< a step between two laws fades over this time [s]
  double longest_step =
    0.002;  ///< of ramps and rates [s]: an update that comes late moves no further than this one
};

/// Limits from limit to limit in 0.1 s: what the rates are where none are given.
inline std::vector<double> usual_rates(const std::vector<double> & limits)
{
  std::vector<double> rates;
  for (const double limit : limits) rates.push_back(2.0 * limit / 0.1);
  return rates;
}

class EffortOutput
{
public:
  explicit EffortOutput(EffortBounds bounds)
  : bounds_(std::move(bounds)), n_(bounds_.limits.size()), command_(n_, 0.0), step_(n_, 0.0)
  {
    if (bounds_.rates.size() != n_)
      throw std::invalid_argument("give one effort rate for each effort limit");
    for (std::size_t a = 0; a < n_; ++a)
    {
      for (const double x : {bounds_.limits[a], bounds_.rates[a]})
      {
        if (!(x > 0.0) || !std::isfinite(x))
          throw std::invalid_argument("an effort limit or rate is not known or not positive");
      }
    }
    if (!(bounds_.ramp >= 0.0) || !std::isfinite(bounds_.ramp) || !(bounds_.longest_step > 0.0))
    {
      throw std::invalid_argument("the ramp or the longest step of the efforts is out of range");
    }
  }

  std::size_t joints() const noexcept { return n_; }
  const double * command() const noexcept { return command_.data(); }
  const std::vector<double> & limits() const noexcept { return bounds_.limits; }

  /// The first torque: within the limits; what the robot carried before is not known. False if it
  /// is not finite.
  bool start(const double * tau) noexcept
  {
    if (!all_finite(tau, n_)) return false;
    for (std::size_t a = 0; a < n_; ++a) command_[a] = within(tau[a], bounds_.limits[a]);
    left_ = 0.0;
    changed_ = false;
    return true;
  }

  /// Turn the torque that the motors shall give, which is kept within the limits, into what is left
  /// to command where the robot adds `added` itself. A torque that is not finite stays so.
  void left_to_command(double * tau, const double * added) const noexcept
  {
    for (std::size_t a = 0; a < n_; ++a)
      tau[a] = (std::isfinite(tau[a]) ? within(tau[a], bounds_.limits[a]) : tau[a]) - added[a];
  }

  /// The next torque is that of another law: its step from the command fades over the ramp.
  void change() noexcept { changed_ = true; }

  /// Send tau, dt [s] after the last one. False, and the command stays, if it is not finite.
  bool put(const double * tau, double dt) noexcept
  {
    if (!all_finite(tau, n_)) return false;
    const double step =
      dt > 0.0 ? std::min(dt, bounds_.longest_step) : 0.0;  // a dt that is no number counts as none
    if (changed_)
    {
      for (std::size_t a = 0; a < n_; ++a) step_[a] = command_[a] - tau[a];
      left_ = 1.0;
      changed_ = false;
    }
    left_ = bounds_.ramp > 0.0 ? std::max(0.0, left_ - step / bounds_.ramp) : 0.0;
    for (std::size_t a = 0; a < n_; ++a)
    {
      const double wanted = within(tau[a] + left_ * step_[a], bounds_.limits[a]);
      command_[a] += within(wanted - command_[a], bounds_.rates[a] * step);
    }
    return true;
  }

private:
  static double within(double x, double limit) noexcept
  {
    return x > limit ? limit : x < -limit ? -limit : x;
  }

  EffortBounds bounds_;
  std::size_t n_;
  std::vector<double> command_, step_;
  double left_ = 0.0;  ///< share of the step that is not faded yet
  bool changed_ = false;
};

}  // namespace ros2_dynid
