// The generated dynamics behind a C++ interface. Nothing is allocated, locked or printed: it may run in update().
// The header is the one that `dynid export model.yaml --to c --name arm -o generated` writes.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>

#include "arm.h"

class ArmModel
{
public:
  static constexpr std::size_t joints = ARM_JOINTS;
  using Vector = std::array<double, joints>;  // in the order of the header's comment; rad, rad/s, rad/s^2, N.m

  explicit ArmModel(const Vector & effort_limits) : limits_(effort_limits) {}

  /// Torque [N.m] along a reference, held within the effort limits; zero if it is not finite.
  Vector feedforward(const Vector & q, const Vector & dq, const Vector & ddq) const
  {
    Vector tau;
    arm_torque(q.data(), dq.data(), ddq.data(), tau.data());
    return within_limits(tau);
  }

  /// Torque [N.m] that holds the arm still at the measured position.
  Vector gravity(const Vector & q) const
  {
    std::array<double, joints * joints> inertia;
    Vector tau;
    arm_inertia_gravity(q.data(), inertia.data(), tau.data());
    return within_limits(tau);
  }

private:
  Vector within_limits(Vector tau) const
  {
    for (std::size_t j = 0; j < joints; ++j) {
      tau[j] = std::isfinite(tau[j]) ? std::fmax(-limits_[j], std::fmin(limits_[j], tau[j])) : 0.0;
    }
    return tau;
  }

  Vector limits_;
};
