// SPDX-License-Identifier: Apache-2.0
// A robot in MuJoCo with friction, encoders and brakes, shared by the hardware component and the
// program that watches it.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

struct mjModel_;
struct mjData_;

class Plant
{
public:
  Plant() = default;
  ~Plant();
  Plant(const Plant &) = delete;
  Plant & operator=(const Plant &) = delete;

  /// mjcf: the links. friction: text with Fv, Fc, off, v0 and the start of each joint, a line each.
  void build(const std::string & mjcf, const std::string & friction);

  /// Apply efforts for a millisecond, in steps of the MJCF.
  void step();

  std::vector<double> position() const;  ///< true, which no sensor shows
  std::vector<double> q, dq, effort;     ///< measured
  std::vector<double> command;           ///< efforts that the drives get
  std::vector<double> push;              ///< external torques at the joints
  bool brakes = true;
  bool has_brakes = true;  ///< else the last command stays applied when nobody commands
  int blind = -1;          ///< this joint's encoder reads NaN
  double noise = 0.0;      ///< of the measured efforts, standard deviation [N.m]

  /// The robot carries itself, as its MJCF says: it has no brakes to open, and measures what it is
  /// commanded.
  void carry_itself() { brakes = has_brakes = false; }

private:
  void measure();
  mjModel_ * model_ = nullptr;
  mjData_ * data_ = nullptr;
  std::vector<double> Fv_, Fc_, off_, v0_;
  std::mt19937 random_{5};
};

Plant & plant();
