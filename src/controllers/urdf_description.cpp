// SPDX-License-Identifier: Apache-2.0
#include "urdf_description.hpp"

#include <cmath>
#include <stdexcept>

#include "rclcpp/version.h"
#if RCLCPP_VERSION_GTE(29, 0, 0)
#include "urdf/model.hpp"
#else
#include "urdf/model.h"
#endif

namespace ros2_dynid
{
namespace
{

Pose pose_of(const urdf::Pose & pose)
{
  const auto column = [&pose](double x, double y, double z)
  {
    const urdf::Vector3 v = pose.rotation * urdf::Vector3(x, y, z);
    return Vec{v.x, v.y, v.z};
  };
  return {
    Rotation{column(1, 0, 0), column(0, 1, 0), column(0, 0, 1)},
    {pose.position.x, pose.position.y, pose.position.z}};
}

DescribedMotion motion_of(const urdf::Joint & joint)
{
  if (joint.type == urdf::Joint::PRISMATIC) return DescribedMotion::prismatic;
  const bool turns = joint.type == urdf::Joint::REVOLUTE || joint.type == urdf::Joint::CONTINUOUS;
  return turns ? DescribedMotion::revolute : DescribedMotion::fixed;
}

}  // namespace

Description description_of(const std::string & urdf)
{
  urdf::Model robot;
  if (!robot.initString(urdf)) throw std::runtime_error("the robot description cannot be read");
  Description description;
  for (const auto & [name, joint] : robot.joints_)
  {
    const Vec axis{joint->axis.x, joint->axis.y, joint->axis.z};
    const double size = std::sqrt(dot(axis, axis));
    DescribedJoint described;
    described.name = name;
    described.parent = joint->parent_link_name;
    described.child = joint->child_link_name;
    described.motion = motion_of(*joint);
    described.axis = (size > 0.0 ? 1.0 / size : 0.0) * axis;
    described.origin = pose_of(joint->parent_to_joint_origin_transform);
    if (joint->mimic)
    {
      described.mimics = joint->mimic->joint_name;
      described.factor = joint->mimic->multiplier;
      described.offset = joint->mimic->offset;
    }
    description.push_back(described);
  }
  return description;
}

}  // namespace ros2_dynid
