// SPDX-License-Identifier: Apache-2.0
// Whether a model is of the robot that a description (URDF) describes: the paths of its last links
// must agree. Allocates.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "ros2_dynid/dynamics.hpp"

namespace ros2_dynid
{

struct Pose
{
  Rotation R;
  Vec p;
};

inline Pose operator*(const Pose & a, const Pose & b) { return {a.R * b.R, a.p + a.R.out(b.p)}; }

enum class DescribedMotion
{
  fixed,
  revolute,
  prismatic
};

/// A joint of a description: from its parent link to its child link.
struct DescribedJoint
{
  std::string name, parent, child;
  DescribedMotion motion = DescribedMotion::fixed;
  Vec axis;            ///< in the joint's frame, of length 1
  Pose origin;         ///< of the joint's frame in that of the parent link
  std::string mimics;  ///< q = factor times that of this joint + offset, unless ""
  double factor = 0.0, offset = 0.0;
};

using Description = std::vector<DescribedJoint>;

namespace detail
{

/// b seen from a: the motion between two poses of one link, whatever its base is called.
inline Pose from_to(const Pose & a, const Pose & b)
{
  const Rotation R{a.R.in(b.R.i), a.R.in(b.R.j), a.R.in(b.R.k)};
  return {R, a.R.in(b.p - a.p)};
}

inline Pose motion_of(const DescribedJoint & joint, double q)
{
  const Vec & axis = joint.axis;
  Pose out;
  if (joint.motion == DescribedMotion::prismatic) out.p = q * axis;
  if (joint.motion == DescribedMotion::revolute)
  {
    const double c = std::cos(q), s = std::sin(q);
    const auto turned = [&](const Vec & v)
    { return c * v + s * cross(axis, v) + (1.0 - c) * dot(axis, v) * axis; };
    out.R = Rotation{turned({1, 0, 0}), turned({0, 1, 0}), turned({0, 0, 1})};
  }
  return out;
}

/// The joint that moves a link, or nullptr for the root and for links that are not there.
inline const DescribedJoint * joint_above(const Description & robot, const std::string & link)
{
  for (const auto & joint : robot)
    if (joint.child == link) return &joint;
  return nullptr;
}

inline double distance(const Vec & a, const Vec & b) { return std::sqrt(dot(a - b, a - b)); }

/// Positions of all joints of the model, by name, where the active ones are at q.
inline std::map<std::string, double> joint_positions(
  const Model & model, const std::vector<double> & q)
{
  std::map<std::string, double> value;
  const auto active = model.active();
  for (std::size_t a = 0; a < q.size(); ++a) value[model.joints[active[a] - 1].name] = q[a];
  for (const auto & passive : model.passive)
  {
    double x = passive.offset;
    for (const auto & term : passive.terms)
      x += term.value * value[model.joints[term.joint - 1].name];
    value[model.joints[passive.joint - 1].name] = x;
  }
  return value;
}

/// Pose of a link of the description in its root, joints that are not named at 0.
inline Pose link_pose(
  const Description & robot, const std::string & link, const std::map<std::string, double> & value)
{
  Pose pose;
  const auto * joint = joint_above(robot, link);
  for (std::size_t depth = 0; joint && depth < robot.size(); ++depth)
  {
    const bool mimics = !joint->mimics.empty();
    const auto at = value.find(mimics ? joint->mimics : joint->name);
    double q = at == value.end() ? 0.0 : at->second;
    if (mimics) q = joint->factor * q + joint->offset;
    pose = joint->origin * motion_of(*joint, q) * pose;
    joint = joint_above(robot, joint->parent);
  }
  return pose;
}

}  // namespace detail

/// Why the model is not of the robot of this description, or nothing ("") if it is. Models without
/// links are told by joint names alone.
inline std::string difference_from_description(const Model & model, const Description & robot)
{
  constexpr double tolerance = 1e-4;  // [rad], and of the path's size or of 1 m
  constexpr int positions = 6;        // more than the directions in which a link can be elsewhere
  for (const auto & joint : model.joints)
  {
    const auto at = std::find_if(
      robot.begin(), robot.end(), [&](const auto & other) { return other.name == joint.name; });
    if (at == robot.end()) return "the robot description has no joint " + joint.name;
    if ((at->motion == DescribedMotion::prismatic) != joint.prismatic)
      return "joint " + joint.name + " is of another kind";
  }
  Dynamics dynamics(model);
  std::mt19937 random(1);
  for (const auto & tool : model.tools)
  {
    if (!detail::joint_above(robot, tool.link))
      return "the robot description has no link " + tool.link;
    std::vector<Pose> ours, theirs;
    double reach = 1.0;
    for (int k = 0; k < positions; ++k)
    {
      std::vector<double> q(dynamics.joints());
      for (auto & x : q)
        x = 2.0 * static_cast<double>(random()) / static_cast<double>(std::mt19937::max()) - 1.0;
      std::array<double, 9> R{};
      std::array<double, 3> p{};
      dynamics.pose(q.data(), tool, R, p);
      ours.push_back(
        {Rotation{{R[0], R[3], R[6]}, {R[1], R[4], R[7]}, {R[2], R[5], R[8]}}, {p[0], p[1], p[2]}});
      theirs.push_back(detail::link_pose(robot, tool.link, detail::joint_positions(model, q)));
      const Pose a = detail::from_to(ours.front(), ours.back());
      const Pose b = detail::from_to(theirs.front(), theirs.back());
      reach = std::max(reach, std::sqrt(dot(a.p, a.p)));
      const double apart = detail::distance(a.p, b.p);
      const double turned =
        std::max(detail::distance(a.R.i, b.R.i), detail::distance(a.R.j, b.R.j));
      if (!(apart <= tolerance * reach) || !(turned <= tolerance))
      {
        return "link " + tool.link +
               " does not move as in the robot description: the model is of another robot";
      }
    }
  }
  return "";
}

}  // namespace ros2_dynid
