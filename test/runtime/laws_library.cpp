// SPDX-License-Identifier: Apache-2.0
// The controllers' laws for test_laws.py, which calls them through ctypes. Counts what the laws
// allocate while running.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include "ros2_dynid/feedforward_law.hpp"
#include "ros2_dynid/hand_guiding_law.hpp"
#include "ros2_dynid/holdable.hpp"
#include "ros2_dynid/model_message.hpp"

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

// The fields of the messages, as plain data.
struct Vector3
{
  double x = 0, y = 0, z = 0;
};
struct Quaternion
{
  double x = 0, y = 0, z = 0, w = 1;
};
struct Transform
{
  Vector3 translation;
  Quaternion rotation;
};
struct MdhJoint
{
  std::string name;
  std::uint32_t parent;
  std::uint8_t sigma;
  double gamma, b, alpha, d, theta, r;
};
struct JointCoupling
{
  std::uint32_t motor;
  std::vector<std::uint32_t> joints;
  std::vector<double> weights;
  bool independent_inertia;
};
struct PassiveJoint
{
  std::uint32_t joint;
  std::vector<std::uint32_t> joints;
  std::vector<double> coefficients;
  double offset;
};
struct BaseParameter
{
  std::string leader;
  double value;
};
struct Term
{
  std::uint32_t joint;
  std::string term;
  double coefficient, speed, exponent, reference, recorded_speed;
};
struct ElasticElement
{
  std::string name, type;
  std::vector<std::uint32_t> powers;
  double rest;
  std::vector<std::uint32_t> joints;
  std::vector<double> weights;
  std::vector<std::uint32_t> pivot_joints;
  std::vector<Vector3> pivots;
};
struct ClosedLoops
{
  std::vector<std::uint32_t> passive;
  std::vector<Vector3> pivots;
};
struct AddedEffortMessage
{
  std::string joint;
  bool gravity, payload;
  double friction;
};
struct TorqueError
{
  std::string joint;
  double rms;
};
struct BaseParameters
{
  std::string robot;
  std::vector<MdhJoint> joints;
  std::vector<JointCoupling> couplings;
  std::vector<PassiveJoint> passive;
  ClosedLoops loops;
  Transform base;
  Vector3 gravity;
  std::vector<BaseParameter> parameters;
  std::vector<Term> friction;
  std::vector<ElasticElement> elastic_elements;
  std::vector<AddedEffortMessage> added_efforts;
  std::vector<TorqueError> fit;
};
struct Stamp
{
  std::int32_t sec = 0;
  std::uint32_t nanosec = 0;
};
struct Header
{
  Stamp stamp;
};
struct Point
{
  std::vector<double> positions, velocities, accelerations;
};
struct JointTrajectory
{
  Header header;
  std::vector<std::string> joint_names;
  std::vector<Point> points;
};
struct Inertia
{
  double m = 0;
  Vector3 com;
  double ixx = 0, ixy = 0, ixz = 0, iyy = 0, iyz = 0, izz = 0;
};
struct SetPayload
{
  std::string link;
  Inertia payload;
};

BaseParameters message_of(const Model & model, const std::string & leaders, const double * values)
{
  static const char * const kinds[] = {"asymmetric", "cubic",        "root", "stribeck",
                                       "load",       "load_viscous", "power"};
  BaseParameters out;
  out.robot = model.name;
  for (const auto & j : model.joints)
  {
    out.joints.push_back(
      {j.name, static_cast<std::uint32_t>(j.parent), j.prismatic, j.gamma, j.b, j.alpha, j.d,
       j.theta, j.r});
  }
  const auto split = [](const std::vector<Weight> & weights, auto & joints, auto & numbers)
  {
    for (const auto & w : weights)
    {
      joints.push_back(static_cast<std::uint32_t>(w.joint));
      numbers.push_back(w.value);
    }
  };
  for (const auto & c : model.couplings)
  {
    JointCoupling coupling{static_cast<std::uint32_t>(c.motor), {}, {}, c.independent_inertia};
    split(c.weights, coupling.joints, coupling.weights);
    out.couplings.push_back(coupling);
  }
  for (const auto & p : model.passive)
  {
    PassiveJoint passive{static_cast<std::uint32_t>(p.joint), {}, {}, p.offset};
    split(p.terms, passive.joints, passive.coefficients);
    out.passive.push_back(passive);
  }
  const auto & B = model.base;  // half a turn about an axis is not among the tests' bases
  const double w = 0.5 * std::sqrt(1.0 + B[0] + B[4] + B[8]);
  out.base.rotation = {
    (B[7] - B[5]) / (4 * w), (B[2] - B[6]) / (4 * w), (B[3] - B[1]) / (4 * w), w};
  out.base.translation = {model.base_position[0], model.base_position[1], model.base_position[2]};
  out.gravity = {model.gravity[0], model.gravity[1], model.gravity[2]};
  for (const auto & t : model.friction)
  {
    out.friction.push_back(
      {static_cast<std::uint32_t>(t.joint), kinds[static_cast<std::size_t>(t.kind)], t.coefficient,
       t.kind == FrictionKind::power ? 0.0 : t.speed, t.kind == FrictionKind::power ? t.speed : 0.0,
       0.0, t.recorded_speed});
  }
  for (const auto & t : model.thermal)
  {
    out.friction.push_back(
      {static_cast<std::uint32_t>(t.joint), t.viscous ? "temperature_viscous" : "temperature",
       t.coefficient, 0.0, 0.0, t.reference, 0.0});
  }
  for (const auto & f : model.forces)
  {
    ElasticElement force;
    force.name = "element", force.type = f.has_pivots ? "cylinder" : "spring", force.rest = f.rest;
    for (std::uint32_t p = 0; p < 4; ++p)
      if (f.has[p]) force.powers.push_back(p);
    split(f.weights, force.joints, force.weights);
    if (f.has_pivots)
    {
      for (const auto & pivot : f.pivots)
      {
        force.pivot_joints.push_back(static_cast<std::uint32_t>(pivot.joint));
        force.pivots.push_back({pivot.point[0], pivot.point[1], pivot.point[2]});
      }
    }
    out.elastic_elements.push_back(force);
  }
  for (const auto & j : model.joints)
  {
    if (j.adds.known)
      out.added_efforts.push_back({j.name, j.adds.gravity, j.adds.payload, j.adds.friction});
  }
  std::istringstream names(leaders);
  for (std::string name; names >> name; ++values) out.parameters.push_back({name, *values});
  return out;
}
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

  FeedforwardLaw * follow_new(
    const char * path, const double * lists, double ramp, double longest, double smoothing,
    double timeout)
  {
    try
    {
      const Model model = load_model(path);
      const std::size_t n = model.active().size();
      const Gains gains{list(lists, n), list(lists + n, n), list(lists + 2 * n, n)};
      const EffortBounds bounds{list(lists + 3 * n, n), list(lists + 4 * n, n), ramp, longest};
      return new FeedforwardLaw(model, gains, bounds, {smoothing, timeout});
    }
    catch (const std::exception & error)
    {
      problem = error.what();
      return nullptr;
    }
  }
  void follow_delete(FeedforwardLaw * law) { delete law; }
  bool follow_start(FeedforwardLaw * law, const double * q)
  {
    Counted c;
    return law->start(q);
  }
  /// What efforts measured at rest contradict: 0 nothing, 1 to 3 as in RestFinding; `why` has it.
  int follow_judge(FeedforwardLaw * law, const double * q, const double * dq, const double * tau)
  {
    RestVerdict verdict;
    {
      Counted c;
      verdict = law->judge_rest(q, dq, tau);
    }
    problem = describe(verdict, std::to_string(verdict.joint));
    return static_cast<int>(verdict.finding);
  }
  bool follow_reference(
    FeedforwardLaw * law, const double * q, const double * dq, const double * ddq)
  {
    Counted c;
    return law->set_reference(q, dq, ddq);
  }
  bool follow_reference_of(
    FeedforwardLaw * law, const double * q, const double * dq, const double * ddq, double lead)
  {
    Counted c;
    return law->set_reference(q, dq, ddq, lead);
  }
  void follow_clear(FeedforwardLaw * law) { law->clear_reference(); }
  bool follow_end(FeedforwardLaw * law, const double * q, const double * dq)
  {
    Counted c;
    return law->end(q, dq);
  }
  bool follow_update(FeedforwardLaw * law, const double * q, const double * dq, double dt)
  {
    Counted c;
    return law->update(q, dq, dt);
  }
  int follow_mode(FeedforwardLaw * law) { return static_cast<int>(law->mode()); }
  const double * follow_command(FeedforwardLaw * law) { return law->command(); }
  bool follow_gains(
    FeedforwardLaw * law, const double * kp, const double * kd, const double * damping)
  {
    const std::size_t n = law->joints();
    const Gains gains{list(kp, n), list(kd, n), list(damping, n)};
    Counted c;
    return law->set_gains(gains);
  }
  bool follow_parameters(FeedforwardLaw * law, const char * path)
  {
    const Model model = load_model(path);
    Counted c;
    return law->set_parameters(model);
  }
  bool follow_payload(
    FeedforwardLaw * law, unsigned joint, double mass, double x, double y, double z)
  {
    Counted c;
    return law->set_payload({joint, mass, {x, y, z}, {}});
  }

  HandGuidingLaw * guide_new(
    const char * path, const double * lists, double friction, double ramp, double longest)
  {
    try
    {
      const Model model = load_model(path);
      const std::size_t n = model.active().size();
      HandGuidingOptions options;
      options.speed = list(lists, n);
      options.lower = list(lists + n, n);
      options.upper = list(lists + 2 * n, n);
      options.margin = list(lists + 3 * n, n);
      options.damping = list(lists + 4 * n, n);
      options.friction = friction;
      return new HandGuidingLaw(
        model, options, {list(lists + 5 * n, n), list(lists + 6 * n, n), ramp, longest});
    }
    catch (const std::exception & error)
    {
      problem = error.what();
      return nullptr;
    }
  }
  void guide_delete(HandGuidingLaw * law) { delete law; }
  bool guide_start(HandGuidingLaw * law, const double * q)
  {
    Counted c;
    return law->start(q);
  }
  bool guide_update(HandGuidingLaw * law, const double * q, const double * dq, double dt)
  {
    Counted c;
    return law->update(q, dq, dt);
  }
  int guide_mode(HandGuidingLaw * law) { return static_cast<int>(law->mode()); }
  const double * guide_command(HandGuidingLaw * law) { return law->command(); }
  bool guide_friction(HandGuidingLaw * law, double fraction)
  {
    Counted c;
    return law->set_friction(fraction);
  }
  bool guide_payload(
    HandGuidingLaw * law, unsigned joint, double mass, double x, double y, double z)
  {
    Counted c;
    return law->set_payload({joint, mass, {x, y, z}, {}});
  }
  bool guide_end(HandGuidingLaw * law, const double * q, const double * dq)
  {
    Counted c;
    return law->end(q, dq);
  }
  bool guide_parameters(HandGuidingLaw * law, const char * path)
  {
    const Model model = load_model(path);
    Counted c;
    return law->set_parameters(model);
  }

  unsigned long follow_refused(FeedforwardLaw * law, unsigned fault)
  {
    return static_cast<unsigned long>(law->refused()->of(static_cast<ReferenceFault>(fault)));
  }

  /// Declare what the robot of a file adds: texts separated by blanks, "-": none; places: one of
  /// each joint. Writes known, gravity, payload and friction of each joint to `out`; with
  /// `message`, as a BaseParameters message carries them.
  bool declared(
    const char * path, const char * texts, const double * places, bool message, double * out)
  {
    try
    {
      Model model = load_model(path);
      std::vector<std::string> list;
      std::vector<std::size_t> order;
      std::istringstream words(texts);
      for (std::string word; words >> word;) list.push_back(word == "-" ? "" : word);
      for (std::size_t a = 0; a < model.active().size(); ++a)
        order.push_back(static_cast<std::size_t>(places[a]));
      declare_added_effort(model, list, order);
      if (message)
      {
        const double none = 0.0;
        model = model_of(message_of(model, "Ia1", &none));
      }
      for (const std::size_t j : model.active())
      {
        const AddedEffort & adds = model.joints[j - 1].adds;
        for (const double x :
             {double(adds.known), double(adds.gravity), double(adds.payload), adds.friction})
          *out++ = x;
      }
      return true;
    }
    catch (const std::exception & error)
    {
      problem = error.what();
      return false;
    }
  }

  ReferenceReader * reader_new(const char * names, double longest_age)
  {
    std::istringstream words(names);
    std::vector<std::string> list;
    for (std::string word; words >> word;) list.push_back(word);
    return new ReferenceReader(list, longest_age);
  }
  void reader_delete(ReferenceReader * reader) { delete reader; }
  RefusedReferences * refused_new() { return new RefusedReferences; }
  void refused_delete(RefusedReferences * refused) { delete refused; }
  /// What was refused since the last call; `why` has it.
  void refused_news(RefusedReferences * refused) { problem = refused->news(); }
  /// A message of `points` points with lists of these sizes, taken from `values`; writes the values
  /// in the model's order to `out`.
  bool reader_take(
    ReferenceReader * reader, RefusedReferences * refused, const char * names, unsigned points,
    const double * sizes, const double * values, double stamp, double now, double * out)
  {
    JointTrajectory message;
    std::istringstream words(names);
    for (std::string word; words >> word;) message.joint_names.push_back(word);
    message.header.stamp.sec = static_cast<std::int32_t>(stamp);
    message.header.stamp.nanosec =
      static_cast<std::uint32_t>(1e9 * (stamp - message.header.stamp.sec));
    Point point;
    std::vector<double> * lists[] = {&point.positions, &point.velocities, &point.accelerations};
    for (std::size_t k = 0; k < 3; ++k)
    {
      const auto size = static_cast<std::size_t>(sizes[k]);
      *lists[k] = list(values, size);
      values += size;
    }
    message.points.assign(points, point);
    const bool taken = reader->take(message, now, *refused);
    std::copy(reader->values().begin(), reader->values().end(), out);
    return taken;
  }

  /// Torque of the model of a BaseParameters message: the robot of the file with these leaders.
  bool message_torque(
    const char * path, const char * leaders, const double * values, const double * q,
    const double * dq, const double * ddq, double * tau)
  {
    try
    {
      const Model robot = load_model(path);
      const Model model = with_parameters(robot, model_of(message_of(robot, leaders, values)));
      Dynamics(model).inverse_dynamics(q, dq, ddq, tau);
      return true;
    }
    catch (const std::exception & error)
    {
      problem = error.what();
      return false;
    }
  }

  /// Torque at temperatures T of the first `count` drives: of the model of the file, or of its
  /// BaseParameters message.
  bool warm_torque(
    const char * path, bool message, const double * T, unsigned count, const double * q,
    const double * dq, const double * ddq, double * tau)
  {
    try
    {
      const Model robot = load_model(path);
      Model model = robot;
      if (message)
      {
        const double none = 0.0;
        model.thermal.clear();
        model = with_parameters(model, model_of(message_of(robot, "Ia1", &none)));
        for (std::size_t j = 0; j < model.joints.size(); ++j)
          model.joints[j].chi = robot.joints[j].chi;
        model.forces = robot.forces;
      }
      Dynamics(at_temperature(model, list(T, count))).inverse_dynamics(q, dq, ddq, tau);
      return true;
    }
    catch (const std::exception & error)
    {
      problem = error.what();
      return false;
    }
  }

  /// Whether the parameters of one file may be put into the model of another.
  bool same_robot(const char * path, const char * other)
  {
    try
    {
      with_parameters(load_model(path), load_model(other));
      return true;
    }
    catch (const std::exception & error)
    {
      problem = error.what();
      return false;
    }
  }

  /// Torque with a payload given at a link: mass, centre, XX XY XZ YY YZ ZZ.
  bool payload_torque(
    const char * path, const char * link, const double * body, const double * q, const double * ddq,
    double * tau)
  {
    try
    {
      const Model model = load_model(path);
      SetPayload request{
        link,
        {body[0],
         {body[1], body[2], body[3]},
         body[4],
         body[5],
         body[6],
         body[7],
         body[8],
         body[9]}};
      Dynamics dynamics(model);
      dynamics.set_payload(load_of(model, request));
      const std::vector<double> still(dynamics.joints(), 0.0);
      dynamics.inverse_dynamics(q, still.data(), ddq, tau);
      return true;
    }
    catch (const std::exception & error)
    {
      problem = error.what();
      return false;
    }
  }

  /// Whether the robot can hold a mass at a link's joint; `why` says why not.
  bool holds(
    const char * path, unsigned joint, double mass, const double * effort, const double * q)
  {
    const Model model = load_model(path);
    problem = cannot_hold(
      model, {joint, mass, {0.0, 0.0, 0.1}, {}}, list(effort, model.active().size()), q);
    return problem.empty();
  }

  /// Pose of a link in the base link's frame: rotation by rows, position.
  void link_pose(const char * path, const char * link, const double * q, double * out)
  {
    const Model model = load_model(path);
    std::array<double, 9> R{};
    std::array<double, 3> p{};
    for (const auto & tool : model.tools)
      if (tool.link == link) Dynamics(model).pose(q, tool, R, p);
    std::copy(R.begin(), R.end(), out);
    std::copy(p.begin(), p.end(), out + 9);
  }
  /// Jacobian of a link, 6 x n by rows.
  void link_jacobian(const char * path, const char * link, const double * q, double * out)
  {
    const Model model = load_model(path);
    for (const auto & tool : model.tools)
      if (tool.link == link) Dynamics(model).jacobian(q, tool, out);
  }
}
