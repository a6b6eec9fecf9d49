// SPDX-License-Identifier: Apache-2.0
// The model and load of a running controller: what may replace them, and how news reach the control
// loop.
//
// CurrentModel allocates and belongs outside the control loop, but for see(); NewsReader belongs
// inside and does not allocate.
#pragma once

#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ros2_dynid/model_refusal.hpp"

namespace ros2_dynid
{

struct ModelNews
{
  std::uint64_t number = 0;  ///< of the change
  Model model;
  Load load;
};

class CurrentModel
{
public:
  /// effort: limits that the robot must be able to hold a model with; empty: not checked. Throws if
  /// the model itself is refused.
  CurrentModel(Model model, std::vector<double> effort)
  : effort_(std::move(effort)), q_(model.active().size())
  {
    news_.model = std::move(model);
    const std::string why = refusal(news_.model, news_.load);
    if (!why.empty()) throw std::runtime_error("the model is refused: " + why);
  }

  const ModelNews & news() const noexcept { return news_; }

  /// Take the parameters of a model of the same robot, with the load that it carries: a reason if
  /// they are refused, else "". Only tried, not taken, if `trial`.
  std::string take_parameters(const Model & model, bool trial = false)
  {
    try
    {
      const Model estimate = with_parameters(news_.model, model);
      const std::string why = refusal(estimate, news_.load);
      if (why.empty() && !trial) give(estimate, news_.load);
      return why;
    }
    catch (const std::runtime_error & error)
    {
      return error.what();
    }
  }

  /// Carry this load: a reason if it is refused, else "".
  std::string take_load(const Load & load)
  {
    const std::string why = refusal(news_.model, load);
    if (why.empty()) give(news_.model, load);
    return why;
  }

  /// In the control loop: where the robot is. A position that is not finite is not looked at.
  void see(const double * q) noexcept
  {
    for (std::size_t a = 0; a < q_.size(); ++a)
      if (!std::isfinite(q[a])) return;
    for (std::size_t a = 0; a < q_.size(); ++a) q_[a].store(q[a], std::memory_order_relaxed);
    known_.store(true, std::memory_order_release);
  }

private:
  std::string refusal(const Model & model, const Load & load) const
  {
    std::vector<double> q(q_.size());
    const bool known = known_.load(std::memory_order_acquire);
    for (std::size_t a = 0; a < q.size(); ++a) q[a] = q_[a].load(std::memory_order_relaxed);
    return refusal_of(news_.model, model, load, effort_, known ? q.data() : nullptr);
  }

  void give(Model model, const Load & load)
  {
    news_.model = std::move(model);
    news_.load = load;
    ++news_.number;
  }

  ModelNews news_;
  std::vector<double> effort_;
  std::vector<std::atomic<double>> q_;
  std::atomic<bool> known_{false};
};

/// Hands each change once to a law or an observer.
class NewsReader
{
public:
  template <typename Receiver>
  void hand_to(Receiver & receiver, const ModelNews & latest) noexcept
  {
    if (latest.number == taken_) return;
    taken_ = latest.number;
    receiver.set_parameters(latest.model);
    receiver.set_payload(latest.load);
  }

private:
  std::uint64_t taken_ = 0;
};

}  // namespace ros2_dynid
