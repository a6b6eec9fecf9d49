// SPDX-License-Identifier: Apache-2.0
// Why a model or a load is not taken: it is of another robot, its friction pushes, or the robot
// could not hold it. Allocates; call it outside the control loop.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include "ros2_dynid/holdable.hpp"

namespace ros2_dynid
{

namespace detail
{

/// Speeds at which friction is looked at, as shares of the joint's limit: sticking joints are slow,
/// and laws are smooth beyond.
inline std::vector<double> friction_speeds()
{
  std::vector<double> shares;
  for (int k = 0; k < 20; ++k) shares.push_back(1e-4 * std::pow(1e3, k / 19.0));
  for (int k = 1; k <= 40; ++k) shares.push_back(0.1 + 0.9 * k / 40.0);
  return shares;
}

}  // namespace detail

/// Which joints friction pushes, F(v) sign(v) < 0 somewhere up to the joint's speed limit, in words
/// and as dynamics/friction_law.py finds them, or nothing ("").
///
/// No real friction pushes: a torque that is fed forward by it drives the robot faster and faster.
/// Each joint moves alone; gears that carry more only brake more.
inline std::string pushing_friction(const Model & model)
{
  constexpr double unlimited = 2.0 * 3.141592653589793;  // for joints without a speed limit
  constexpr double rounding = 1e-6;  // of the joint's largest torque: a solver's zero
  Model centred = model;
  for (auto & joint : centred.joints) joint.chi[OFF] = 0.0;
  Dynamics dynamics(centred);
  const auto active = model.active();
  const std::size_t n = active.size();
  std::vector<double> zero(n, 0.0), dq(n, 0.0), rigid(n), friction(n);
  std::string joints;
  for (std::size_t a = 0; a < n; ++a)
  {
    const Joint & joint = model.joints[active[a] - 1];
    const bool limited = std::isfinite(joint.limits.velocity) && joint.limits.velocity > 0.0;
    double least = 0.0, worst = 0.0, largest = 0.0;
    for (const double share : detail::friction_speeds())
    {
      for (const double sign : {1.0, -1.0})
      {
        const double speed = share * (limited ? joint.limits.velocity : unlimited);
        dq[a] = sign * speed;
        dynamics.rigid(zero.data(), dq.data(), zero.data(), rigid.data());
        dynamics.friction(dq.data(), rigid.data(), friction.data());
        const double brake = sign * friction[a];
        largest = std::max({largest, std::fabs(brake), std::fabs(rigid[a] + friction[a])});
        if (brake < least)
        {
          least = brake;
          worst = speed;
        }
      }
    }
    dq[a] = 0.0;
    if (!(least < -rounding * largest)) continue;
    char at[32];
    std::snprintf(at, sizeof at, " (at %.2g rad/s or m/s)", worst);
    joints += (joints.empty() ? "" : ", ") + joint.name + at;
  }
  if (joints.empty()) return "";
  return "the friction of " + joints +
         " pushes instead of braking; identify again: friction is fitted so that it brakes";
}

/// Why `model` with `load` is not taken for the robot of `robot`, or nothing (""). effort: limits
/// that it must be held with, empty: not looked at; q: where the robot is, if known.
inline std::string refusal_of(
  const Model & robot, const Model & model, const Load & load, const std::vector<double> & effort,
  const double * q = nullptr)
{
  Dynamics trial(robot);
  if (!trial.set_parameters(model) || !trial.set_payload(load)) return "it does not fit the robot";
  const std::string pushing = pushing_friction(model);
  if (!pushing.empty() || effort.empty()) return pushing;
  return cannot_hold(model, load, effort, q);
}

}  // namespace ros2_dynid
