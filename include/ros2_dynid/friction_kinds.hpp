// SPDX-License-Identifier: Apache-2.0
// Made by python -m ros2_dynid.codegen.runtime_header from ros2_dynid/model/friction: do not edit.
#ifndef ROS2_DYNID__FRICTION_KINDS_HPP_
#define ROS2_DYNID__FRICTION_KINDS_HPP_

#include <cmath>
#include <cstdint>

namespace ros2_dynid
{

enum class FrictionKind : std::uint32_t { asymmetric, cubic, root, stribeck, load, load_viscous, power };
constexpr std::uint32_t friction_kinds = 7;

/// Names in messages and files, in the order of the numbers.
constexpr const char * friction_names[friction_kinds] = { "asymmetric", "cubic", "root", "stribeck", "load", "load_viscous", "power" };
/// Field of a message that holds the shape of each kind; empty for those without one.
constexpr const char * friction_shapes[friction_kinds] = { "", "", "", "speed", "", "", "exponent" };

/// Factor of a term's coefficient; sign: of v, maybe smooth; load: |torque that the gear carries|.
inline double friction_column(
  FrictionKind kind, double v, double sign, double load, double shape) noexcept
{
  switch (kind) {
    case FrictionKind::asymmetric: return std::fabs(v);
    case FrictionKind::cubic: return v * v * v;
    case FrictionKind::root: return sign * std::sqrt(std::fabs(v));
    case FrictionKind::stribeck: return sign * std::exp(-(v / shape) * (v / shape));
    case FrictionKind::load: return sign * load;
    case FrictionKind::load_viscous: return v * load;
    case FrictionKind::power: return sign * std::pow(std::fabs(v), shape);
  }
  return 0.0;
}

}  // namespace ros2_dynid

#endif  // ROS2_DYNID__FRICTION_KINDS_HPP_
