// SPDX-License-Identifier: Apache-2.0
// The controllers' loops and what reaches them from outside, for test_loops.py, which calls them
// through ctypes. Counts what the loops allocate while running.
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "fake_interface.hpp"
#include "ros2_dynid/current_model.hpp"
#include "ros2_dynid/effort_loop.hpp"
#include "ros2_dynid/external_effort_loop.hpp"
#include "ros2_dynid/hand_guiding_law.hpp"

using namespace ros2_dynid;

namespace
{
bool counting = false;
long allocated = 0;
std::string problem;

struct Counted
{
  Counted() { counting = true; }
  ~Counted() { counting = false; }
};

std::vector<double> list(const double * x, std::size_t n) { return std::vector<double>(x, x + n); }

/// One of the loops with its interfaces: states, commands, and references of another controller.
struct Bench
{
  explicit Bench(const char * path) : model(load_model(path)), n(model.active().size()) {}
  void wire(std::size_t state_kinds, std::size_t reference_count)
  {
    states.resize(state_kinds * n);
    commands.resize(n);
    references.resize(reference_count);
    for (auto & one : references) pointers.push_back(&one);
  }
  Model model;
  std::size_t n;
  std::vector<FakeInterface> states, commands, references;
  std::vector<FakeInterface *> pointers;
  std::unique_ptr<FeedforwardLoop> follow;
  std::unique_ptr<BrakeLoop> brake;
  std::unique_ptr<EffortLoop<HandGuidingLaw>> guide;
  std::unique_ptr<ExternalEffortLoop> feel;
};

/// What a law would be told.
struct Told
{
  int parameters = 0, payloads = 0;
  double mass = 0.0, first = 0.0;
  bool set_parameters(const Model & model) noexcept
  {
    ++parameters;
    first = model.joints[0].chi[0];
    return true;
  }
  bool set_payload(const Load & load) noexcept
  {
    ++payloads;
    mass = load.mass;
    return true;
  }
};
}  // namespace

void * operator new(std::size_t size)
{
  if (counting) ++allocated;
  if (void * p = std::malloc(size ? size : 1)) return p;
  throw std::bad_alloc();
}
void operator delete(void * p) noexcept { std::free(p); }
void operator delete(void * p, std::size_t) noexcept { std::free(p); }

extern "C"
{
  const char * why() { return problem.c_str(); }
  long allocations() { return allocated; }

  /// kind: f(ollow), b(rake), g(uide) or e(xternal efforts). lists, of one value a joint: kp, kd,
  /// damping, limits, rates. numbers: lead, period, ramp, longest step, smoothing, timeout, brake
  /// time.
  Bench * bench_new(char kind, const char * path, const double * lists, const double * numbers)
  {
    try
    {
      auto bench = std::make_unique<Bench>(path);
      const std::size_t n = bench->n;
      const EffortBounds bounds{
        list(lists + 3 * n, n), list(lists + 4 * n, n), numbers[2], numbers[3]};
      const auto damping = list(lists + 2 * n, n);
      bench->wire(kind == 'e' ? 3 : 2, kind == 'b' ? n : kind == 'e' ? n + 1 : 3 * n);
      if (kind == 'f')
      {
        bench->follow = std::make_unique<FeedforwardLoop>(
          numbers[0], numbers[1], bench->model, Gains{list(lists, n), list(lists + n, n), damping},
          bounds, FeedforwardOptions{numbers[4], numbers[5]});
      }
      if (kind == 'b')
      {
        bench->brake = std::make_unique<BrakeLoop>(
          bench->model, BrakeOptions{damping, numbers[6], numbers[4], numbers[5]}, bounds);
      }
      if (kind == 'g')
      {
        HandGuidingOptions options;
        for (const std::size_t j : bench->model.active())
        {
          options.lower.push_back(bench->model.joints[j - 1].limits.lower);
          options.upper.push_back(bench->model.joints[j - 1].limits.upper);
        }
        options.speed.assign(n, 1.0);
        options.margin.assign(n, 0.1);
        options.damping = damping;
        bench->guide = std::make_unique<EffortLoop<HandGuidingLaw>>(bench->model, options, bounds);
      }
      if (kind == 'e')
      {
        bench->feel = std::make_unique<ExternalEffortLoop>(
          bench->model, ObserverOptions(), list(lists + 3 * n, n), ContactOptions());
      }
      return bench.release();
    }
    catch (const std::exception & error)
    {
      problem = error.what();
      return nullptr;
    }
  }
  void bench_delete(Bench * bench) { delete bench; }

  /// The interfaces of a kind: s(tates), c(ommands) or r(eferences).
  std::vector<FakeInterface> & interfaces(Bench * bench, char kind)
  {
    return kind == 's' ? bench->states : kind == 'c' ? bench->commands : bench->references;
  }
  void bench_put(Bench * bench, char kind, const double * values)
  {
    for (auto & one : interfaces(bench, kind)) one.value = *values++;
  }
  void bench_get(Bench * bench, char kind, double * values)
  {
    for (const auto & one : interfaces(bench, kind)) *values++ = one.value;
  }
  void bench_hold(Bench * bench, char kind, unsigned place, int times)
  {
    interfaces(bench, kind)[place].busy = times;
  }

  bool bench_start(Bench * bench, bool just_ended)
  {
    Counted c;
    if (bench->follow)
      return bench->follow->start(bench->states, bench->commands, bench->pointers, just_ended);
    if (bench->brake)
      return bench->brake->start(bench->states, bench->commands, bench->pointers, just_ended);
    if (bench->guide) return bench->guide->start(bench->states, bench->commands, just_ended);
    bench->feel->start();
    return true;
  }
  /// Whether all is well, and for external efforts the event.
  int bench_update(Bench * bench, bool chained, double dt)
  {
    Counted c;
    if (bench->follow)
      return bench->follow->update(bench->states, bench->commands, bench->pointers, chained, dt);
    if (bench->brake)
      return bench->brake->update(bench->states, bench->commands, bench->pointers, chained, dt);
    if (bench->guide) return bench->guide->update(bench->states, bench->commands, dt);
    const ContactEvent event = bench->feel->update(bench->states, dt);
    bench->feel->give(bench->pointers);
    return static_cast<int>(event);
  }
  /// 1: every joint rests, 2: every command was taken.
  int bench_stop(Bench * bench)
  {
    const auto flags = [bench](auto & loop)
    {
      const LawEnd end = loop.stop(bench->states, bench->commands, [] {});
      return (end.rests ? 1 : 0) + (end.written ? 2 : 0);
    };
    return bench->follow  ? flags(*bench->follow)
           : bench->brake ? flags(*bench->brake)
                          : flags(*bench->guide);
  }
  bool bench_follow(Bench * bench, const double * values)
  {
    Counted c;
    return bench->follow->follow(values);
  }
  int bench_mode(Bench * bench)
  {
    return bench->follow ? static_cast<int>(bench->follow->law().mode())
                         : static_cast<int>(bench->brake->law().mode());
  }
  bool bench_payload(Bench * bench, unsigned joint, double mass)
  {
    const Load load{joint, mass, {0.0, 0.0, 0.1}, {}};
    Counted c;
    return bench->brake ? bench->brake->law().set_payload(load)
                        : bench->follow->law().set_payload(load);
  }

  // --- the model of a running controller

  CurrentModel * current_new(const char * path, const double * effort)
  {
    try
    {
      Model model = load_model(path);
      const std::size_t n = model.active().size();
      return new CurrentModel(std::move(model), effort ? list(effort, n) : std::vector<double>());
    }
    catch (const std::exception & error)
    {
      problem = error.what();
      return nullptr;
    }
  }
  void current_delete(CurrentModel * current) { delete current; }
  bool current_parameters(CurrentModel * current, const char * path, bool trial)
  {
    problem = current->take_parameters(load_model(path), trial);
    return problem.empty();
  }
  bool current_load(CurrentModel * current, unsigned joint, double mass)
  {
    problem = current->take_load({joint, mass, {0.0, 0.0, 0.1}, {}});
    return problem.empty();
  }
  void current_see(CurrentModel * current, const double * q)
  {
    Counted c;
    current->see(q);
  }
  /// Number of the change, load, first parameter; then, of a reader that asks `times` times,
  /// parameters and payloads that were told, the load and the first parameter told last.
  void current_news(CurrentModel * current, NewsReader * reader, int times, double * out)
  {
    const ModelNews & news = current->news();
    Told told;
    for (int k = 0; k < times; ++k) reader->hand_to(told, news);
    for (const double x :
         {double(news.number), news.load.mass, news.model.joints[0].chi[0], double(told.parameters),
          double(told.payloads), told.mass, told.first})
      *out++ = x;
  }
  NewsReader * reader_new() { return new NewsReader; }
  void reader_delete(NewsReader * reader) { delete reader; }

  /// Numbers as they come to a follower that forgets what is up to `newest`; writes those followed.
  unsigned followed(const double * numbers, unsigned count, double newest, double * out)
  {
    ReferenceFollower follower;
    follower.forget(static_cast<std::uint64_t>(newest));
    unsigned taken = 0;
    for (unsigned k = 0; k < count; ++k)
    {
      const ReferenceNews news{static_cast<std::uint64_t>(numbers[k]), {numbers[k]}};
      follower.hand_to([&](const double * values) { out[taken++] = *values; }, news);
    }
    return taken;
  }
}
