// SPDX-License-Identifier: Apache-2.0
// A wrist sensor between the interfaces of a controller: what is read, computed and given to other
// controllers in each update.
//
// Works with any interfaces that have get_optional() and set_value(). Construction allocates and
// throws; nothing after that does either.
#pragma once

#include <algorithm>
#include <cstddef>

#include "ros2_dynid/interface_values.hpp"
#include "ros2_dynid/wrist_sensor.hpp"

namespace ros2_dynid
{

class WristLoop
{
public:
  WristLoop(const Model & model, const Tool & sensor, double filter)
  : sensor_(model, sensor, filter), states_(2 * sensor_.joints() + 6)
  {
    rest_.fill(unknown);
  }

  WristSensor & sensor() noexcept { return sensor_; }
  const double * positions() const noexcept { return states_.at(0); }

  /// What is left of the sensor's wrench, in its frame; NaN if it is not known.
  const Wrench & rest() const noexcept { return rest_; }

  void start() noexcept
  {
    sensor_.restart();
    states_.forget();
    rest_.fill(unknown);
  }

  /// Read positions, velocities and the sensor's wrench, dt [s] after the last time. False if it is
  /// not known what is left of it.
  template <typename States>
  bool update(const States & states, double dt) noexcept
  {
    states_.read(states);
    const std::size_t n = sensor_.joints();
    Wrench measured;
    std::copy_n(states_.at(2 * n), measured.size(), measured.begin());
    const bool known = sensor_.update(states_.at(0), states_.at(n), measured, dt, rest_);
    if (!known) rest_.fill(unknown);
    return known;
  }

  /// Write what is left, force first.
  template <typename Interfaces>
  void give(Interfaces & interfaces) const noexcept
  {
    for (std::size_t k = 0; k < rest_.size(); ++k)
      static_cast<void>(interfaces[k]->set_value(rest_[k]));
  }

private:
  WristSensor sensor_;
  StateValues states_;
  Wrench rest_;
};

}  // namespace ros2_dynid
