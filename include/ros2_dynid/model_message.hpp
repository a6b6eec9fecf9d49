// SPDX-License-Identifier: Apache-2.0
// Models and loads from messages: BaseParameters and SetPayload, or any types with the same fields.
// Nothing of ROS is included. Everything here allocates and throws std::runtime_error with one
// line; call it outside the control loop.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "ros2_dynid/dynamics.hpp"
#include "ros2_dynid/model.hpp"

namespace ros2_dynid
{
namespace detail
{

inline double checked(double value, const char * what)
{
  if (!std::isfinite(value)) throw std::runtime_error(std::string(what) + " is not finite");
  return value;
}

/// A rotation by rows from a quaternion.
inline std::array<double, 9> rows(double x, double y, double z, double w)
{
  const double size = std::sqrt(x * x + y * y + z * z + w * w);
  if (!(size > 0.5 && size < 2.0))
    throw std::runtime_error("the base's orientation is no unit quaternion");
  x /= size, y /= size, z /= size, w /= size;
  return {1 - 2 * (y * y + z * z), 2 * (x * y - z * w),     2 * (x * z + y * w),
          2 * (x * y + z * w),     1 - 2 * (x * x + z * z), 2 * (y * z - x * w),
          2 * (x * z - y * w),     2 * (y * z + x * w),     1 - 2 * (x * x + y * y)};
}

template <typename Joints, typename Values>
std::vector<Weight> weights_of(const Joints & joints, const Values & values)
{
  if (joints.size() != values.size())
    throw std::runtime_error("a coupling has not one weight for each joint");
  std::vector<Weight> list(joints.size());
  for (std::size_t k = 0; k < list.size(); ++k)
  {
    list[k].joint = joints[k];
    list[k].value = checked(values[k], "a coupling's weight");
  }
  return list;
}

}  // namespace detail

/// The model of a BaseParameters message. It carries neither limits nor tools; the residuals of its
/// fit are the error bars.
template <typename Message>
Model model_of(const Message & message)
{
  using detail::checked;
  constexpr double unlimited = std::numeric_limits<double>::infinity();
  Model model;
  model.name = message.robot;
  model.gravity = {
    checked(message.gravity.x, "gravity"), checked(message.gravity.y, "gravity"),
    checked(message.gravity.z, "gravity")};
  const auto & turn = message.base.rotation;
  const auto & at = message.base.translation;
  model.base = detail::rows(turn.x, turn.y, turn.z, turn.w);
  model.base_position = {
    checked(at.x, "the base"), checked(at.y, "the base"), checked(at.z, "the base")};
  for (const auto & row : message.joints)
  {
    Joint joint;
    joint.name = row.name;
    joint.parent = row.parent;
    if (row.sigma > 1)
      throw std::runtime_error("joint " + joint.name + " is neither revolute nor prismatic");
    joint.prismatic = row.sigma == 1;
    joint.limits = {-unlimited, unlimited, unlimited, unlimited, unlimited};
    joint.gamma = row.gamma, joint.b = row.b, joint.alpha = row.alpha;
    joint.d = row.d, joint.theta = row.theta, joint.r = row.r;
    for (const double x : {row.gamma, row.b, row.alpha, row.d, row.theta, row.r})
      checked(x, "a joint's geometry");
    model.joints.push_back(joint);
  }
  for (const auto & one : message.couplings)
  {
    Coupling coupling;
    coupling.motor = one.motor;
    coupling.independent_inertia = one.independent_inertia;
    coupling.weights = detail::weights_of(one.joints, one.weights);
    model.couplings.push_back(coupling);
  }
  for (const auto & one : message.passive)
  {
    Passive passive;
    passive.joint = one.joint;
    passive.offset = checked(one.offset, "a closed loop");
    passive.terms = detail::weights_of(one.joints, one.coefficients);
    model.passive.push_back(passive);
  }
  if (!message.loops.passive.empty() || !message.loops.pivots.empty())
    throw std::runtime_error("closed loops whose joints do not follow linearly are not covered here");
  for (const auto & one : message.friction)
  {
    if (one.term == "temperature" || one.term == "temperature_viscous")
    {
      model.thermal.push_back(
        {one.joint, one.term == "temperature_viscous", checked(one.coefficient, "a friction term"),
         checked(one.reference, "a friction term")});
      continue;
    }
    FrictionTerm term;
    term.joint = one.joint;
    std::uint32_t kind = 0;
    while (kind < friction_kinds && one.term != friction_names[kind]) ++kind;
    if (kind == friction_kinds)
      throw std::runtime_error("friction term " + one.term + " is not known");
    term.kind = static_cast<FrictionKind>(kind);
    term.coefficient = checked(one.coefficient, "a friction term");
    term.speed = checked(
      std::string(friction_shapes[kind]) == "exponent" ? one.exponent : one.speed,
      "a friction term");
    term.recorded_speed = checked(one.recorded_speed, "a friction term");
    if (term.recorded_speed < 0.0)
      throw std::runtime_error("the recorded speed of a friction term is negative");
    model.friction.push_back(term);
  }
  for (const auto & one : message.added_efforts)
  {
    for (auto & joint : model.joints)
    {
      if (joint.name != one.joint) continue;
      joint.adds = {true, one.gravity, one.payload, checked(one.friction, "a share of friction")};
      if (joint.adds.friction < 0.0 || joint.adds.friction > 1.0)
        throw std::runtime_error("a share of friction is not within 0 and 1");
    }
  }
  for (const auto & one : message.elastic_elements)
  {
    Force force;
    force.has_pivots = one.type == "cylinder";
    if (!force.has_pivots && one.type != "spring" && one.type != "cable")
    {
      throw std::runtime_error("force " + one.name + " is of no type that is known");
    }
    force.rest = checked(one.rest, "a force's rest");
    if (force.has_pivots)
    {
      if (one.pivots.size() != 2 || one.pivot_joints.size() != 2)
      {
        throw std::runtime_error("force " + one.name + " has not two pivots");
      }
      for (std::size_t k = 0; k < 2; ++k)
      {
        force.pivots[k].joint = one.pivot_joints[k];
        const auto & point = one.pivots[k];
        force.pivots[k].point = {
          checked(point.x, "a pivot"), checked(point.y, "a pivot"), checked(point.z, "a pivot")};
      }
    }
    else
    {
      force.weights = detail::weights_of(one.joints, one.weights);
    }
    for (const auto power : one.powers)
    {
      if (power >= 4)
        throw std::runtime_error("force " + one.name + " has a power that is not known");
      force.has[power] = true;
    }
    model.forces.push_back(force);
  }
  detail::check_structure(model);
  if (message.parameters.empty()) throw std::runtime_error("the message holds no parameters");
  for (const auto & parameter : message.parameters)
  {  // the leaders alone: only the combinations act
    if (!set_parameter(model, parameter.leader, checked(parameter.value, "a parameter")))
    {
      throw std::runtime_error("the robot has no parameter " + parameter.leader);
    }
  }
  for (const auto & name : model.active_names())
  {
    ErrorBar bar;
    for (const auto & error : message.fit)
      if (error.joint == name) bar.sigma = error.rms;
    model.error_bars.push_back(bar);
  }
  return model;
}

/// The load of a SetPayload request: given in a link's frame (empty: the robot's last link),
/// returned in its joint's.
template <typename Request>
Load load_of(const Model & model, const Request & request)
{
  Tool tool;
  tool.joint = model.joints.size();
  if (!model.tools.empty()) tool = model.tools.front();
  if (!request.link.empty())
  {
    bool found = false;
    std::string names;
    for (const auto & one : model.tools)
    {
      names += (names.empty() ? "" : ", ") + one.link;
      if (one.link != request.link) continue;
      tool = one;
      found = true;
    }
    if (!found)
      throw std::runtime_error(
        "the robot has no last link " + request.link + "; choose from " + names);
  }
  const auto & R = tool.rotation;
  const auto & body = request.payload;
  const double I[9] = {body.ixx, body.ixy, body.ixz, body.ixy, body.iyy,
                       body.iyz, body.ixz, body.iyz, body.izz};
  const double c[3] = {body.com.x, body.com.y, body.com.z};
  double turned[9], centre[3];
  for (std::size_t i = 0; i < 3; ++i)
  {  // R I R^T and R c + t
    centre[i] = tool.position[i] + R[3 * i] * c[0] + R[3 * i + 1] * c[1] + R[3 * i + 2] * c[2];
    for (std::size_t j = 0; j < 3; ++j)
    {
      double sum = 0.0;
      for (std::size_t k = 0; k < 3; ++k)
        for (std::size_t m = 0; m < 3; ++m) sum += R[3 * i + k] * I[3 * k + m] * R[3 * j + m];
      turned[3 * i + j] = sum;
    }
  }
  Load load;
  load.mass = body.m;
  load.joint = tool.joint;
  if (body.m != 0.0) load.centre = {centre[0], centre[1], centre[2]};
  load.inertia = {turned[0], turned[1], turned[2], turned[4], turned[5], turned[8]};
  if (!load_exists(load))
    throw std::runtime_error(
      "no body has this mass, centre and inertia; give zeros where it is not known");
  return load;
}

}  // namespace ros2_dynid
