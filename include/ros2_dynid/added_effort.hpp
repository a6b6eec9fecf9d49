// SPDX-License-Identifier: Apache-2.0
// What the robot itself adds to a commanded effort: how it is declared, and its torque. A command
// is the law's torque minus that.
//
// Declaring allocates and throws std::invalid_argument; computing does neither.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "ros2_dynid/dynamics.hpp"

namespace ros2_dynid
{

constexpr const char * added_effort_choices =
  "nothing, gravity, arm-gravity or gravity+friction:SHARE with SHARE between 0 and 1";

/// What a text such as gravity+friction:0.8 declares, as in model/efforts.py.
inline AddedEffort added_effort(const std::string & text)
{
  AddedEffort adds;
  adds.known = true;
  if (text == "nothing") return adds;
  std::string rest = text;
  for (const std::string name : {"arm-gravity", "gravity"})
  {
    if (rest.compare(0, name.size(), name) != 0) continue;
    adds.gravity = true;
    adds.payload = name == "gravity";
    rest.erase(0, name.size());
    if (rest.size() > 1 && rest[0] == '+') rest.erase(0, 1);
    break;
  }
  const std::string friction = "friction:";
  bool good =
    adds.gravity ? rest.empty() || text[text.size() - rest.size() - 1] == '+' : !rest.empty();
  if (!rest.empty())
  {
    const std::string share =
      rest.compare(0, friction.size(), friction) == 0 ? rest.substr(friction.size()) : "";
    good = good && !share.empty() && share.find_first_not_of("0123456789.e-") == std::string::npos;
    char * end = nullptr;
    adds.friction = std::strtod(share.c_str(), &end);
    good = good && *end == '\0' && adds.friction >= 0.0 && adds.friction <= 1.0;
  }
  if (!good)
    throw std::invalid_argument(
      "`" + text + "` is not what a robot adds to an effort; choose " + added_effort_choices);
  return adds;
}

/// Declare what the robot adds: one text for each joint of the model (places[a]: which of them), or
/// one for all; none or "": as the model says. Throws with the parameter to set while a joint does
/// not say it.
inline void declare_added_effort(
  Model & model, const std::vector<std::string> & texts, const std::vector<std::size_t> & places)
{
  const auto active = model.active();
  const bool given = !texts.empty() && !(texts.size() == 1 && texts[0].empty());
  if (given && texts.size() != 1 && texts.size() != active.size())
  {
    throw std::invalid_argument(
      "`robot_adds` needs " + std::to_string(active.size()) + " texts, or one for all joints");
  }
  for (std::size_t a = 0; a < active.size(); ++a)
  {
    Joint & joint = model.joints[active[a] - 1];
    if (given && joint.adds.fixed)
    {
      throw std::invalid_argument(
        "the model is one of efforts that lack a part; leave `robot_adds` empty, declare it under "
        "drives: in the robot file, identify and export again");
    }
    if (given)
    {
      const bool measured = joint.adds.gravity_measured;
      joint.adds = added_effort(texts[texts.size() == 1 ? 0 : places[a]]);
      joint.adds.gravity_measured = measured;
    }
    if (!joint.adds.known)
    {
      throw std::invalid_argument(
        "what the robot adds to an effort of " + joint.name +
        " is not declared; set `robot_adds` to " + added_effort_choices);
    }
  }
}

/// The torque that the robot adds at its active joints.
class AddedTorque
{
public:
  explicit AddedTorque(const Model & model)
  : whole_(model.active().size()), zero_(whole_.size(), 0.0), offset_(whole_.size())
  {
    for (const std::size_t j : model.active())
    {
      const AddedEffort & adds = model.joints[j - 1].adds;
      if (!adds.known)
        throw std::invalid_argument(
          "what the robot adds to an effort is not declared; set `robot_adds`");
      adds_.push_back(adds);
      nothing_ = nothing_ && !adds.gravity && !(adds.friction > 0.0);
      unladen_ = unladen_ || (adds.gravity && !adds.payload);
    }
  }

  bool nothing() const noexcept { return nothing_; }
  /// Whether the model's efforts lack a part of what the motors give.
  bool lacking() const noexcept
  {
    for (const auto & one : adds_)
      if (one.fixed) return true;
    return false;
  }
  const AddedEffort & of(std::size_t joint) const noexcept { return adds_[joint]; }
  double friction_share(std::size_t joint) const noexcept { return adds_[joint].friction; }

  /// At rest at q: gravity and offset, without the payload's where the robot does not know it.
  void at_rest(Dynamics & dynamics, const double * q, double * out) noexcept
  {
    dynamics.gravity(q, whole_.data());
    dynamics.friction(zero_.data(), whole_.data(), offset_.data());
    for (std::size_t a = 0; a < adds_.size(); ++a)
      out[a] = adds_[a].gravity && adds_[a].payload ? whole_[a] + offset_[a] : 0.0;
    if (!unladen_) return;
    dynamics.gravity(q, whole_.data(), false);
    for (std::size_t a = 0; a < adds_.size(); ++a)
      if (adds_[a].gravity && !adds_[a].payload) out[a] = whole_[a] + offset_[a];
  }

  /// In motion at q: with its share of `friction`, the whole friction of the motion, offset
  /// included.
  void in_motion(
    Dynamics & dynamics, const double * q, const double * friction, double * out) noexcept
  {
    at_rest(dynamics, q, out);
    for (std::size_t a = 0; a < adds_.size(); ++a)
      out[a] += adds_[a].friction * (friction[a] - offset_[a]);
  }

private:
  std::vector<AddedEffort> adds_;
  std::vector<double> whole_, zero_, offset_;
  bool nothing_ = true, unladen_ = false;
};

}  // namespace ros2_dynid
