// SPDX-License-Identifier: Apache-2.0
// Parameters of the controllers, given in the order of `joints`, as options of the laws in the
// order of the model.
//
// Allocates and throws std::runtime_error with the name of the parameter, unless it says otherwise.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "ros2_dynid/feedforward_law.hpp"
#include "ros2_dynid/hand_guiding_law.hpp"

namespace ros2_dynid
{

/// For each joint of the model, its place in `joints` (none: the model's own order).
using Places = std::vector<std::size_t>;

inline Places places_of(const Model & model, const std::vector<std::string> & joints)
{
  const auto names = model.active_names();
  Places list;
  for (std::size_t a = 0; a < names.size(); ++a)
  {
    const auto at = std::find(joints.begin(), joints.end(), names[a]);
    if (!joints.empty() && at == joints.end())
      throw std::runtime_error("`joints` lacks " + names[a] + ", which the model moves");
    list.push_back(joints.empty() ? a : static_cast<std::size_t>(at - joints.begin()));
  }
  if (!joints.empty() && joints.size() != names.size())
    throw std::runtime_error("`joints` names joints that the model has not");
  return list;
}

/// The value of the joint at `place` of a list with one value a joint, or one for all.
inline double value_at(const std::vector<double> & given, std::size_t place) noexcept
{
  return given[given.size() == 1 ? 0 : place];
}

/// A parameter's values in the order of the model: one a joint, or one for all.
inline std::vector<double> per_joint(
  const std::vector<double> & given, const Places & places, const std::string & name)
{
  if (given.size() != 1 && given.size() != places.size())
  {
    throw std::runtime_error(
      "`" + name + "` needs " + std::to_string(places.size()) + " values, or one for all joints");
  }
  std::vector<double> list;
  for (const std::size_t place : places) list.push_back(value_at(given, place));
  return list;
}

/// Limits in the order of the model; where none is given (0), `share` of the model's, which must be
/// known.
inline std::vector<double> limits_of(
  const std::vector<double> & given, const Places & places, const std::string & name,
  const Model & model, double Limits::* limit, double share = 1.0)
{
  std::vector<double> list = per_joint(given, places, name);
  const auto active = model.active();
  for (std::size_t a = 0; a < active.size(); ++a)
  {
    const Joint & joint = model.joints[active[a] - 1];
    if (!(list[a] > 0.0)) list[a] = share * joint.limits.*limit;
    if (!std::isfinite(list[a]))
      throw std::runtime_error("the model has no limit for " + joint.name + "; set `" + name + "`");
  }
  return list;
}

/// Bounds of efforts at `update_rate` [Hz]; Parameters: with effort_limits, effort_rates and
/// ramp_seconds.
template <typename Parameters>
EffortBounds effort_bounds_of(
  const Parameters & p, const Model & model, const Places & places, double update_rate)
{
  EffortBounds bounds;
  bounds.limits = limits_of(p.effort_limits, places, "effort_limits", model, &Limits::effort);
  bounds.rates = usual_rates(bounds.limits);
  const auto rates = per_joint(p.effort_rates, places, "effort_rates");
  for (std::size_t a = 0; a < rates.size(); ++a)
    if (rates[a] > 0.0) bounds.rates[a] = rates[a];
  bounds.ramp = p.ramp_seconds;
  bounds.longest_step = 2.0 / update_rate;
  return bounds;
}

/// Gains; Parameters: with kp, kd and damping. A damping below 0 is that of kd.
template <typename Parameters>
Gains gains_of(const Parameters & p, const Places & places)
{
  Gains gains{
    per_joint(p.kp, places, "kp"), per_joint(p.kd, places, "kd"),
    per_joint(p.damping, places, "damping")};
  for (std::size_t a = 0; a < places.size(); ++a)
    if (gains.damping[a] < 0.0) gains.damping[a] = gains.kd[a];
  if (!gains_fit(gains, places.size()))
    throw std::runtime_error("a gain is not finite or negative; set `kp`, `kd` and `damping`");
  return gains;
}

/// The same for parameters that gains_of has accepted, into gains of the right size: neither
/// allocates nor throws.
template <typename Parameters>
void put_gains(const Parameters & p, const Places & places, Gains & gains) noexcept
{
  for (std::size_t a = 0; a < places.size(); ++a)
  {
    gains.kp[a] = value_at(p.kp, places[a]);
    gains.kd[a] = value_at(p.kd, places[a]);
    gains.damping[a] = value_at(p.damping, places[a]);
    if (gains.damping[a] < 0.0) gains.damping[a] = gains.kd[a];
  }
}

/// Options of hand guiding; Parameters: with the fields of its parameter file.
template <typename Parameters>
HandGuidingOptions hand_guiding_options_of(
  const Parameters & p, const Model & model, const Places & places)
{
  HandGuidingOptions options;
  options.speed = limits_of(p.speed_limits, places, "speed_limits", model, &Limits::velocity, 0.5);
  for (const std::size_t j : model.active())
  {
    options.lower.push_back(model.joints[j - 1].limits.lower);
    options.upper.push_back(model.joints[j - 1].limits.upper);
  }
  options.margin = per_joint(p.range_margins, places, "range_margins");
  options.damping = per_joint(p.damping, places, "damping");
  options.friction = p.friction;
  options.smoothing = p.smoothing;
  options.wall = p.wall;
  options.time = p.brake_seconds;
  options.timeout = p.timeout;
  return options;
}

}  // namespace ros2_dynid
