// SPDX-License-Identifier: Apache-2.0
// A law between the interfaces of a controller: what is read, decided and written when it is
// activated, in each update, and when it is deactivated.
//
// Works with any interfaces that have get_optional() and set_value(), as those of ros2_control.
// Construction allocates and throws; nothing after that does either.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "ros2_dynid/brake_law.hpp"
#include "ros2_dynid/feedforward_law.hpp"
#include "ros2_dynid/interface_values.hpp"

namespace ros2_dynid
{

/// How a law ended: whether every joint is known to rest, and whether every command was taken.
struct LawEnd
{
  bool rests = false, written = false;
};

template <typename Law>
class EffortLoop
{
public:
  template <typename... Arguments>
  explicit EffortLoop(Arguments &&... arguments)
  : law_(std::forward<Arguments>(arguments)...),
    states_(2 * law_.joints()),
    at_rest_(3 * law_.joints()),
    at_end_(2 * law_.joints(), unknown),
    writer_(law_.joints())
  {
  }

  Law & law() noexcept { return law_; }
  const double * positions() const noexcept { return states_.at(0); }
  const double * velocities() const noexcept { return states_.at(law_.joints()); }

  /// Begin: states are positions, then velocities. The first command is written at once: the arm
  /// must not fall before an update. False if one is not known, or if the law does not begin there.
  ///
  /// just_ended: the loop was stopped a moment ago. If no state was read since, the command of the
  /// end never reached the robot, as when a manager restarts a controller: the law goes on from the
  /// command before.
  template <typename States, typename Commands>
  bool start(const States & states, Commands & commands, bool just_ended = false) noexcept
  {
    states_.forget();
    states_.read(states);
    const bool resumed =
      just_ended && std::equal(at_end_.begin(), at_end_.end(), states_.at(0));  // NaN: it is not
    if (!all_finite(velocities(), law_.joints()) || !law_.start(positions(), resumed)) return false;
    writer_.write(commands, law_.command());
    return true;
  }

  /// What measured efforts say against what the robot is declared to add, before it is started.
  /// states are positions, velocities, efforts; without efforts nothing is said.
  template <typename States>
  RestVerdict judge_rest(const States & states) noexcept
  {
    const std::size_t n = law_.joints();
    if (states.size() < 3 * n) return {};
    at_rest_.forget();
    at_rest_.read(states);
    return law_.judge_rest(at_rest_.at(0), at_rest_.at(n), at_rest_.at(2 * n));
  }

  /// One update, dt [s] after the last. False if the state, the model or a command is lost.
  template <typename States, typename Commands>
  bool update(const States & states, Commands & commands, double dt) noexcept
  {
    states_.read(states);
    const bool well = law_.update(positions(), velocities(), dt);
    return writer_.write(commands, law_.command()) && well;
  }

  /// Leave the last command, which the robot keeps until another controller commands.
  template <typename States, typename Commands, typename Pause>
  LawEnd stop(const States & states, Commands & commands, const Pause & pause)
  {
    states_.read(states);
    std::copy(states_.at(0), states_.at(at_end_.size()), at_end_.begin());
    LawEnd end;
    end.rests = law_.end(positions(), velocities());
    end.written = writer_.write_last(commands, law_.command(), pause);
    return end;
  }

private:
  Law law_;
  StateValues states_, at_rest_;
  std::vector<double> at_end_;  ///< states when the loop was stopped
  CommandWriter writer_;
};

/// The feedforward law behind another controller, or behind a topic.
class FeedforwardLoop : public EffortLoop<FeedforwardLaw>
{
public:
  /// lead: of references [s]; below 0: one period behind another controller, none from the topic.
  template <typename... Arguments>
  FeedforwardLoop(double lead, double period, Arguments &&... arguments)
  : EffortLoop(std::forward<Arguments>(arguments)...),
    streamed_lead_(std::max(0.0, lead)),
    chained_lead_(lead < 0.0 ? period : lead),
    references_(3 * law().joints())
  {
  }

  template <typename States, typename Commands, typename References>
  bool start(
    const States & states, Commands & commands, References & references,
    bool just_ended = false) noexcept
  {
    ChainedReferences::forget(references);
    return EffortLoop::start(states, commands, just_ended);
  }

  /// Follow a reference of the topic: positions, velocities, accelerations. False if it is refused.
  bool follow(const double * values) noexcept
  {
    const std::size_t n = law().joints();
    return law().set_reference(values, values + n, values + 2 * n, streamed_lead_);
  }

  /// One update; chained: another controller writes the references (positions, velocities, then
  /// accelerations).
  template <typename States, typename Commands, typename References>
  bool update(
    const States & states, Commands & commands, References & references, bool chained,
    double dt) noexcept
  {
    if (chained && references_.read(references))
    {
      const std::size_t n = law().joints();
      law().set_reference(
        references_.at(0), references_.at(n), references_.at(2 * n), chained_lead_);
    }
    return EffortLoop::update(states, commands, dt);
  }

private:
  double streamed_lead_, chained_lead_;
  ChainedReferences references_;
};

/// The brake behind another controller, which writes efforts.
class BrakeLoop : public EffortLoop<BrakeLaw>
{
public:
  template <typename... Arguments>
  explicit BrakeLoop(Arguments &&... arguments)
  : EffortLoop(std::forward<Arguments>(arguments)...), efforts_(law().joints())
  {
  }

  template <typename States, typename Commands, typename Efforts>
  bool start(
    const States & states, Commands & commands, Efforts & efforts, bool just_ended = false) noexcept
  {
    ChainedReferences::forget(efforts);
    return EffortLoop::start(states, commands, just_ended);
  }

  template <typename States, typename Commands, typename Efforts>
  bool update(
    const States & states, Commands & commands, Efforts & efforts, bool chained, double dt) noexcept
  {
    if (chained && efforts_.read(efforts)) law().set_efforts(efforts_.at(0));
    return EffortLoop::update(states, commands, dt);
  }

private:
  ChainedReferences efforts_;
};

}  // namespace ros2_dynid
