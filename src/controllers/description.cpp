// SPDX-License-Identifier: Apache-2.0
#include "description.hpp"

#include <array>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "rclcpp/version.h"
#if RCLCPP_VERSION_GTE(29, 0, 0)
#include "urdf/model.hpp"
#else
#include "urdf/model.h"
#endif

#include "ros2_dynid/dynamics.hpp"

namespace ros2_dynid
{
namespace
{

struct Pose
{
  Rotation R;
  Vec p;
};

Pose operator*(const Pose & a, const Pose & b) { return {a.R * b.R, a.p + a.R.out(b.p)}; }

/// b seen from a: the motion between two poses of one link, whatever its base is called.
Pose from_to(const Pose & a, const Pose & b)
{
  const Rotation R{a.R.in(b.R.i), a.R.in(b.R.j), a.R.in(b.R.k)};
  return {R, a.R.in(b.p - a.p)};
}

Pose pose_of(const urdf::Pose & pose)
{
  Pose out;
  const auto column = [&pose](double x, double y, double z)
  {
    const urdf::Vector3 v = pose.rotation * urdf::Vector3(x, y, z);
    return Vec{v.x, v.y, v.z};
  };
  out.R = Rotation{column(1, 0, 0), column(0, 1, 0), column(0, 0, 1)};
  out.p = {pose.position.x, pose.position.y, pose.position.z};
  return out;
}

Pose motion(const urdf::Joint & joint, double q)
{
  const double size = std::sqrt(
    joint.axis.x * joint.axis.x + joint.axis.y * joint.axis.y + joint.axis.z * joint.axis.z);
  const Vec axis = (size > 0.0 ? 1.0 / size : 0.0) * Vec{joint.axis.x, joint.axis.y, joint.axis.z};
  Pose out;
  if (joint.type == urdf::Joint::PRISMATIC)
  {
    out.p = q * axis;
  }
  else if (joint.type == urdf::Joint::REVOLUTE || joint.type == urdf::Joint::CONTINUOUS)
  {
    const double c = std::cos(q), s = std::sin(q);
    const auto turned = [&](const Vec & v)
    { return c * v + s * cross(axis, v) + (1.0 - c) * dot(axis, v) * axis; };
    out.R = Rotation{turned({1, 0, 0}), turned({0, 1, 0}), turned({0, 0, 1})};
  }
  return out;
}

double distance(const Vec & a, const Vec & b) { return std::sqrt(dot(a - b, a - b)); }

}  // namespace

std::string difference_from_description(const Model & model, const std::string & urdf)
{
  urdf::Model robot;
  if (!robot.initString(urdf)) return "the robot description cannot be read";
  for (const auto & joint : model.joints)
  {
    const auto found = robot.getJoint(joint.name);
    if (!found) return "the robot description has no joint " + joint.name;
    if ((found->type == urdf::Joint::PRISMATIC) != joint.prismatic)
      return "joint " + joint.name + " is of another kind";
  }
  Dynamics dynamics(model);
  const auto active = model.active();
  std::mt19937 random(1);
  for (const auto & tool : model.tools)
  {
    if (!robot.getLink(tool.link)) return "the robot description has no link " + tool.link;
    std::vector<Pose> ours, theirs;
    double reach = 0.0;
    for (int k = 0; k < 6; ++k)
    {
      std::vector<double> q(active.size());
      std::map<std::string, double> value;
      for (std::size_t a = 0; a < q.size(); ++a)
      {
        q[a] = 2.0 * static_cast<double>(random()) / static_cast<double>(std::mt19937::max()) - 1.0;
        value[model.joints[active[a] - 1].name] = q[a];
      }
      for (const auto & passive : model.passive)
      {
        double x = passive.offset;
        for (const auto & term : passive.terms)
          x += term.value * value[model.joints[term.joint - 1].name];
        value[model.joints[passive.joint - 1].name] = x;
      }
      std::array<double, 9> R{};
      std::array<double, 3> p{};
      dynamics.pose(q.data(), tool, R, p);
      ours.push_back(
        {Rotation{{R[0], R[3], R[6]}, {R[1], R[4], R[7]}, {R[2], R[5], R[8]}}, {p[0], p[1], p[2]}});
      Pose pose;
      for (auto link = robot.getLink(tool.link); link && link->parent_joint;
           link = link->getParent())
      {
        const auto & joint = *link->parent_joint;
        const auto found = value.find(joint.name);
        pose = pose_of(joint.parent_to_joint_origin_transform) *
               motion(joint, found == value.end() ? 0.0 : found->second) * pose;
      }
      theirs.push_back(pose);
      const Pose a = from_to(ours.front(), ours.back()), b = from_to(theirs.front(), theirs.back());
      reach = std::max(reach, std::sqrt(dot(a.p, a.p)));
      const double apart = distance(a.p, b.p),
                   turned = std::max({distance(a.R.i, b.R.i), distance(a.R.j, b.R.j)});
      if (!(apart <= 1e-4 * std::max(1.0, reach)) || !(turned <= 1e-4))
      {
        return "link " + tool.link +
               " does not move as in the robot description: the model is of another robot";
      }
    }
  }
  return "";
}

}  // namespace ros2_dynid
