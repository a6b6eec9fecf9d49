// SPDX-License-Identifier: Apache-2.0
// Values of claimed interfaces, in the order in which they were asked for.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "controller_interface/controller_interface_base.hpp"

namespace ros2_dynid
{

inline controller_interface::InterfaceConfiguration interfaces_of(
  const std::vector<std::string> & joints, const std::vector<std::string> & kinds)
{
  controller_interface::InterfaceConfiguration asked{
    controller_interface::interface_configuration_type::INDIVIDUAL, {}};
  for (const auto & kind : kinds)
    for (const auto & joint : joints) asked.names.push_back(joint + "/" + kind);
  return asked;
}

/// Read n values from `first` on. One that another thread just holds keeps its last value.
template <typename Interfaces>
void read(const Interfaces & interfaces, std::size_t first, std::size_t n, double * out)
{
  for (std::size_t a = 0; a < n; ++a)
  {
    const auto value = interfaces[first + a].get_optional();
    if (value.has_value()) out[a] = *value;
  }
}

/// Write n values. One that another thread just holds keeps its last value for this time.
template <typename Interfaces>
bool write(Interfaces & interfaces, const double * values)
{
  bool all = true;
  for (std::size_t a = 0; a < interfaces.size(); ++a)
    all = interfaces[a].set_value(values[a]) && all;
  return all;
}

/// The last command of a deactivation: no update follows that would make up for one that was not
/// taken.
template <typename Interfaces>
bool write_surely(Interfaces & interfaces, const double * values)
{
  for (int tries = 0; tries < 100; ++tries)
  {
    if (write(interfaces, values)) return true;
    std::this_thread::yield();
  }
  return false;
}

}  // namespace ros2_dynid
