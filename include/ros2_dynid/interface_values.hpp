// SPDX-License-Identifier: Apache-2.0
// Values of claimed interfaces, which another thread may hold for a moment: how long the last value
// stands for one that cannot be had.
//
// Works with anything that has get_optional() and set_value(), as the interfaces of ros2_control
// have. Construction allocates; nothing after that does.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

namespace ros2_dynid
{

/// An interface is held by others for microseconds: one that was missed more often than this in a
/// row is lost.
constexpr int longest_miss = 3;

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

/// Values read from interfaces. One that cannot be read keeps its last value for `longest_miss`
/// reads, then it is not known (NaN).
class StateValues
{
public:
  explicit StateValues(std::size_t count = 0) : values_(count, unknown), missed_(count, 0) {}

  const double * at(std::size_t first) const noexcept { return values_.data() + first; }

  void forget() noexcept
  {
    for (auto & value : values_) value = unknown;
  }

  template <typename Interfaces>
  void read(const Interfaces & interfaces) noexcept
  {
    for (std::size_t k = 0; k < values_.size(); ++k)
    {
      const auto value = interfaces[k].get_optional();
      missed_[k] = value.has_value() ? 0 : missed_[k] + (missed_[k] <= longest_miss);
      if (value.has_value()) values_[k] = *value;
      if (missed_[k] > longest_miss) values_[k] = unknown;
    }
  }

private:
  std::vector<double> values_;
  std::vector<int> missed_;
};

/// Writes commands to interfaces, and counts how often one could not be written.
class CommandWriter
{
public:
  explicit CommandWriter(std::size_t count = 0) : missed_(count, 0) {}

  /// Write all. False if one has not been taken for more than `longest_miss` writes in a row: what
  /// is applied is then an old command.
  template <typename Interfaces>
  bool write(Interfaces & interfaces, const double * values) noexcept
  {
    bool well = true;
    for (std::size_t k = 0; k < missed_.size(); ++k)
    {
      missed_[k] =
        interfaces[k].set_value(values[k]) ? 0 : missed_[k] + (missed_[k] <= longest_miss);
      well = well && missed_[k] <= longest_miss;
    }
    return well;
  }

  /// Write the last command: no update follows that would make up for one that was not taken, so
  /// each is tried again, with pause() in between. False if one could not be written.
  template <typename Interfaces, typename Pause>
  bool write_last(Interfaces & interfaces, const double * values, const Pause & pause)
  {
    constexpr int tries = 100;
    bool all = true;
    for (std::size_t k = 0; k < missed_.size(); ++k)
    {
      bool taken = false;
      for (int left = tries; !taken && left > 0; --left)
      {
        taken = interfaces[k].set_value(values[k]);
        if (!taken) pause();
      }
      missed_[k] = 0;
      all = all && taken;
    }
    return all;
  }

private:
  std::vector<int> missed_;
};

/// References that another controller writes: each counts once, so that one that stops to write is
/// noticed.
class ChainedReferences
{
public:
  explicit ChainedReferences(std::size_t count = 0) : values_(count, unknown) {}

  const double * at(std::size_t first) const noexcept { return values_.data() + first; }

  /// Read all and mark them as read (NaN). Whether any has been written since the last time; those
  /// that have not are NaN.
  template <typename Interfaces>
  bool read(Interfaces & interfaces) noexcept
  {
    bool written = false;
    for (std::size_t k = 0; k < values_.size(); ++k)
    {
      const auto value = interfaces[k]->get_optional();
      values_[k] = value.has_value() && interfaces[k]->set_value(unknown) ? *value : unknown;
      written = written || values_[k] == values_[k];
    }
    return written;
  }

  template <typename Interfaces>
  static void forget(Interfaces & interfaces) noexcept
  {
    for (auto & interface : interfaces) static_cast<void>(interface->set_value(unknown));
  }

private:
  std::vector<double> values_;
};

}  // namespace ros2_dynid
