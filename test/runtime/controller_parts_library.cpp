// SPDX-License-Identifier: Apache-2.0
// What the controllers decide beside their laws, for test_controller_parts.py, which calls it
// through ctypes.
#include <cstdlib>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "fake_interface.hpp"
#include "ros2_dynid/controller_parameters.hpp"
#include "ros2_dynid/description.hpp"
#include "ros2_dynid/interface_values.hpp"
#include "ros2_dynid/model_refusal.hpp"
#include "ros2_dynid/torque_parts.hpp"
#include "ros2_dynid/wrist_loop.hpp"

using namespace ros2_dynid;

namespace
{
std::string problem;

struct Shell
{
  explicit Shell(std::size_t n) : interfaces(n), pointers(n), states(n), writer(n), references(n)
  {
    for (std::size_t k = 0; k < n; ++k) pointers[k] = &interfaces[k];
  }
  std::vector<FakeInterface> interfaces;
  std::vector<FakeInterface *> pointers;
  StateValues states;
  CommandWriter writer;
  ChainedReferences references;
};

/// The fields of the controllers' parameters.
struct Parameters
{
  std::vector<double> effort_limits, effort_rates, kp, kd, damping, speed_limits, range_margins;
  double ramp_seconds = 0.3, friction = 0.4, smoothing = 0.06, wall = 0.2, brake_seconds = 0.07;
  double timeout = 0.08;
};

std::vector<std::string> words_of(const char * text)
{
  std::istringstream in(text);
  std::vector<std::string> list;
  for (std::string word; in >> word;) list.push_back(word);
  return list;
}

std::optional<Tool> link_of(const Model & model, const std::string & name)
{
  for (const auto & tool : model.tools)
    if (tool.link == name) return tool;
  return std::nullopt;
}

template <typename Action>
bool attempt(const Action & action)
{
  try
  {
    action();
    return true;
  }
  catch (const std::exception & error)
  {
    problem = error.what();
    return false;
  }
}
}  // namespace

extern "C"
{
  const char * why() { return problem.c_str(); }

  Shell * shell_new(unsigned n) { return new Shell(n); }
  void shell_delete(Shell * shell) { delete shell; }
  void shell_hold(Shell * shell, unsigned k, int times) { shell->interfaces[k].busy = times; }
  void shell_put(Shell * shell, const double * values)
  {
    for (auto & interface : shell->interfaces) interface.value = *values++;
  }
  void shell_get(Shell * shell, double * values)
  {
    for (const auto & interface : shell->interfaces) *values++ = interface.value;
  }
  void shell_read(Shell * shell, double * out)
  {
    shell->states.read(shell->interfaces);
    std::copy(shell->states.at(0), shell->states.at(shell->interfaces.size()), out);
  }
  void shell_forget(Shell * shell, double * out)
  {
    shell->states.forget();
    std::copy(shell->states.at(0), shell->states.at(shell->interfaces.size()), out);
  }
  bool shell_write(Shell * shell, const double * values)
  {
    return shell->writer.write(shell->interfaces, values);
  }
  bool shell_write_last(Shell * shell, const double * values)
  {
    return shell->writer.write_last(shell->interfaces, values, [] {});
  }
  bool shell_read_references(Shell * shell, double * out)
  {
    const bool written = shell->references.read(shell->pointers);
    std::copy(shell->references.at(0), shell->references.at(shell->interfaces.size()), out);
    return written;
  }
  void shell_forget_references(Shell * shell) { ChainedReferences::forget(shell->pointers); }

  /// Options of both laws from parameters in the order of `joints`: seven lists of `count` values
  /// each (effort_limits, effort_rates, kp, kd, damping, speed_limits, range_margins). Writes
  /// limits, rates, kp, kd, damping, again the gains as put_gains puts them, speed, lower, upper,
  /// margin, damping of guiding, then the single numbers.
  bool options_of(
    const char * path, const char * joints, const double * lists, unsigned count, double * out)
  {
    return attempt(
      [&]
      {
        const Model model = load_model(path);
        const Places places = places_of(model, words_of(joints));
        Parameters p;
        for (auto * list :
             {&p.effort_limits, &p.effort_rates, &p.kp, &p.kd, &p.damping, &p.speed_limits,
              &p.range_margins})
        {
          list->assign(lists, lists + count);
          lists += count;
        }
        const EffortBounds bounds = effort_bounds_of(p, model, places, 500.0);
        const Gains gains = gains_of(p, places);
        Gains ordered = gains;
        for (auto * list : {&ordered.kp, &ordered.kd, &ordered.damping})
          list->assign(places.size(), -1.0);
        put_gains(p, places, ordered);
        const Gains & put = ordered;
        for (auto & x : p.damping) x = std::fabs(x);
        const HandGuidingOptions guiding = hand_guiding_options_of(p, model, places);
        for (const auto * list :
             {&bounds.limits, &bounds.rates, &gains.kp, &gains.kd, &gains.damping, &put.kp, &put.kd,
              &put.damping, &guiding.speed, &guiding.lower, &guiding.upper, &guiding.margin,
              &guiding.damping})
          out = std::copy(list->begin(), list->end(), out);
        for (const double x :
             {bounds.ramp, bounds.longest_step, guiding.friction, guiding.smoothing, guiding.wall,
              guiding.time, guiding.timeout})
          *out++ = x;
      });
  }

  /// Whether `model` with a mass at `joint` may be taken for the robot of another file; `why` says
  /// why not.
  bool taken(
    const char * robot, const char * model, unsigned joint, double mass, const double * effort,
    const double * q)
  {
    const Model one = load_model(robot);
    std::vector<double> limits;
    if (effort) limits.assign(effort, effort + one.active().size());
    problem = refusal_of(one, load_model(model), {joint, mass, {0.0, 0.0, 0.1}, {}}, limits, q);
    return problem.empty();
  }

  /// Inertia, velocity torque, gravity, friction and torque without the parts named.
  bool torque_parts(
    const char * path, const char * parts, const double * q, const double * dq, const double * ddq,
    double * out)
  {
    return attempt(
      [&]
      {
        TorqueParts computed(load_model(path), left_out(words_of(parts)));
        const std::size_t n = computed.joints();
        computed.inertia(q, out);
        computed.velocity_torque(q, dq, out + n * n);
        computed.gravity(q, out + n * n + n);
        computed.friction(dq, out + n * n + 2 * n);
        computed.torque(q, dq, ddq, out + n * n + 3 * n);
      });
  }

  bool wrist_tool(WristSensor * sensor, const double * x)
  {
    WristTool tool{x[0], {x[1], x[2], x[3]}, {x[4], x[5], x[6], x[7], x[8], x[9]}, {}, x[16]};
    std::copy(x + 10, x + 16, tool.bias.begin());
    return sensor->set_tool(tool);
  }
  /// A wrist sensor at a link with a tool: mass, centre, inertia, bias, sign. nullptr: `why` says
  /// why not.
  WristSensor * wrist_new(const char * path, const char * link, const double * tool, double filter)
  {
    WristSensor * made = nullptr;
    attempt(
      [&]
      {
        auto sensor =
          std::make_unique<WristSensor>(load_model(path), *link_of(load_model(path), link), filter);
        if (!wrist_tool(sensor.get(), tool)) throw std::runtime_error("no such tool");
        made = sensor.release();
      });
    return made;
  }
  void wrist_delete(WristSensor * sensor) { delete sensor; }
  void wrist_restart(WristSensor * sensor) { sensor->restart(); }
  /// state: positions, velocities and, unless dt is given (above 0 or not a number), accelerations.
  bool wrist_rest(
    WristSensor * sensor, const double * state, const double * measured, double dt, double * out)
  {
    const std::size_t n = sensor->joints();
    Wrench seen{}, rest{};
    std::copy(measured, measured + 6, seen.begin());
    const bool good = dt == 0.0 ? sensor->compute(state, state + n, state + 2 * n, seen, rest)
                                : sensor->update(state, state + n, seen, dt, rest);
    std::copy(rest.begin(), rest.end(), out);
    return good;
  }
  /// The loop of a sensor with this tool: `count` updates of 1 ms with the same states; interface
  /// `place` cannot be read in the last `busy` of them, before which it starts again if `busy` is
  /// negative. Writes what other controllers get.
  bool wrist_loop(
    const char * path, const char * link, const double * tool, const double * states,
    unsigned count, unsigned place, int busy, double * out)
  {
    const Model model = load_model(path);
    WristLoop loop(model, *link_of(model, link), 0.01);
    wrist_tool(&loop.sensor(), tool);
    const std::size_t n = loop.sensor().joints();
    std::vector<FakeInterface> read(2 * n + 6), given(6);
    std::vector<FakeInterface *> pointers;
    for (auto & one : given) pointers.push_back(&one);
    loop.start();
    bool known = false;
    for (unsigned k = 0; k < count; ++k)
    {
      for (std::size_t j = 0; j < read.size(); ++j) read[j].value = states[j];
      if (static_cast<int>(count - k) == std::abs(busy)) read[place].busy = std::abs(busy);
      if (static_cast<int>(count - k) == -busy) loop.start();
      known = loop.update(read, 1e-3);
      loop.give(pointers);
    }
    for (const auto & one : given) *out++ = one.value;
    return known;
  }

  void wrist_seen_from(
    WristSensor * sensor, const char * path, const char * link, const double * q,
    const double * wrench, double * out)
  {
    Wrench given{};
    std::copy(wrench, wrench + 6, given.begin());
    const Wrench seen = sensor->seen_from(given, q, *link_of(load_model(path), link));
    std::copy(seen.begin(), seen.end(), out);
  }

  /// Whether the model is of the robot of a description: lines of name, parent, child, motion (0
  /// fixed, 1 revolute, 2 prismatic), axis, rotation by rows, position, joint that it mimics or -,
  /// factor, offset.
  bool same_as_described(const char * path, const char * text)
  {
    Description robot;
    std::istringstream in(text);
    DescribedJoint joint;
    int motion = 0;
    while (in >> joint.name >> joint.parent >> joint.child >> motion)
    {
      Rotation & R = joint.origin.R;
      Vec & p = joint.origin.p;
      in >> joint.axis.x >> joint.axis.y >> joint.axis.z;
      in >> R.i.x >> R.j.x >> R.k.x >> R.i.y >> R.j.y >> R.k.y >> R.i.z >> R.j.z >> R.k.z;
      in >> p.x >> p.y >> p.z >> joint.mimics >> joint.factor >> joint.offset;
      if (joint.mimics == "-") joint.mimics.clear();
      joint.motion = static_cast<DescribedMotion>(motion);
      robot.push_back(joint);
    }
    problem = difference_from_description(load_model(path), robot);
    return problem.empty();
  }
}
