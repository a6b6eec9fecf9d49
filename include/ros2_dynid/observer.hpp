// SPDX-License-Identifier: Apache-2.0
// What the robot feels: external torque by the generalised momentum, contacts, and the wrench at a
// link.
//
// dp/dt = beta + carried + external, with p = M dq and carried the torque that friction leaves of
// the motors'. No accelerations, no inverse of M. Construction allocates and may throw
// std::invalid_argument; everything after neither allocates nor throws. All arrays are of the
// active joints, in the order of Model::active_names().
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <vector>

#include "ros2_dynid/dynamics.hpp"

namespace ros2_dynid
{

struct ObserverOptions
{
  double bandwidth = 100.0;  ///< K [rad/s]: a push shows with the time constant 1/K
  double smoothing = 0.02;   ///< speed over which Coulomb friction changes sign [rad/s or m/s]
  double undecided_speed =
    0.05;                      ///< below it the sign of Coulomb friction is in doubt [rad/s or m/s]
  double longest_step = 0.04;  ///< over a longer time nothing is said about the torque [s]
};

/// External torque r of each joint: r follows (dp/dt - beta - carried) with the time constant 1/K.
///
/// From one sample to the next r' = a r + (1 - a) ((p' - p)/dt - mean of beta + carried), a =
/// exp(-K dt), which is stable for every dt. A sample that is not finite, or late, is not used: r
/// stays, and the next one starts a new step.
class MomentumObserver
{
public:
  explicit MomentumObserver(
    const Model & model, const ObserverOptions & options = ObserverOptions())
  : dynamics_(model),
    options_(options),
    n_(dynamics_.joints()),
    p_(n_),
    last_p_(n_),
    s_(n_),
    last_s_(n_),
    external_(n_),
    undecided_(n_),
    carried_(n_),
    doubt_(n_)
  {
    for (const double x :
         {options.bandwidth, options.smoothing, options.undecided_speed, options.longest_step})
    {
      if (!(x > 0.0) || !std::isfinite(x))
        throw std::invalid_argument("an option of the observer is not positive");
    }
    dynamics_.set_smoothing(options.smoothing);
  }

  std::size_t joints() const noexcept { return n_; }
  Dynamics & dynamics() noexcept { return dynamics_; }

  /// Take a sample: q, dq, motor torques tau, and the time dt [s] since the one before. False if it
  /// could not be used.
  bool update(const double * q, const double * dq, const double * tau, double dt) noexcept
  {
    if (dt == 0.0) return false;  // the same sample again
    bool good = dt > 0.0 && std::isfinite(dt);
    for (std::size_t a = 0; a < n_; ++a)
    {
      good = good && std::isfinite(q[a]) && std::isfinite(dq[a]) && std::isfinite(tau[a]);
    }
    if (good)
    {
      dynamics_.momentum(q, dq, p_.data(), s_.data());
      dynamics_.carried(dq, tau, carried_.data());
      for (std::size_t a = 0; a < n_; ++a)
      {
        s_[a] += carried_[a];
        good = good && std::isfinite(p_[a]) && std::isfinite(s_[a]);
      }
    }
    if (!good)
    {
      known_ = false;
      return false;
    }
    const bool follows = known_ && dt <= options_.longest_step;
    const double keep = follows ? std::exp(-options_.bandwidth * dt) : 0.0;
    dynamics_.undecided_friction(dq, carried_.data(), options_.undecided_speed, doubt_.data());
    for (std::size_t a = 0; a < n_; ++a)
    {
      if (follows)
      {
        const double found = (p_[a] - last_p_[a]) / dt - 0.5 * (s_[a] + last_s_[a]);
        external_[a] = keep * external_[a] + (1.0 - keep) * found;
      }
      undecided_[a] = std::max(doubt_[a], keep * undecided_[a]);
      last_p_[a] = p_[a];
      last_s_[a] = s_[a];
    }
    known_ = true;
    return follows;
  }

  /// External torque of each joint [N.m or N].
  const double * external() const noexcept { return external_.data(); }

  /// Friction whose sign is or was just now in doubt, which external() may be wrong by [N.m or N].
  const double * undecided() const noexcept { return undecided_.data(); }

  /// Forget everything: external torque 0, and the next sample starts a new step.
  void restart() noexcept
  {
    known_ = false;
    for (std::size_t a = 0; a < n_; ++a) external_[a] = undecided_[a] = 0.0;
  }

  /// Carry this load from now on, as Dynamics::set_payload does.
  bool set_payload(const Load & load) noexcept
  {
    if (!dynamics_.set_payload(load)) return false;
    known_ = false;  // the momentum jumps without any torque
    return true;
  }

  /// Take new parameters, as Dynamics::set_parameters does.
  bool set_parameters(const Model & model) noexcept
  {
    if (!dynamics_.set_parameters(model)) return false;
    known_ = false;
    return true;
  }

private:
  Dynamics dynamics_;
  ObserverOptions options_;
  std::size_t n_;
  std::vector<double> p_, last_p_, s_, last_s_, external_, undecided_, carried_, doubt_;
  bool known_ = false;
};

struct ContactOptions
{
  double bandwidth = 100.0;  ///< of the observer [rad/s]
  double width = 6.0;        ///< threshold in standard deviations
  double release = 0.5;      ///< a contact ends below this share of the threshold ...
  double hold = 0.05;        ///< ... held for this time [s]
  double confirm =
    0.001;  ///< a contact begins when the torque is beyond the threshold for this time [s]
};

enum class ContactEvent
{
  none,
  begins,
  ends
};

/// Contact where the external torque is beyond what the model and the sensors explain.
///
/// Threshold of a joint: width * sqrt(sigma^2 + torque_std^2 + noise^2) + undecided friction, or
/// the one given plus undecided friction. sigma and torque_std are the model's error bars. noise is
/// that of the external torque itself, from its third differences over 1/K, which slow torques
/// hardly enter and pushes only for a moment; in contact it is not followed. A joint without error
/// bars and without a threshold given never makes a contact.
class ContactDetector
{
public:
  /// given: thresholds [N.m or N], one a joint; 0 (or none at all): from the error bars.
  ContactDetector(
    const std::vector<ErrorBar> & bars, const std::vector<double> & given = {},
    const ContactOptions & options = ContactOptions())
  : options_(options), n_(bars.size()), joints_(n_)
  {
    if (!given.empty() && given.size() != n_)
      throw std::invalid_argument("give one contact threshold for each joint");
    for (const double x : {options.bandwidth, options.width, options.release})
    {
      if (!(x > 0.0) || !std::isfinite(x))
        throw std::invalid_argument("an option of the contacts is not positive");
    }
    if (!(options.release <= 1.0) || !(options.hold >= 0.0) || !(options.confirm >= 0.0))
    {
      throw std::invalid_argument("an option of the contacts is out of range");
    }
    for (std::size_t a = 0; a < n_; ++a)
    {
      joints_[a].given = given.empty() ? 0.0 : given[a];
      if (!(joints_[a].given >= 0.0))
        throw std::invalid_argument("a contact threshold is negative");
      joints_[a].variance = bars[a].sigma * bars[a].sigma + bars[a].torque_std * bars[a].torque_std;
    }
    thresholds_.assign(n_, unknown);
    beyond_.assign(n_, 0);
  }

  std::size_t joints() const noexcept { return n_; }

  /// Whether any joint can make a contact.
  bool usable() const noexcept
  {
    for (const auto & joint : joints_)
      if (joint.given > 0.0 || std::isfinite(joint.variance)) return true;
    return false;
  }

  /// Take what the observer found with a sample that it could use, dt [s] after the time before.
  ContactEvent update(const double * external, const double * undecided, double dt) noexcept
  {
    if (!(dt > 0.0) || !std::isfinite(dt)) return ContactEvent::none;
    tick_ += dt;
    const bool tick = tick_ * options_.bandwidth >= 1.0 - 1e-9;
    const bool follow = tick && settled_ >= settling && !contact_;
    const bool differ = follow && stored_ >= 3;
    const bool clip = count_ >= warm;
    if (tick && settled_ < settling) ++settled_;
    if (follow && !differ) ++stored_;
    if (differ && count_ < most) ++count_;
    const double share =
      std::max(tick_ / memory, 1.0 / static_cast<double>(count_ > 0 ? count_ : 1));
    const bool ready = count_ >= warm;
    bool any = false;
    for (std::size_t a = 0; a < n_; ++a)
    {
      Followed & joint = joints_[a];
      const double r = external[a];
      if (differ)
      {
        const double third = r - 3.0 * joint.before[0] + 3.0 * joint.before[1] - joint.before[2];
        double square = third * third / normal;
        if (clip) square = std::min(square, 9.0 * joint.noise);
        joint.noise += share * (square - joint.noise);
      }
      if (follow) joint.before = {r, joint.before[0], joint.before[1]};
      const double bar =
        joint.given > 0.0 ? joint.given : options_.width * std::sqrt(joint.variance + joint.noise);
      thresholds_[a] = (std::isfinite(bar) ? bar : unknown) + undecided[a];
      const double size = std::fabs(r);
      joint.over = size > thresholds_[a] ? joint.over + dt : 0.0;
      joint.under = size < options_.release * thresholds_[a] ? joint.under + dt : 0.0;
      if (beyond_[a])
      {
        if (joint.under > options_.hold) beyond_[a] = 0;
      }
      else if (ready && joint.over > options_.confirm)
      {
        beyond_[a] = 1;
      }
      any = any || beyond_[a];
    }
    if (tick) tick_ = 0.0;
    const bool was = contact_;
    contact_ = any;
    if (any)
      stored_ = 0;  // what was stored before the contact is no neighbour of what comes after it
    return any == was ? ContactEvent::none : any ? ContactEvent::begins : ContactEvent::ends;
  }

  bool contact() const noexcept { return contact_; }
  const double * thresholds() const noexcept
  {
    return thresholds_.data();
  }  ///< infinite where there is none
  const unsigned char * beyond() const noexcept
  {
    return beyond_.data();
  }  ///< 1 for the joints in contact

  /// Forget contacts and noise, as after MomentumObserver::restart().
  void restart() noexcept
  {
    tick_ = 0.0;
    settled_ = stored_ = count_ = 0;
    contact_ = false;
    for (std::size_t a = 0; a < n_; ++a)
    {
      joints_[a].noise = joints_[a].over = joints_[a].under = 0.0;
      beyond_[a] = 0;
    }
  }

private:
  struct Followed
  {
    double given = 0.0, variance = 0.0, noise = 0.0, over = 0.0, under = 0.0;
    std::array<double, 3> before{};
  };
  static constexpr double unknown = std::numeric_limits<double>::infinity();
  static constexpr double memory = 5.0;  ///< of the noise [s]
  static constexpr std::size_t settling =
    5;  ///< times 1/K until the observer has found what there was at first
  static constexpr std::size_t warm = 25;  ///< third differences until the noise is known
  static constexpr std::size_t most = 1000000;
  /// Variance of third differences of what a filter of time constant 1/K makes of white noise: 20 -
  /// 30 x + 12 x^2 - 2 x^3, x = exp(-1). Noise with less memory gives more, which is on the safe
  /// side.
  static constexpr double normal = 10.488066026960356;

  ContactOptions options_;
  std::size_t n_;
  std::vector<Followed> joints_;
  std::vector<double> thresholds_;
  std::vector<unsigned char> beyond_;
  double tick_ = 0.0;
  std::size_t settled_ = 0, stored_ = 0, count_ = 0;
  bool contact_ = false;
};

/// Wrench at a tool's origin, force [N] and moment [N.m] in its own frame, that explains external
/// torques best.
///
/// Least squares of J^T F = external with damping: F = (J J^T + damping^2 1)^-1 J external.
/// Directions that the joints hardly feel, with singular values of J below `damping` [m or 1], come
/// out smaller than they are. Fewer than six joints do not feel every wrench: F is then the
/// smallest one. False, and F = 0, if an input is not finite.
class WrenchEstimator
{
public:
  explicit WrenchEstimator(std::size_t joints, double damping = 0.02)
  : n_(joints), damping_(damping), J_(6 * joints)
  {
    if (!(damping > 0.0) || !std::isfinite(damping))
      throw std::invalid_argument("the damping is not positive");
  }

  bool update(
    Dynamics & dynamics, const Tool & tool, const double * q, const double * external,
    std::array<double, 6> & F) noexcept
  {
    F.fill(0.0);
    for (std::size_t a = 0; a < n_; ++a)
      if (!std::isfinite(q[a]) || !std::isfinite(external[a])) return false;
    dynamics.jacobian(q, tool, J_.data());
    std::array<std::array<double, 6>, 6> L{};
    for (std::size_t i = 0; i < 6; ++i)
    {
      for (std::size_t k = 0; k <= i; ++k)
      {
        L[i][k] = i == k ? damping_ * damping_ : 0.0;
        for (std::size_t a = 0; a < n_; ++a) L[i][k] += J_[i * n_ + a] * J_[k * n_ + a];
      }
      for (std::size_t a = 0; a < n_; ++a) F[i] += J_[i * n_ + a] * external[a];
    }
    for (std::size_t i = 0; i < 6; ++i)
    {  // Cholesky, in place
      for (std::size_t k = 0; k <= i; ++k)
      {
        for (std::size_t m = 0; m < k; ++m) L[i][k] -= L[i][m] * L[k][m];
        L[i][k] = i == k ? std::sqrt(L[i][i]) : L[i][k] / L[k][k];
      }
    }
    for (std::size_t i = 0; i < 6; ++i)
    {
      for (std::size_t m = 0; m < i; ++m) F[i] -= L[i][m] * F[m];
      F[i] /= L[i][i];
    }
    for (std::size_t i = 6; i-- > 0;)
    {
      for (std::size_t m = i + 1; m < 6; ++m) F[i] -= L[m][i] * F[m];
      F[i] /= L[i][i];
    }
    for (const double x : F)
    {
      if (!std::isfinite(x))
      {
        F.fill(0.0);
        return false;
      }
    }
    return true;
  }

private:
  std::size_t n_;
  double damping_;
  std::vector<double> J_;
};

}  // namespace ros2_dynid
