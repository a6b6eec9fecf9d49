// SPDX-License-Identifier: Apache-2.0
// An interface as ros2_control has them, for tests without it.
#pragma once

#include <limits>
#include <optional>

/// Refuses the next `busy` requests, as one that another thread holds.
struct FakeInterface
{
  double value = std::numeric_limits<double>::quiet_NaN();
  mutable int busy = 0;
  std::optional<double> get_optional() const
  {
    if (busy > 0 && busy--) return std::nullopt;
    return value;
  }
  bool set_value(double x)
  {
    if (busy > 0 && busy--) return false;
    value = x;
    return true;
  }
};
