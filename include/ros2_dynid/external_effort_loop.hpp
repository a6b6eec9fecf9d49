// SPDX-License-Identifier: Apache-2.0
// Observer and contacts between the interfaces of a controller: what is read, found and given to
// other controllers in each update.
//
// Works with any interfaces that have get_optional() and set_value(). Construction allocates and
// throws; nothing after that does either.
#pragma once

#include <cstddef>
#include <vector>

#include "ros2_dynid/interface_values.hpp"
#include "ros2_dynid/observer.hpp"

namespace ros2_dynid
{

class ExternalEffortLoop
{
public:
  /// After this time without a usable sample nothing is known [s].
  static constexpr double stale = 0.1;

  ExternalEffortLoop(
    const Model & model, const ObserverOptions & options, const std::vector<double> & thresholds,
    const ContactOptions & contacts)
  : observer_(model, options),
    contacts_(model.error_bars, thresholds, contacts),
    states_(3 * observer_.joints())
  {
  }

  MomentumObserver & observer() noexcept { return observer_; }
  const ContactDetector & contacts() const noexcept { return contacts_; }
  const double * positions() const noexcept { return states_.at(0); }
  const double * external() const noexcept { return observer_.external(); }

  /// Whether external() is that of now; only then is it given to others.
  bool known() const noexcept { return lost_ <= stale; }

  /// Forget what was before.
  void start() noexcept
  {
    observer_.restart();
    contacts_.restart();
    states_.forget();
    lost_ = 0.0;
  }

  /// Read positions, velocities and efforts, dt [s] after the last time.
  template <typename States>
  ContactEvent update(const States & states, double dt) noexcept
  {
    states_.read(states);
    const std::size_t n = observer_.joints();
    const bool good = observer_.update(states_.at(0), states_.at(n), states_.at(2 * n), dt);
    lost_ = good ? 0.0 : lost_ + (dt > 0.0 ? dt : 0.0);
    if (!good) return ContactEvent::none;
    return contacts_.update(observer_.external(), observer_.undecided(), dt);
  }

  /// Write external efforts, then whether there is a contact; NaN while they are not known.
  template <typename Interfaces>
  void give(Interfaces & interfaces) const noexcept
  {
    const std::size_t n = observer_.joints();
    for (std::size_t a = 0; a < n; ++a)
      static_cast<void>(interfaces[a]->set_value(known() ? external()[a] : unknown));
    const double contact = contacts_.contact() ? 1.0 : 0.0;
    static_cast<void>(interfaces[n]->set_value(known() ? contact : unknown));
  }

private:
  MomentumObserver observer_;
  ContactDetector contacts_;
  StateValues states_;
  double lost_ = 0.0;
};

}  // namespace ros2_dynid
