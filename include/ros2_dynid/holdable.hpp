// SPDX-License-Identifier: Apache-2.0
// Whether a model or a load can be true: the robot must be able to hold it. Allocates; call it
// outside the control loop.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "ros2_dynid/dynamics.hpp"

namespace ros2_dynid
{

/// Why the robot could not hold the model with the load, or nothing (""): gravity is beyond the
/// effort limits at q (if given), or in most of the positions that it can reach.
inline std::string cannot_hold(
  const Model & model, const Load & load, const std::vector<double> & effort,
  const double * q = nullptr)
{
  constexpr int positions = 64;
  constexpr double turn = 3.141592653589793;
  Dynamics dynamics(model);
  if (!dynamics.set_payload(load)) return "no body has this mass, centre and inertia";
  const auto active = model.active();
  const auto names = model.active_names();
  std::vector<double> tau(active.size()), at(active.size());
  const auto beyond = [&](const double * place)
  {
    dynamics.gravity(place, tau.data());
    for (std::size_t a = 0; a < tau.size(); ++a)
      if (!(std::fabs(tau[a]) <= effort[a])) return a;
    return tau.size();
  };
  if (q)
  {
    const std::size_t joint = beyond(q);
    if (joint < tau.size())
    {
      return "it needs " + std::to_string(std::fabs(tau[joint])) + " at " + names[joint] +
             " against gravity where the robot is, the limit is " + std::to_string(effort[joint]);
    }
  }
  std::mt19937 random(0);
  int failed = 0;
  for (int k = 0; k < positions; ++k)
  {
    for (std::size_t a = 0; a < at.size(); ++a)
    {
      const Joint & joint = model.joints[active[a] - 1];
      const double wide = joint.prismatic ? 1.0 : turn;
      const double lower = std::max(joint.limits.lower, -wide),
                   upper = std::min(joint.limits.upper, wide);
      const double share = static_cast<double>(random()) / static_cast<double>(std::mt19937::max());
      at[a] = lower + share * std::max(0.0, upper - lower);
    }
    failed += beyond(at.data()) < tau.size();
  }
  if (2 * failed > positions)
    return "gravity is beyond the effort limits in most of the robot's positions";
  return "";
}

}  // namespace ros2_dynid
