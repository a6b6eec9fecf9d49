// SPDX-License-Identifier: Apache-2.0
// The identified model as plain data, read from the file that `dynid export MODEL --to runtime`
// writes.
//
// Reading allocates and throws std::runtime_error with one line that says what is wrong; everything
// after that (dynamics.hpp, observer.hpp) does neither. Standard library only, C++17.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "ros2_dynid/friction_kinds.hpp"

namespace ros2_dynid
{

/// Standard parameters of a joint, in this order: XX XY XZ YY YZ ZZ MX MY MZ M Ia Fv Fc off.
enum Parameter
{
  XX,
  XY,
  XZ,
  YY,
  YZ,
  ZZ,
  MX,
  MY,
  MZ,
  M,
  IA,
  FV,
  FC,
  OFF,
  PER_JOINT
};

/// Position [rad or m], velocity, acceleration and effort [N.m or N]; infinite where not known.
struct Limits
{
  double lower = 0.0, upper = 0.0, velocity = 0.0, acceleration = 0.0, effort = 0.0;
};

/// What the robot itself adds to an effort that is commanded: what holds it still (of the payload,
/// too, if it knows it), and a share of its friction. A command is the law's torque minus that. Not
/// known: nothing may be commanded.
struct AddedEffort
{
  bool known = false, gravity = false, payload = false;
  double friction = 0.0;  ///< 0 to 1
  bool fixed = false;     ///< the model's efforts lack a part: what is added was taken into account
  bool gravity_measured = false;  ///< measured efforts are declared to hold gravity
};

/// Joint j in modified DH form: Rot(z,gamma) Trans(z,b) Rot(x,alpha) Trans(x,d) Rot(z,theta)
/// Trans(z,r).
struct Joint
{
  std::string name;
  std::size_t parent = 0;  ///< number of the antecedent, from 1; 0: the base
  bool prismatic = false;
  double gamma = 0.0, b = 0.0, alpha = 0.0, d = 0.0, theta = 0.0, r = 0.0;
  Limits limits;
  AddedEffort adds;
  std::array<double, PER_JOINT> chi{};
};

struct Weight
{
  std::size_t joint = 0;  ///< from 1
  double value = 0.0;
};

/// A motor that feels several joints: q_m = sum of weights q_j.
struct Coupling
{
  std::size_t motor = 0;
  bool independent_inertia =
    false;  ///< Iam is a parameter of its own; else Ia of the motor's joint couples
  double Iam = 0.0, Fvm = 0.0, Fcm = 0.0;
  std::vector<Weight> weights;
};

/// A joint of a closed loop: q_p = offset + sum of terms q_j over active joints.
struct Passive
{
  std::size_t joint = 0;
  double offset = 0.0;
  std::vector<Weight> terms;
};

/// A term of an active joint's friction beyond Fv dq + Fc sign(dq) + off; speed: its shape, such as
/// vs or an exponent; recorded_speed: faster, it keeps the value that it has there (0: no bound).
struct FrictionTerm
{
  std::size_t joint = 0;
  FrictionKind kind = FrictionKind::asymmetric;
  double coefficient = 0.0, speed = 0.0, recorded_speed = 0.0;
};

/// A term of an active joint's friction that changes with the temperature T of its drive [deg C]:
/// coefficient (T - reference) sign(dq), or times dq if viscous. Zero until `at_temperature` is
/// asked.
struct ThermalTerm
{
  std::size_t joint = 0;
  bool viscous = false;
  double coefficient = 0.0, reference = 0.0;
};

/// A point [m] in the frame of joint `joint`; 0: frame 0, which is fixed to the base.
struct Pivot
{
  std::size_t joint = 0;
  std::array<double, 3> point{};
};

/// A spring, cable or cylinder: the drives feel (dx/dq)^T F(x) against it, F = sum of K[p] (x -
/// rest)^p.
///
/// x is the sum of weights q_j, or, with pivots, their distance; F > 0 pulls these together.
struct Force
{
  bool has_pivots = false;
  std::vector<Weight> weights;
  std::array<Pivot, 2> pivots;
  double rest = 0.0;
  std::array<double, 4> K{};  ///< Kf, Ks, Kq, Kc
  std::array<bool, 4> has{};  ///< which of them are parameters
};

/// Closed loops, each cut open: pairs of points that coincide, and the joints that follow from them.
struct Loops
{
  std::vector<std::array<Pivot, 2>> pairs;
  std::vector<std::size_t> passive;
  std::vector<double> assembly;  ///< positions of all joints at which the loops close [rad, m]
};

/// A link fixed to the frame of joint `joint`; rotation by rows and position of the link's frame in
/// the joint's.
struct Tool
{
  std::string link;
  std::size_t joint = 0;
  std::array<double, 9> rotation{1, 0, 0, 0, 1, 0, 0, 0, 1};
  std::array<double, 3> position{};
};

/// How far the model's torque may be wrong at an active joint [N.m or N]; NaN where not known.
struct ErrorBar
{
  double sigma =
    std::numeric_limits<double>::quiet_NaN();  ///< residual level of the identification
  double torque_std =
    std::numeric_limits<double>::quiet_NaN();  ///< largest standard deviation of the torque
};

struct Model
{
  std::string name;
  std::array<double, 3> gravity{0.0, 0.0, -9.81};  ///< in the base link's frame [m/s^2]
  std::array<double, 9> base{1, 0, 0, 0, 1,
                             0, 0, 0, 1};  ///< rotation of frame 0 in the base link's, by rows
  std::array<double, 3> base_position{};   ///< of frame 0 in the base link's frame [m]
  std::vector<Joint> joints;
  std::vector<Coupling> couplings;
  std::vector<Passive> passive;
  Loops loops;
  std::vector<FrictionTerm> friction;
  std::vector<ThermalTerm> thermal;
  std::vector<Force> forces;
  std::vector<Tool> tools;
  std::vector<ErrorBar> error_bars;  ///< one for each active joint

  /// Numbers (from 1) of the joints that move independently: the order of q, dq, ddq and tau.
  std::vector<std::size_t> active() const
  {
    std::vector<std::size_t> numbers;
    for (std::size_t j = 1; j <= joints.size(); ++j)
    {
      bool follows = false;
      for (const auto & p : passive) follows = follows || p.joint == j;
      for (const auto p : loops.passive) follows = follows || p == j;
      if (!follows) numbers.push_back(j);
    }
    return numbers;
  }

  std::vector<std::string> active_names() const
  {
    std::vector<std::string> names;
    for (const auto j : active()) names.push_back(joints[j - 1].name);
    return names;
  }
};

/// Refuse closed loops that are not linear, for `what`, in the plural.
inline void refuse_loops(const Model & model, const std::string & what)
{
  if (!model.loops.passive.empty())
    throw std::runtime_error(what + " do not cover closed loops whose joints do not follow linearly");
}

/// Put a standard parameter by name ("ZZ1", "Fv3", "Iam6"); false if the model has no such
/// parameter.
inline bool set_parameter(Model & model, const std::string & name, double value)
{
  static const char * const kinds[PER_JOINT] = {"XX", "XY", "XZ", "YY", "YZ", "ZZ", "MX",
                                                "MY", "MZ", "M",  "Ia", "Fv", "Fc", "off"};
  std::size_t digits = name.size();
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
  if (digits == 0 || digits == name.size() || name[digits] == '0' || name.size() - digits > 4)
    return false;
  const std::string kind = name.substr(0, digits);
  std::size_t number = 0;
  for (std::size_t k = digits; k < name.size(); ++k)
    number = 10 * number + static_cast<std::size_t>(name[k] - '0');
  static const char * const elastic[4] = {"Kf", "Ks", "Kq", "Kc"};
  for (std::size_t p = 0; p < 4; ++p)
  {
    if (kind != elastic[p]) continue;
    if (number > model.forces.size() || !model.forces[number - 1].has[p]) return false;
    model.forces[number - 1].K[p] = value;
    return true;
  }
  if (number > model.joints.size()) return false;
  for (std::size_t k = 0; k < PER_JOINT; ++k)
  {
    if (kind == kinds[k])
    {
      model.joints[number - 1].chi[k] = value;
      return true;
    }
  }
  for (auto & coupling : model.couplings)
  {
    if (coupling.motor != number) continue;
    if (kind == "Fvm")
      coupling.Fvm = value;
    else if (kind == "Fcm")
      coupling.Fcm = value;
    else if (kind == "Iam" && coupling.independent_inertia)
      coupling.Iam = value;
    else
      return false;
    return true;
  }
  return false;
}

/// Set every standard parameter to zero, as before the leaders of a set of base parameters are put.
inline void clear_parameters(Model & model)
{
  for (auto & joint : model.joints) joint.chi.fill(0.0);
  for (auto & coupling : model.couplings) coupling.Iam = coupling.Fvm = coupling.Fcm = 0.0;
  for (auto & force : model.forces) force.K.fill(0.0);
}

namespace detail
{

inline std::uint32_t crc32(const unsigned char * data, std::size_t size)
{
  std::uint32_t crc = 0xffffffffu;
  for (std::size_t k = 0; k < size; ++k)
  {
    crc ^= data[k];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xedb88320u & (0u - (crc & 1u)));
  }
  return ~crc;
}

class Reader
{
public:
  Reader(const unsigned char * data, std::size_t size) : data_(data), left_(size) {}

  std::uint32_t integer()
  {
    const unsigned char * p = take(4);
    return static_cast<std::uint32_t>(p[0]) | static_cast<std::uint32_t>(p[1]) << 8 |
           static_cast<std::uint32_t>(p[2]) << 16 | static_cast<std::uint32_t>(p[3]) << 24;
  }
  double any_number()
  {
    const unsigned char * p = take(8);
    std::uint64_t bits = 0;
    for (int k = 7; k >= 0; --k) bits = bits << 8 | p[k];
    double value;
    static_assert(sizeof value == sizeof bits, "doubles of 64 bits");
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  double number()
  {
    const double value = any_number();
    if (!std::isfinite(value)) throw std::runtime_error("it holds a number that is not finite");
    return value;
  }
  double limit()
  {
    const double value = any_number();
    if (std::isnan(value)) throw std::runtime_error("it holds a limit that is not a number");
    return value;
  }
  std::string text()
  {
    const std::size_t size = integer();
    const unsigned char * p = take(size);
    return std::string(reinterpret_cast<const char *>(p), size);
  }
  /// A count of items of at least `bytes` each, which the rest of the file must be able to hold.
  std::size_t count(std::size_t bytes)
  {
    const std::size_t items = integer();
    if (items > left_ / bytes) throw std::runtime_error("it ends too early");
    return items;
  }
  std::size_t joint(std::size_t joints)
  {
    const std::size_t number = integer();
    if (number < 1 || number > joints)
      throw std::runtime_error("it names a joint that the robot does not have");
    return number;
  }
  std::size_t left() const { return left_; }

private:
  const unsigned char * take(std::size_t size)
  {
    if (size > left_) throw std::runtime_error("it ends too early");
    const unsigned char * at = data_;
    data_ += size;
    left_ -= size;
    return at;
  }
  const unsigned char * data_;
  std::size_t left_;
};

inline std::vector<Weight> weights(Reader & in, std::size_t joints)
{
  std::vector<Weight> list(in.count(12));
  for (auto & weight : list)
  {
    weight.joint = in.joint(joints);
    weight.value = in.number();
  }
  return list;
}

inline Loops loops(Reader & in, std::size_t n)
{
  Loops loops;
  loops.pairs.resize(in.count(2 * (4 + 3 * 8)));
  for (auto & pair : loops.pairs)
  {
    for (auto & pivot : pair)
    {
      pivot.joint = in.integer();
      if (pivot.joint > n)
        throw std::runtime_error("it names a joint that the robot does not have");
      for (auto & x : pivot.point) x = in.number();
    }
  }
  loops.passive.resize(in.count(4));
  for (auto & joint : loops.passive) joint = in.joint(n);
  if (loops.passive.empty() || 3 * loops.pairs.size() < loops.passive.size())
    throw std::runtime_error("its loops do not determine their passive joints");
  loops.assembly.resize(n);
  for (auto & x : loops.assembly) x = in.number();
  return loops;
}

/// Refuse a model whose joints, couplings or friction terms name joints that they cannot.
inline void check_structure(const Model & model)
{
  const std::size_t n = model.joints.size();
  const auto exists = [n](std::size_t joint)
  {
    if (joint < 1 || joint > n)
      throw std::runtime_error("it names a joint that the robot does not have");
  };
  if (n == 0) throw std::runtime_error("it has no joint");
  for (std::size_t j = 0; j < n; ++j)
  {
    if (model.joints[j].parent > j) throw std::runtime_error("a joint's parent or type is wrong");
  }
  for (const auto & coupling : model.couplings)
  {
    exists(coupling.motor);
    for (const auto & weight : coupling.weights) exists(weight.joint);
  }
  for (const auto & passive : model.passive) exists(passive.joint);
  const auto active = model.active();
  const auto is_active = [&active](std::size_t joint)
  {
    for (const auto j : active)
      if (j == joint) return true;
    return false;
  };
  if (active.size() + model.passive.size() + model.loops.passive.size() != n) throw std::runtime_error("a joint follows twice");
  for (const auto & passive : model.passive)
  {
    for (const auto & term : passive.terms)
    {
      if (!is_active(term.joint))
        throw std::runtime_error("a joint follows one that is not active");
    }
  }
  for (const auto & term : model.friction)
  {
    if (!is_active(term.joint)) throw std::runtime_error("a friction term is of no active joint");
    const std::string shape = friction_shapes[static_cast<std::uint32_t>(term.kind)];
    if (!shape.empty() && !(term.speed > 0.0))
      throw std::runtime_error("the " + shape + " of a friction term is wrong");
  }
  for (const auto & term : model.thermal)
  {
    if (!is_active(term.joint)) throw std::runtime_error("a friction term is of no active joint");
  }
  for (const auto & force : model.forces)
  {
    for (const auto & weight : force.weights) exists(weight.joint);
    if (!force.has_pivots) continue;
    for (const auto & pivot : force.pivots)
      if (pivot.joint > 0) exists(pivot.joint);
  }
}

}  // namespace detail

/// Bits of what is declared of an effort.
constexpr std::uint32_t added_effort_known = 1, added_effort_fixed = 2,
                        added_effort_gravity_measured = 4;

constexpr char runtime_magic[8] = {'D', 'Y', 'N', 'I', 'D', 'R', 'T', '\n'};
constexpr std::uint32_t runtime_version =
  6;  // still read: 5, without closed loops that are not linear; 4, without the speeds that friction was identified from; 3, nor what the robot
      // adds; 2, nor terms of the temperature; 1, nor springs and cables

/// Read a model from the bytes of a runtime file: magic, version, checksum, length, then the model,
/// little endian.
inline Model parse_model(const std::string & bytes)
{
  using detail::Reader;
  const auto * data = reinterpret_cast<const unsigned char *>(bytes.data());
  const std::string hint = "; write it again: dynid export MODEL --to runtime";
  if (bytes.size() < 20 || std::memcmp(data, runtime_magic, sizeof runtime_magic) != 0)
  {
    throw std::runtime_error("this is no runtime model of ros2_dynid" + hint);
  }
  Reader header(data + 8, 12);
  const std::uint32_t version = header.integer(), checksum = header.integer();
  const std::size_t size = header.integer();
  if (version < 1 || version > runtime_version)
  {
    throw std::runtime_error(
      "the runtime model has version " + std::to_string(version) + ", this program reads " +
      std::to_string(runtime_version) + hint);
  }
  if (bytes.size() != 20 + size)
    throw std::runtime_error("the runtime model is cut or has bytes too many" + hint);
  if (detail::crc32(data + 20, size) != checksum)
    throw std::runtime_error("the runtime model is damaged" + hint);
  Model model;
  try
  {
    Reader in(data + 20, size);
    model.name = in.text();
    for (auto & x : model.gravity) x = in.number();
    for (auto & x : model.base) x = in.number();
    for (auto & x : model.base_position) x = in.number();
    const std::size_t n = in.count(4 * 3 + 8 * 25);
    if (n == 0) throw std::runtime_error("it has no joint");
    for (std::size_t j = 1; j <= n; ++j)
    {
      Joint joint;
      joint.name = in.text();
      joint.parent = in.integer();
      const std::uint32_t sigma = in.integer();
      if (joint.parent >= j || sigma > 1)
        throw std::runtime_error("a joint's parent or type is wrong");
      joint.prismatic = sigma == 1;
      for (double * x : {&joint.gamma, &joint.b, &joint.alpha, &joint.d, &joint.theta, &joint.r})
        *x = in.number();
      Limits & limits = joint.limits;
      for (double * x :
           {&limits.lower, &limits.upper, &limits.velocity, &limits.acceleration, &limits.effort})
      {
        *x = in.limit();
      }
      for (auto & x : joint.chi) x = in.number();
      model.joints.push_back(joint);
    }
    model.couplings.resize(in.count(36));
    for (auto & coupling : model.couplings)
    {
      coupling.motor = in.joint(n);
      coupling.independent_inertia = in.integer() != 0;
      for (double * x : {&coupling.Iam, &coupling.Fvm, &coupling.Fcm}) *x = in.number();
      coupling.weights = detail::weights(in, n);
    }
    model.passive.resize(in.count(16));
    for (auto & passive : model.passive)
    {
      passive.joint = in.joint(n);
      passive.offset = in.number();
      passive.terms = detail::weights(in, n);
    }
    if (version >= 6) model.loops = detail::loops(in, n);
    model.friction.resize(in.count(24));
    for (auto & term : model.friction)
    {
      term.joint = in.joint(n);
      const std::uint32_t kind = in.integer();
      if (kind >= friction_kinds)
        throw std::runtime_error("it has a friction term that this program does not know");
      term.kind = static_cast<FrictionKind>(kind);
      term.coefficient = in.number();
      term.speed = in.number();
    }
    if (version >= 2)
    {
      model.forces.resize(in.count(4 + 4 + 8 + 4));
      for (auto & force : model.forces)
      {
        force.has_pivots = in.integer() != 0;
        force.rest = in.number();
        if (force.has_pivots)
        {
          for (auto & pivot : force.pivots)
          {
            pivot.joint = in.integer();
            if (pivot.joint > n)
              throw std::runtime_error("it names a joint that the robot does not have");
            for (auto & x : pivot.point) x = in.number();
          }
        }
        else
        {
          force.weights = detail::weights(in, n);
        }
        const std::size_t powers = in.count(12);
        for (std::size_t k = 0; k < powers; ++k)
        {
          const std::uint32_t power = in.integer();
          if (power >= 4)
            throw std::runtime_error("it has a force that this program does not know");
          force.has[power] = true;
          force.K[power] = in.number();
        }
      }
    }
    if (version >= 3)
    {
      model.thermal.resize(in.count(4 + 4 + 16));
      for (auto & term : model.thermal)
      {
        term.joint = in.joint(n);
        term.viscous = in.integer() != 0;
        term.coefficient = in.number();
        term.reference = in.number();
      }
    }
    model.tools.resize(in.count(8 + 8 * 12));
    for (auto & tool : model.tools)
    {
      tool.link = in.text();
      tool.joint = in.joint(n);
      for (auto & x : tool.rotation) x = in.number();
      for (auto & x : tool.position) x = in.number();
    }
    detail::check_structure(model);
    model.error_bars.resize(model.active().size());
    for (auto & bar : model.error_bars)
    {
      bar.sigma = in.any_number();
      bar.torque_std = in.any_number();
    }
    if (version >= 4)
    {
      for (const std::size_t j : model.active())
      {
        AddedEffort & adds = model.joints[j - 1].adds;
        const std::uint32_t declared = in.integer();
        adds.known = (declared & added_effort_known) != 0;
        adds.fixed = (declared & added_effort_fixed) != 0;
        adds.gravity_measured = (declared & added_effort_gravity_measured) != 0;
        for (bool * x : {&adds.gravity, &adds.payload}) *x = in.integer() != 0;
        adds.friction = in.number();
        if (!(adds.friction >= 0.0 && adds.friction <= 1.0))
          throw std::runtime_error("a share of friction is not within 0 and 1");
      }
    }
    if (version >= 5)
    {
      for (auto & term : model.friction)
      {
        term.recorded_speed = in.number();
        if (!(term.recorded_speed >= 0.0))
          throw std::runtime_error("the recorded speed of a friction term is negative");
      }
    }
    if (in.left() != 0) throw std::runtime_error("it has bytes too many");
  }
  catch (const std::runtime_error & error)
  {
    throw std::runtime_error(std::string("the runtime model is wrong: ") + error.what() + hint);
  }
  return model;
}

/// Read a runtime file.
inline Model load_model(const std::string & path)
{
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw std::runtime_error(path + ": cannot be read");
  const std::string bytes(
    (std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  try
  {
    return parse_model(bytes);
  }
  catch (const std::runtime_error & error)
  {
    throw std::runtime_error(path + ": " + error.what());
  }
}

namespace detail
{

inline bool same(const std::vector<Weight> & a, const std::vector<Weight> & b)
{
  if (a.size() != b.size()) return false;
  for (const auto & x : a)
  {
    bool found = false;
    for (const auto & y : b)
      found = found || (x.joint == y.joint && std::fabs(x.value - y.value) <= 1e-6);
    if (!found) return false;
  }
  return true;
}

}  // namespace detail

/// Why two models are not of the same robot (joints, geometry, how it stands), or nothing ("") if
/// they are.
inline std::string difference(const Model & a, const Model & b)
{
  if (a.joints.size() != b.joints.size()) return "the number of joints differs";
  for (std::size_t j = 0; j < a.joints.size(); ++j)
  {
    const Joint & x = a.joints[j];
    const Joint & y = b.joints[j];
    if (x.name != y.name) return "joint " + x.name + " is called " + y.name;
    if (x.parent != y.parent || x.prismatic != y.prismatic)
      return "joint " + x.name + " is of another kind";
    const double geometry[] = {x.gamma - y.gamma, x.b - y.b,         x.alpha - y.alpha,
                               x.d - y.d,         x.theta - y.theta, x.r - y.r};
    for (const double change : geometry)
    {
      if (!(std::fabs(change) <= 1e-6)) return "joint " + x.name + " is elsewhere";
    }
  }
  for (std::size_t k = 0; k < 3; ++k)
  {
    if (!(std::fabs(a.gravity[k] - b.gravity[k]) <= 1e-6)) return "gravity differs";
    if (!(std::fabs(a.base_position[k] - b.base_position[k]) <= 1e-6))
      return "the base is elsewhere";
  }
  for (std::size_t k = 0; k < 9; ++k)
    if (!(std::fabs(a.base[k] - b.base[k]) <= 1e-6)) return "the base is turned";
  if (a.passive.size() != b.passive.size() || a.couplings.size() != b.couplings.size())
    return "the couplings differ";
  for (std::size_t k = 0; k < a.couplings.size(); ++k)
  {
    const Coupling & x = a.couplings[k];
    const Coupling & y = b.couplings[k];
    if (
      x.motor != y.motor || x.independent_inertia != y.independent_inertia ||
      !detail::same(x.weights, y.weights))
    {
      return "the couplings differ";
    }
  }
  for (std::size_t k = 0; k < a.passive.size(); ++k)
  {
    const Passive & x = a.passive[k];
    const Passive & y = b.passive[k];
    if (
      x.joint != y.joint || !(std::fabs(x.offset - y.offset) <= 1e-6) ||
      !detail::same(x.terms, y.terms))
    {
      return "a closed loop differs";
    }
  }
  const std::string elastic = "the springs, cylinders or cables differ";
  if (a.forces.size() != b.forces.size()) return elastic;
  for (std::size_t k = 0; k < a.forces.size(); ++k)
  {
    const Force & x = a.forces[k];
    const Force & y = b.forces[k];
    if (
      x.has_pivots != y.has_pivots || !(std::fabs(x.rest - y.rest) <= 1e-6) ||
      !detail::same(x.weights, y.weights))
      return elastic;
    for (std::size_t p = 0; x.has_pivots && p < 2; ++p)
    {
      if (x.pivots[p].joint != y.pivots[p].joint) return elastic;
      for (std::size_t i = 0; i < 3; ++i)
      {
        if (!(std::fabs(x.pivots[p].point[i] - y.pivots[p].point[i]) <= 1e-6)) return elastic;
      }
    }
  }
  return "";
}

/// The robot of `robot` (limits, tools) with the parameters of `estimate`, a model of the same
/// robot; throws if it is another.
inline Model with_parameters(const Model & robot, const Model & estimate)
{
  const std::string why = difference(robot, estimate);
  if (!why.empty()) throw std::runtime_error("the parameters are of another robot: " + why);
  Model model = robot;
  for (std::size_t j = 0; j < model.joints.size(); ++j)
    model.joints[j].chi = estimate.joints[j].chi;
  for (std::size_t k = 0; k < model.couplings.size(); ++k)
  {
    model.couplings[k].Iam = estimate.couplings[k].Iam;
    model.couplings[k].Fvm = estimate.couplings[k].Fvm;
    model.couplings[k].Fcm = estimate.couplings[k].Fcm;
  }
  for (std::size_t k = 0; k < model.forces.size(); ++k) model.forces[k].K = estimate.forces[k].K;
  model.friction = estimate.friction;
  model.thermal = estimate.thermal;
  for (std::size_t a = 0; a < model.error_bars.size() && a < estimate.error_bars.size(); ++a)
  {
    const ErrorBar & bar = estimate.error_bars[a];
    if (std::isfinite(bar.sigma)) model.error_bars[a].sigma = bar.sigma;
    if (std::isfinite(bar.torque_std)) model.error_bars[a].torque_std = bar.torque_std;
  }
  return model;
}

/// The model with the friction of drives at temperatures T [deg C] of the active joints, in their
/// order.
///
/// NaN: not known, as at the reference. Neither Fc nor Fv falls below zero, where the line would
/// lead far from the temperatures recorded: friction does not push. Allocates; ask it outside the
/// control loop, when a drive has become warmer.
inline Model at_temperature(const Model & model, const std::vector<double> & T)
{
  const auto active = model.active();
  if (T.size() != active.size())
  {
    throw std::runtime_error(
      std::to_string(T.size()) + " temperatures for " + std::to_string(active.size()) + " joints");
  }
  Model warm = model;
  warm.thermal.clear();
  for (const auto & term : model.thermal)
  {
    for (std::size_t a = 0; a < active.size(); ++a)
    {
      if (active[a] != term.joint || !std::isfinite(T[a])) continue;
      double & F = warm.joints[term.joint - 1].chi[term.viscous ? FV : FC];
      const double least = F < 0.0 ? F : 0.0,
                   changed = F + term.coefficient * (T[a] - term.reference);
      F = changed > least ? changed : least;
    }
  }
  return warm;
}

}  // namespace ros2_dynid
