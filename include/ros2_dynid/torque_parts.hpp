// SPDX-License-Identifier: Apache-2.0
// The parts of the torque, some of them left out: for programs that add those themselves, or for
// robots that do.
//
// Construction allocates and throws std::invalid_argument; nothing after that does either.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "ros2_dynid/dynamics.hpp"

namespace ros2_dynid
{

struct LeftOut
{
  bool gravity = false, friction = false;
};

/// What a list such as {gravity, friction} leaves out; "": nothing.
inline LeftOut left_out(const std::vector<std::string> & parts)
{
  LeftOut out;
  for (const auto & part : parts)
  {
    if (part == "gravity")
      out.gravity = true;
    else if (part == "friction")
      out.friction = true;
    else if (!part.empty())
      throw std::invalid_argument(
        "`" + part + "` cannot be left out; choose from gravity and friction");
  }
  return out;
}

class TorqueParts
{
public:
  TorqueParts(const Model & model, const LeftOut & out)
  : dynamics_(model), out_(out), zero_(dynamics_.joints(), 0.0), part_(dynamics_.joints())
  {
  }

  std::size_t joints() const noexcept { return zero_.size(); }

  /// M(q), n x n by rows.
  void inertia(const double * q, double * matrix) noexcept { dynamics_.inertia(q, matrix); }

  /// C(q, dq): centrifugal and Coriolis torques.
  void velocity_torque(const double * q, const double * dq, double * tau) noexcept
  {
    dynamics_.velocity_torque(q, dq, tau);
  }

  /// Q(q), springs included; zero if it is left out.
  void gravity(const double * q, double * tau) noexcept
  {
    if (out_.gravity)
      clear(tau);
    else
      dynamics_.gravity(q, tau);
  }

  /// Friction and offset of gears that carry nothing; zero if it is left out. What friction has of
  /// the load is in torque() alone.
  void friction(const double * dq, double * tau) noexcept
  {
    if (out_.friction)
      clear(tau);
    else
      dynamics_.friction(dq, zero_.data(), tau);
  }

  /// The whole torque without what is left out.
  void torque(const double * q, const double * dq, const double * ddq, double * tau) noexcept
  {
    dynamics_.rigid(q, dq, ddq, tau);
    if (!out_.friction)
      dynamics_.friction(dq, tau, part_.data());
    else
      clear(part_.data());
    for (std::size_t a = 0; a < joints(); ++a) tau[a] += part_[a];
    if (!out_.gravity) return;
    dynamics_.gravity(q, part_.data());
    for (std::size_t a = 0; a < joints(); ++a) tau[a] -= part_[a];
  }

private:
  void clear(double * tau) const noexcept
  {
    for (std::size_t a = 0; a < joints(); ++a) tau[a] = 0.0;
  }

  Dynamics dynamics_;
  LeftOut out_;
  std::vector<double> zero_, part_;
};

}  // namespace ros2_dynid
