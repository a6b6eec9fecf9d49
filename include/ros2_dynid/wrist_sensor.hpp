// SPDX-License-Identifier: Apache-2.0
// A wrist force-torque sensor without its bias and without the tool beyond it, as `dynid tool`
// identifies them:
//
//   rest = measured - bias - sign Y(q, dq, ddq) phi,
//
// the wrench of everything else, force first, with the sensor's own sign. Y phi is what moves the
// tool: force M a + dw x m + w x (w x m), torque J dw + w x J w + m x a, in the sensor's frame.
// Construction allocates and throws std::invalid_argument; nothing after that does either.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <vector>

#include "ros2_dynid/dynamics.hpp"

namespace ros2_dynid
{

/// Force [N] and torque [N.m].
using Wrench = std::array<double, 6>;

/// What lies beyond a sensor, in its frame: a body, its inertia about its centre as in Load, and
/// the sensor's bias.
struct WristTool
{
  double mass = 0.0;
  Vec centre;
  std::array<double, 6> inertia{};
  Wrench bias{};
  double sign = 1.0;  ///< -1: the sensor shows what the tool exerts on it
};

/// Whether a body can have this mass and inertia, and whether the sensor's numbers are finite.
inline bool tool_exists(const WristTool & tool) noexcept
{
  for (const double x : tool.bias)
    if (!std::isfinite(x)) return false;
  if (tool.sign != 1.0 && tool.sign != -1.0) return false;
  return load_exists(Load{0, tool.mass, tool.centre, tool.inertia});
}

class WristSensor
{
public:
  /// sensor: link whose frame the wrenches are in. filter: time constant of the accelerations,
  /// which are differences of the speeds [s]; 0: accelerations are left out.
  WristSensor(const Model & model, const Tool & sensor, double filter)
  : dynamics_(model),
    sensor_(sensor),
    filter_(filter),
    last_(dynamics_.joints()),
    ddq_(dynamics_.joints(), 0.0)
  {
    if (!(filter >= 0.0) || !std::isfinite(filter))
      throw std::invalid_argument("the filter of the accelerations is negative");
  }

  std::size_t joints() const noexcept { return last_.size(); }

  /// Change the tool. False, and nothing changes, if no body has these numbers.
  bool set_tool(const WristTool & tool) noexcept
  {
    if (!tool_exists(tool)) return false;
    tool_ = tool;
    const Vec & c = tool.centre;
    const double m = tool.mass;
    const auto & I = tool.inertia;
    body_.XX = I[0] + m * (c.y * c.y + c.z * c.z);
    body_.XY = I[1] - m * c.x * c.y;
    body_.XZ = I[2] - m * c.x * c.z;
    body_.YY = I[3] + m * (c.x * c.x + c.z * c.z);
    body_.YZ = I[4] - m * c.y * c.z;
    body_.ZZ = I[5] + m * (c.x * c.x + c.y * c.y);
    body_.m = m * c;
    body_.M = m;
    return true;
  }

  /// Forget the speeds: the next update has no accelerations.
  void restart() noexcept { known_ = false; }

  /// Take a sample, dt [s] after the one before; rest: what is left of `measured`. False if a
  /// number is not finite.
  bool update(
    const double * q, const double * dq, const Wrench & measured, double dt, Wrench & rest) noexcept
  {
    differentiate(dq, dt);
    if (!compute(q, dq, ddq_.data(), measured, rest))
    {
      known_ = false;
      return false;
    }
    return true;
  }

  /// The same with accelerations that are known.
  bool compute(
    const double * q, const double * dq, const double * ddq, const Wrench & measured,
    Wrench & rest) noexcept
  {
    Vec w, dw, a;
    dynamics_.motion(q, dq, ddq, sensor_, w, dw, a);
    const Vec f = body_.M * a + cross(dw, body_.m) + cross(w, cross(w, body_.m));
    const Vec n = body_.times(dw) + cross(w, body_.times(w)) + cross(body_.m, a);
    const Wrench moved{f.x, f.y, f.z, n.x, n.y, n.z};
    bool finite = true;
    for (std::size_t k = 0; k < rest.size(); ++k)
    {
      rest[k] = measured[k] - tool_.bias[k] - tool_.sign * moved[k];
      finite = finite && std::isfinite(rest[k]);
    }
    return finite;
  }

  /// A wrench of the sensor's frame in that of another link, about its origin, with the arm at q.
  Wrench seen_from(const Wrench & wrench, const double * q, const Tool & link) noexcept
  {
    std::array<double, 9> A{}, B{};
    std::array<double, 3> p{}, r{};
    dynamics_.pose(q, sensor_, A, p);
    dynamics_.pose(q, link, B, r);
    const Rotation from{{A[0], A[3], A[6]}, {A[1], A[4], A[7]}, {A[2], A[5], A[8]}};
    const Rotation into{{B[0], B[3], B[6]}, {B[1], B[4], B[7]}, {B[2], B[5], B[8]}};
    const Vec arm{p[0] - r[0], p[1] - r[1], p[2] - r[2]};
    const Vec f = from.out({wrench[0], wrench[1], wrench[2]});
    const Vec n = from.out({wrench[3], wrench[4], wrench[5]}) + cross(arm, f);
    const Vec force = into.in(f), torque = into.in(n);
    return {force.x, force.y, force.z, torque.x, torque.y, torque.z};
  }

private:
  /// Accelerations: differences of the speeds through a filter of first order. None from the first
  /// sample, or after a time that is none.
  void differentiate(const double * dq, double dt) noexcept
  {
    const bool follows = known_ && filter_ > 0.0 && dt > 0.0 && std::isfinite(dt);
    const double keep = follows ? std::exp(-dt / filter_) : 0.0;
    for (std::size_t a = 0; a < ddq_.size(); ++a)
    {
      ddq_[a] = follows ? keep * ddq_[a] + (1.0 - keep) * (dq[a] - last_[a]) / dt : 0.0;
      last_[a] = dq[a];
    }
    known_ = true;
  }

  Dynamics dynamics_;
  Tool sensor_;
  double filter_;
  std::vector<double> last_, ddq_;
  LinkInertia body_;
  WristTool tool_;
  bool known_ = false;
};

}  // namespace ros2_dynid
