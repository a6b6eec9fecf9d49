// SPDX-License-Identifier: Apache-2.0
// Efforts measured at rest against gravity: do they contradict what the robot is declared to add?
// As in control/rest_efforts.py.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace ros2_dynid
{

/// Thresholds of the comparison; control/rest_efforts.py has their reasons.
struct RestCheck
{
  double speed = 0.02;     ///< a joint that is faster moves [rad/s or m/s]
  double share = 0.25;     ///< of gravity that friction may hold
  double least = 0.05;     ///< of the effort limit, above which gravity counts
  double dry_speed = 3.0;  ///< times the smoothing: friction there is dry friction
};

enum class RestFinding
{
  none,
  holds_itself,  ///< said to add nothing, it rests without gravity in its efforts
  would_fall,    ///< said to add gravity, it rests with gravity in its efforts
  holds_gravity  ///< efforts that are said to hold no gravity hold it
};

struct RestVerdict
{
  RestFinding finding = RestFinding::none;
  std::size_t joint = 0;
  double effort = 0.0, gravity = 0.0;

  bool good() const noexcept { return finding == RestFinding::none; }
};

/// What a joint at rest shows: its measured effort, what gravity and offset need there, and what
/// dry friction could hold.
struct RestingJoint
{
  double effort = 0.0, gravity = 0.0, offset = 0.0, dry = 0.0, limit = 0.0;
  bool adds_gravity = false;
};

/// gravity_measured: the efforts are declared to hold gravity; unmeasured: not to hold it.
inline RestVerdict judge_rest(
  const std::vector<RestingJoint> & joints, bool gravity_measured, bool unmeasured,
  const RestCheck & check = {}) noexcept
{
  RestVerdict plain, lifted, excess;
  double largest[3] = {0.0, 0.0, 0.0};
  bool all_empty = true, all_full = true;
  const auto note =
    [&](RestVerdict & verdict, int which, RestFinding finding, std::size_t a, double size)
  {
    if (!(size > largest[which])) return;
    largest[which] = size;
    verdict = {finding, a, joints[a].effort, joints[a].gravity};
  };
  for (std::size_t a = 0; a < joints.size(); ++a)
  {
    const RestingJoint & one = joints[a];
    const double holding = one.gravity + one.offset, held = std::fabs(holding);
    const double smallest = std::max(one.dry / check.share, check.least * one.limit);
    const double beyond = std::fabs(one.effort - one.offset);
    if (beyond > smallest) note(excess, 2, RestFinding::holds_gravity, a, beyond);
    if (!(held > smallest)) continue;
    if (one.adds_gravity)
    {
      all_full = all_full && one.effort * holding > (1.0 - check.share) * held * held;
      note(lifted, 1, RestFinding::would_fall, a, held);
    }
    else
    {
      all_empty = all_empty && std::fabs(one.effort) < check.share * held;
      note(plain, 0, RestFinding::holds_itself, a, held);
    }
  }
  if (unmeasured) return excess;
  if (!plain.good() && all_empty) return plain;
  if (!lifted.good() && all_full && !gravity_measured) return lifted;
  return {};
}

/// The finding in words, for the joint of this name.
inline std::string describe(const RestVerdict & verdict, const std::string & joint)
{
  const std::string seen = joint + " rests with an effort of " + std::to_string(verdict.effort);
  const std::string off = ", or set `check_rest_efforts` to false if its efforts are no torques";
  switch (verdict.finding)
  {
    case RestFinding::holds_itself:
      return seen + " where gravity is " + std::to_string(verdict.gravity) +
             ": the robot seems to hold itself; set `robot_adds` to gravity, release its brakes" +
             off;
    case RestFinding::would_fall:
      return seen + " where gravity is " + std::to_string(verdict.gravity) +
             ": if the robot does not add gravity itself, it would fall; set `robot_adds` to "
             "nothing, declare in the robot file that its efforts hold gravity (measures: motor or "
             "link) and export again" +
             off;
    case RestFinding::holds_gravity:
      return seen +
             ", but its efforts are declared to hold no gravity: correct drives: in the robot "
             "file, identify and export again" +
             off;
    default:
      return "";
  }
}

}  // namespace ros2_dynid
