// SPDX-License-Identifier: Apache-2.0
// Dynamics of an identified model: tau = M(q) ddq + C(q, dq) + Q(q) + friction, in modified DH
// frames.
//
// Construction allocates the memory of one robot; the functions allocate nothing, throw nothing and
// lock nothing. With closed loops a call follows them from the positions of the one before, in bounded
// time; where they do not close, all results are NaN. All arrays are of the active joints, in the order of Model::active_names();
// matrices are stored row by row. Inputs are not checked: a number that is not finite gives torques
// that are not. One object must not be used by two threads at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "ros2_dynid/closure.hpp"
#include "ros2_dynid/model.hpp"
#include "ros2_dynid/vectors.hpp"

namespace ros2_dynid
{

/// A link's ten parameters: inertia J about the frame's origin, first moment m, mass M.
struct LinkInertia
{
  double XX = 0.0, XY = 0.0, XZ = 0.0, YY = 0.0, YZ = 0.0, ZZ = 0.0;
  Vec m;
  double M = 0.0;
  Vec times(const Vec & w) const
  {
    return {
      XX * w.x + XY * w.y + XZ * w.z, XY * w.x + YY * w.y + YZ * w.z,
      XZ * w.x + YZ * w.y + ZZ * w.z};
  }
};

/// A load fixed to the frame of joint `joint` (from 1): mass [kg], centre [m], inertia about it XX
/// XY XZ YY YZ ZZ [kg.m^2].
struct Load
{
  std::size_t joint = 0;
  double mass = 0.0;
  Vec centre;
  std::array<double, 6> inertia{};
};

/// Whether a body can have this mass and inertia, up to rounding; a load of no mass takes a load
/// off.
inline bool load_exists(const Load & load) noexcept
{
  const auto & I = load.inertia;
  double size = std::fabs(I[0]) + std::fabs(I[3]) + std::fabs(I[5]);
  for (const double x : I)
    if (!std::isfinite(x)) return false;
  if (!std::isfinite(load.mass) || load.mass < 0.0) return false;
  if (
    !std::isfinite(load.centre.x) || !std::isfinite(load.centre.y) || !std::isfinite(load.centre.z))
    return false;
  if (load.mass == 0.0) return size == 0.0;
  if (size > 3.0 * 10.0 * 10.0 * load.mass)
    return false;  // a radius of gyration above 10 m is a mistake of units
  // the second moments S = tr(I)/2 - I are those of a density >= 0 if all their principal minors
  // are not negative
  const double t = 0.5 * (I[0] + I[3] + I[5]), slack = 1e-9 * size;
  const double a = t - I[0], b = -I[1], c = -I[2], d = t - I[3], e = -I[4], f = t - I[5];
  const double det = a * (d * f - e * e) - b * (b * f - c * e) + c * (b * e - c * d);
  return a >= -slack && d >= -slack && f >= -slack && a * d - b * b >= -slack * size &&
         a * f - c * c >= -slack * size && d * f - e * e >= -slack * size &&
         det >= -slack * size * size;
}

class Dynamics
{
public:
  explicit Dynamics(const Model & model)
  : n_(model.joints.size()),
    links_(n_),
    active_(model.active()),
    n_active_(active_.size()),
    couplings_(model.couplings),
    forces_(model.forces),
    world_(model.forces.empty() ? 0 : n_ + 1),
    slope_(n_),
    q_(n_),
    dq_(n_),
    ddq_(n_),
    tau_(n_),
    rigid_(n_active_),
    chi_(n_)
  {
    const auto & B = model.base;
    base_ = Rotation{{B[0], B[3], B[6]}, {B[1], B[4], B[7]}, {B[2], B[5], B[8]}};
    base_position_ = {model.base_position[0], model.base_position[1], model.base_position[2]};
    gravity_ = base_.in({model.gravity[0], model.gravity[1], model.gravity[2]});
    for (std::size_t j = 0; j < n_; ++j)
    {
      const Joint & joint = model.joints[j];
      Link & link = links_[j];
      link.parent = joint.parent;
      link.prismatic = joint.prismatic;
      const double ca = std::cos(joint.alpha), sa = std::sin(joint.alpha);
      const double cg = std::cos(joint.gamma), sg = std::sin(joint.gamma);
      link.fixed = Rotation{{cg, sg, 0.0}, {-sg * ca, cg * ca, sa}, {sg * sa, -cg * sa, ca}};
      link.theta = joint.theta;
      link.origin = link.fixed.out({joint.d, 0.0, joint.r}) + Vec{0.0, 0.0, joint.b};
    }
    if (!model.passive.empty())
    {  // q = G q_a + offset
      G_.assign(n_ * n_active_, 0.0);
      offset_.assign(n_, 0.0);
      for (std::size_t a = 0; a < n_active_; ++a) G_[(active_[a] - 1) * n_active_ + a] = 1.0;
      for (const auto & passive : model.passive)
      {
        offset_[passive.joint - 1] = passive.offset;
        for (const auto & term : passive.terms)
          G_[(passive.joint - 1) * n_active_ + place(term.joint)] = term.value;
      }
    }
    if (!model.loops.passive.empty())
    {
      if (G_.empty())
      {
        G_.assign(n_ * n_active_, 0.0);
        offset_.assign(n_, 0.0);
        for (std::size_t a = 0; a < n_active_; ++a) G_[(active_[a] - 1) * n_active_ + a] = 1.0;
      }
      linear_ = G_;
      closure_.emplace(model);
      closure_->ratios(linear_, G_);
    }
    terms_.reserve(std::max<std::size_t>(friction_kinds * n_active_, model.friction.size()));
    set_parameters(model);
  }

  std::size_t joints() const noexcept { return n_active_; }

  /// Take the parameters of a model of the same robot: no allocation. False, and nothing changes,
  /// if it does not fit.
  bool set_parameters(const Model & model) noexcept
  {
    if (model.joints.size() != n_ || model.couplings.size() != couplings_.size()) return false;
    if (model.forces.size() != forces_.size()) return false;
    if (model.friction.size() > terms_.capacity()) return false;
    for (std::size_t j = 0; j < n_; ++j) chi_[j] = model.joints[j].chi;
    for (std::size_t k = 0; k < couplings_.size(); ++k)
    {
      couplings_[k].Iam = model.couplings[k].Iam;
      couplings_[k].Fvm = model.couplings[k].Fvm;
      couplings_[k].Fcm = model.couplings[k].Fcm;
    }
    for (std::size_t k = 0; k < forces_.size(); ++k) forces_[k].K = model.forces[k].K;
    terms_.resize(model.friction.size());
    for (std::size_t k = 0; k < terms_.size(); ++k)
    {
      terms_[k] = model.friction[k];
      terms_[k].joint = place(model.friction[k].joint);
    }
    put_links();
    return true;
  }

  /// Carry this load; mass 0 takes it off. False, and nothing changes, for a load that no body can
  /// have.
  bool set_payload(const Load & load) noexcept
  {
    if (!load_exists(load) || (load.mass > 0.0 && (load.joint < 1 || load.joint > n_)))
      return false;
    load_ = load;
    put_links();
    return true;
  }

  /// Coulomb friction changes sign over this speed [rad/s or m/s] as tanh(v / smoothing); 0
  /// (default): as sign(v).
  void set_smoothing(double smoothing) noexcept { smoothing_ = smoothing > 0.0 ? smoothing : 0.0; }

  /// tau = M ddq + C + Q + friction: what `dynid torque` gives.
  void inverse_dynamics(
    const double * q, const double * dq, const double * ddq, double * tau) noexcept
  {
    rigid(q, dq, ddq, rigid_.data());
    friction(dq, rigid_.data(), tau);
    for (std::size_t a = 0; a < n_active_; ++a) tau[a] += rigid_[a];
  }

  /// M ddq + C + Q, links, rotors and couplings: the torque that the gears carry, without friction.
  void rigid(const double * q, const double * dq, const double * ddq, double * tau) noexcept
  {
    positions(q);
    expand(dq, dq_.data());
    accelerate(ddq);
    recursion(gravity_);
    add_elastic();
    add_rotors(ddq_.data());
    reduce(tau);
  }

  /// C(q, dq): centrifugal and Coriolis torques.
  void velocity_torque(const double * q, const double * dq, double * tau) noexcept
  {
    positions(q);
    expand(dq, dq_.data());
    accelerate(nullptr);
    recursion(Vec{});
    if (closure_) add_rotors(ddq_.data());
    reduce(tau);
  }

  /// Q(q): what holds the robot still, springs included, without friction and offset; or that of
  /// the robot without its payload.
  void gravity(const double * q, double * tau, bool laden = true) noexcept
  {
    positions(q);
    weigh(laden);
    reduce(tau);
  }

  /// M(q), n x n by rows, rotors and couplings included, by composite links.
  void inertia(const double * q, double * matrix) noexcept
  {
    positions(q);
    for (auto & link : links_) link.composite = link.own;
    for (std::size_t j = n_; j-- > 0;)
    {
      if (links_[j].parent) add_moved(links_[j], links_[links_[j].parent - 1].composite);
    }
    for (std::size_t k = 0; k < n_active_ * n_active_; ++k) matrix[k] = 0.0;
    for (std::size_t j = 0; j < n_; ++j)
    {
      const Link & link = links_[j];
      const LinkInertia & c = link.composite;
      Vec f, n;  // of a unit acceleration of joint j, in frame j
      if (link.prismatic)
      {
        f = {0.0, 0.0, c.M};
        n = {c.m.y, -c.m.x, 0.0};
      }
      else
      {
        f = {-c.m.y, c.m.x, 0.0};
        n = {c.XZ, c.YZ, c.ZZ};
      }
      add_inertia(j, j, (link.prismatic ? f.z : n.z) + chi_[j][IA], matrix);
      std::size_t i = j;
      while (links_[i].parent)
      {
        const Link & at = links_[i];
        f = at.R.out(f);
        n = at.R.out(n) + cross(at.p, f);
        i = at.parent - 1;
        const double value = links_[i].prismatic ? f.z : n.z;
        add_inertia(i, j, value, matrix);
        add_inertia(j, i, value, matrix);
      }
    }
    for (const auto & coupling : couplings_)
    {
      const double inertia = coupled_inertia(coupling);
      for (const auto & a : coupling.weights)
      {
        for (const auto & b : coupling.weights)
        {
          if (a.joint != b.joint)
            add_inertia(a.joint - 1, b.joint - 1, inertia * a.value * b.value, matrix);
        }
      }
    }
  }

  /// Momentum p = M dq, and beta = C^T dq - Q with C + C^T = dM/dt, so that dp/dt = beta + carried
  /// + external torque.
  ///
  /// C^T dq is the gradient of the kinetic energy: with H the momentum of all that joint k carries,
  /// about its origin, and (w, v) the motion of its frame, dT/dq_k = H . ((w, v) x axis). NaN with
  /// closed loops: G changes with q there.
  void momentum(const double * q, const double * dq, double * p, double * beta) noexcept
  {
    if (closure_)
    {
      for (std::size_t a = 0; a < n_active_; ++a) p[a] = beta[a] = not_known;
      return;
    }
    positions(q);
    expand(dq, dq_.data());
    for (std::size_t j = 0; j < n_; ++j)
    {
      Link & link = links_[j];
      if (link.parent)
      {
        const Link & before = links_[link.parent - 1];
        link.w = link.R.in(before.w);
        link.v = link.R.in(before.v + cross(before.w, link.p));
      }
      else
      {
        link.w = link.v = Vec{};
      }
      (link.prismatic ? link.v.z : link.w.z) += dq_[j];
      link.f = link.own.M * link.v + cross(link.w, link.own.m);
      link.n = link.own.times(link.w) + cross(link.own.m, link.v);
    }
    for (std::size_t j = n_; j-- > 0;)
    {
      Link & link = links_[j];
      if (link.prismatic)
      {
        tau_[j] = link.f.z;
        ddq_[j] = link.f.x * link.w.y - link.f.y * link.w.x;
      }
      else
      {
        tau_[j] = link.n.z;
        ddq_[j] =
          link.n.x * link.w.y - link.n.y * link.w.x + link.f.x * link.v.y - link.f.y * link.v.x;
      }
      carry(link);
    }
    add_rotors(dq_.data());
    reduce(p);
    weigh();
    for (std::size_t j = 0; j < n_; ++j) tau_[j] = ddq_[j] - tau_[j];
    reduce(beta);
  }

  /// Friction and offset of all laws; carried: torque of links and rotors, which load-dependent
  /// terms need.
  void friction(const double * dq, const double * carried, double * tau) noexcept
  {
    plain_friction(dq, tau);
    for (const auto & term : terms_)
    {
      tau[term.joint] += term_torque(term, dq[term.joint], std::fabs(carried[term.joint]));
    }
  }

  /// The torque that the gears carry when the motors give `motor`: friction solved for it, without
  /// accelerations.
  ///
  /// motor = carried + k |carried| + f(dq), k = Fl sign(v) + Flv v. k is kept below 1, where a gear
  /// would lock itself.
  void carried(const double * dq, const double * motor, double * out) noexcept
  {
    plain_friction(dq, out);
    for (std::size_t a = 0; a < n_active_; ++a) rigid_[a] = 0.0;  // k of each joint
    for (const auto & term : terms_)
    {
      const double v = dq[term.joint], unloaded = term_torque(term, v, 0.0);
      out[term.joint] += unloaded;
      rigid_[term.joint] += term_torque(term, v, 1.0) - unloaded;
    }
    for (std::size_t a = 0; a < n_active_; ++a)
    {
      const double y = motor[a] - out[a];
      const double k = rigid_[a] < -largest_share  ? -largest_share
                       : rigid_[a] > largest_share ? largest_share
                                                   : rigid_[a];
      out[a] = y >= 0.0 ? y / (1.0 + k) : y / (1.0 - k);
    }
  }

  /// Friction whose sign is in doubt near standstill: Fc, Fs and Fl |carried| times 1 - |tanh(v /
  /// speed)|, at each joint.
  void undecided_friction(
    const double * dq, const double * carried, double speed, double * out) noexcept
  {
    expand(dq, dq_.data());
    for (std::size_t j = 0; j < n_; ++j)
      tau_[j] = std::fabs(chi_[j][FC]) * undecided(dq_[j], speed);
    for (const auto & coupling : couplings_)
    {
      double v = 0.0;
      for (const auto & weight : coupling.weights) v += weight.value * dq_[weight.joint - 1];
      for (const auto & weight : coupling.weights)
      {
        tau_[weight.joint - 1] += std::fabs(coupling.Fcm * weight.value) * undecided(v, speed);
      }
    }
    for (std::size_t a = 0; a < n_active_; ++a)
    {
      out[a] = 0.0;
      for (std::size_t j = 0; j < n_; ++j)
        out[a] += (G_.empty() ? (j == a ? 1.0 : 0.0) : std::fabs(G_[j * n_active_ + a])) * tau_[j];
    }
    for (const auto & term : terms_)
    {
      const double at_rest =
        friction_column(term.kind, 0.0, 1.0, std::fabs(carried[term.joint]), term.speed);
      out[term.joint] += std::fabs(term.coefficient * at_rest) * undecided(dq[term.joint], speed);
    }
  }

  /// Jacobian of a tool, 6 x n by rows: linear and angular velocity of its origin in the tool's own
  /// frame.
  void jacobian(const double * q, const Tool & tool, double * J) noexcept
  {
    positions(q);
    for (std::size_t k = 0; k < 6 * n_active_; ++k) J[k] = 0.0;
    const auto & T = tool.rotation;
    Rotation R{
      {T[0], T[3], T[6]},
      {T[1], T[4], T[7]},
      {T[2], T[5], T[8]}};  // of the tool in the frame of joint i
    Vec at{tool.position[0], tool.position[1], tool.position[2]};
    for (std::size_t i = tool.joint; i; i = links_[i - 1].parent)
    {
      const Link & link = links_[i - 1];
      const Vec axis{0.0, 0.0, 1.0};
      const Vec linear = R.in(link.prismatic ? axis : cross(axis, at));
      const Vec angular = link.prismatic ? Vec{} : R.in(axis);
      const double column[6] = {linear.x, linear.y, linear.z, angular.x, angular.y, angular.z};
      for (std::size_t a = 0; a < n_active_; ++a)
      {
        const double g = G_.empty() ? (a == i - 1 ? 1.0 : 0.0) : G_[(i - 1) * n_active_ + a];
        for (std::size_t row = 0; row < 6; ++row) J[row * n_active_ + a] += g * column[row];
      }
      at = link.p + link.R.out(at);
      R = link.R * R;
    }
  }

  /// Motion of a tool, in its own frame: angular velocity and acceleration, and the acceleration of
  /// its origin less gravity.
  void motion(
    const double * q, const double * dq, const double * ddq, const Tool & tool, Vec & w, Vec & dw,
    Vec & a) noexcept
  {
    positions(q);
    expand(dq, dq_.data());
    accelerate(ddq);
    recursion(gravity_);
    const auto & T = tool.rotation;
    const Rotation R{{T[0], T[3], T[6]}, {T[1], T[4], T[7]}, {T[2], T[5], T[8]}};
    const Vec at{tool.position[0], tool.position[1], tool.position[2]};
    w = dw = Vec{};
    a = R.in(-1.0 * gravity_);
    if (tool.joint == 0) return;
    const Link & link = links_[tool.joint - 1];
    w = R.in(link.w);
    dw = R.in(link.dw);
    a = R.in(link.a + cross(link.dw, at) + cross(link.w, cross(link.w, at)));
  }

  /// Pose of a tool in the base link's frame: rotation by rows, and position [m].
  void pose(
    const double * q, const Tool & tool, std::array<double, 9> & rotation,
    std::array<double, 3> & position) noexcept
  {
    positions(q);
    const auto & T = tool.rotation;
    Rotation R{{T[0], T[3], T[6]}, {T[1], T[4], T[7]}, {T[2], T[5], T[8]}};
    Vec at{tool.position[0], tool.position[1], tool.position[2]};
    for (std::size_t i = tool.joint; i; i = links_[i - 1].parent)
    {
      at = links_[i - 1].p + links_[i - 1].R.out(at);
      R = links_[i - 1].R * R;
    }
    at = base_position_ + base_.out(at);
    R = base_ * R;
    rotation = {R.i.x, R.j.x, R.k.x, R.i.y, R.j.y, R.k.y, R.i.z, R.j.z, R.k.z};
    position = {at.x, at.y, at.z};
  }

private:
  struct Link
  {
    std::size_t parent = 0;
    bool prismatic = false;
    Rotation fixed;  ///< Rot(z,gamma) Rot(x,alpha)
    double theta = 0.0;
    Vec origin;  ///< position of the frame in its antecedent's at q = 0
    LinkInertia own, composite;
    Rotation R;
    Vec p;
    Vec w, dw, a, v, f, n;
  };
  static constexpr double largest_share = 0.95;
  static constexpr double not_known = std::numeric_limits<double>::quiet_NaN();

  std::size_t place(std::size_t joint) const noexcept
  {
    for (std::size_t a = 0; a < n_active_; ++a)
      if (active_[a] == joint) return a;
    return 0;
  }
  double sign(double v) const noexcept
  {
    if (smoothing_ > 0.0) return std::tanh(v / smoothing_);
    return v > 0.0 ? 1.0 : v < 0.0 ? -1.0 : 0.0;
  }
  static double undecided(double v, double speed) noexcept
  {
    return speed > 0.0 ? 1.0 - std::fabs(std::tanh(v / speed)) : v == 0.0 ? 1.0 : 0.0;
  }
  double term_torque(const FrictionTerm & term, double v, double load) const noexcept
  {
    const double held = term.recorded_speed > 0.0
                          ? std::clamp(v, -term.recorded_speed, term.recorded_speed)
                          : v;
    return term.coefficient * friction_column(term.kind, held, sign(v), load, term.speed);
  }
  double coupled_inertia(const Coupling & coupling) const noexcept
  {
    return coupling.independent_inertia ? coupling.Iam : chi_[coupling.motor - 1][IA];
  }

  void put_links() noexcept
  {
    for (std::size_t j = 0; j < n_; ++j)
    {
      const auto & c = chi_[j];
      links_[j].own = {c[XX], c[XY], c[XZ], c[YY], c[YZ], c[ZZ], {c[MX], c[MY], c[MZ]}, c[M]};
    }
    if (load_.mass > 0.0)
    {  // J = I + m (c.c 1 - c c^T)
      LinkInertia & own = links_[load_.joint - 1].own;
      const Vec & c = load_.centre;
      const double m = load_.mass;
      own.XX += load_.inertia[0] + m * (c.y * c.y + c.z * c.z);
      own.XY += load_.inertia[1] - m * c.x * c.y;
      own.XZ += load_.inertia[2] - m * c.x * c.z;
      own.YY += load_.inertia[3] + m * (c.x * c.x + c.z * c.z);
      own.YZ += load_.inertia[4] - m * c.y * c.z;
      own.ZZ += load_.inertia[5] + m * (c.x * c.x + c.y * c.y);
      own.m = own.m + m * c;
      own.M += m;
    }
  }

  /// Values of all joints from those of the active ones.
  void expand(const double * active, double * all) const noexcept
  {
    if (G_.empty())
    {
      for (std::size_t j = 0; j < n_; ++j) all[j] = active[j];
      return;
    }
    for (std::size_t j = 0; j < n_; ++j)
    {
      all[j] = 0.0;
      for (std::size_t a = 0; a < n_active_; ++a) all[j] += G_[j * n_active_ + a] * active[a];
    }
  }

  /// G^T tau_: torques felt at the active joints.
  void reduce(double * out) const noexcept
  {
    if (G_.empty())
    {
      for (std::size_t j = 0; j < n_; ++j) out[j] = tau_[j];
      return;
    }
    for (std::size_t a = 0; a < n_active_; ++a)
    {
      out[a] = 0.0;
      for (std::size_t j = 0; j < n_; ++j) out[a] += G_[j * n_active_ + a] * tau_[j];
    }
  }

  /// Accelerations of all joints at dq_, from those of the active ones; nullptr: zero.
  void accelerate(const double * active) noexcept
  {
    if (active)
      expand(active, ddq_.data());
    else
      for (auto & x : ddq_) x = 0.0;
    if (closure_) closure_->add_bias(dq_, ddq_);
  }

  /// Positions of all joints, less offset_; with closed loops the whole positions, and G there.
  void close_loops(const double * q) noexcept
  {
    for (std::size_t j = 0; j < n_; ++j)
    {
      q_[j] = offset_[j];
      for (std::size_t a = 0; a < n_active_; ++a) q_[j] += linear_[j * n_active_ + a] * q[a];
    }
    if (closure_->close(q_))
    {
      q_ = closure_->joints();
      closure_->ratios(linear_, G_);
      for (std::size_t j = 0; j < n_; ++j) q_[j] -= offset_[j];
      return;
    }
    for (auto & x : q_) x = not_known;
    for (auto & x : G_) x = not_known;
  }

  void positions(const double * q) noexcept
  {
    if (closure_)
      close_loops(q);
    else
      expand(q, q_.data());
    for (std::size_t j = 0; j < n_; ++j)
    {
      Link & link = links_[j];
      const double x = G_.empty() ? q_[j] : q_[j] + offset_[j];
      const double angle = link.prismatic ? link.theta : link.theta + x;
      const double c = std::cos(angle), s = std::sin(angle);
      const Rotation & A = link.fixed;
      link.R = {c * A.i + s * A.j, c * A.j - s * A.i, A.k};
      link.p = link.prismatic ? link.origin + x * A.k : link.origin;
    }
  }

  /// Force and moment of a link, about its origin, to the link before.
  void carry(const Link & link) noexcept
  {
    if (!link.parent) return;
    Link & before = links_[link.parent - 1];
    const Vec f = link.R.out(link.f);
    before.f = before.f + f;
    before.n = before.n + link.R.out(link.n) + cross(link.p, f);
  }

  /// Newton-Euler recursion for q, dq, ddq of all joints: tau_ of the links.
  void recursion(const Vec & gravity) noexcept
  {
    for (std::size_t j = 0; j < n_; ++j)
    {
      Link & link = links_[j];
      const double dq = dq_[j], ddq = ddq_[j];
      if (link.parent)
      {
        const Link & before = links_[link.parent - 1];
        link.w = link.R.in(before.w);
        link.dw = link.R.in(before.dw);
        link.a =
          link.R.in(before.a + cross(before.dw, link.p) + cross(before.w, cross(before.w, link.p)));
      }
      else
      {
        link.w = link.dw = Vec{};
        link.a = link.R.in(-1.0 * gravity);
      }
      if (link.prismatic)
      {
        link.a.x += 2.0 * link.w.y * dq;
        link.a.y -= 2.0 * link.w.x * dq;
        link.a.z += ddq;
      }
      else
      {
        link.dw.x += link.w.y * dq;
        link.dw.y -= link.w.x * dq;
        link.dw.z += ddq;
        link.w.z += dq;
      }
      const LinkInertia & own = link.own;
      link.f = own.M * link.a + cross(link.dw, own.m) + cross(link.w, cross(link.w, own.m));
      link.n = own.times(link.dw) + cross(link.w, own.times(link.w)) + cross(own.m, link.a);
    }
    for (std::size_t j = n_; j-- > 0;)
    {
      tau_[j] = links_[j].prismatic ? links_[j].f.z : links_[j].n.z;
      carry(links_[j]);
    }
  }

  /// Weights alone: tau_ against gravity.
  void weigh(bool laden = true) noexcept
  {
    for (auto & link : links_)
    {
      link.a = link.R.in(link.parent ? links_[link.parent - 1].a : -1.0 * gravity_);
      link.f = link.own.M * link.a;
      link.n = cross(link.own.m, link.a);
    }
    if (!laden && load_.mass > 0.0)
    {
      Link & link = links_[load_.joint - 1];
      link.f = link.f - load_.mass * link.a;
      link.n = link.n - cross(load_.mass * load_.centre, link.a);
    }
    for (std::size_t j = n_; j-- > 0;)
    {
      tau_[j] = links_[j].prismatic ? links_[j].f.z : links_[j].n.z;
      carry(links_[j]);
    }
    add_elastic();
  }

  /// Springs, cylinders and cables, at the positions of all joints: added to tau_.
  void add_elastic() noexcept
  {
    if (forces_.empty()) return;
    for (std::size_t j = 0; j < n_; ++j)
    {  // frame j + 1 in frame 0
      const Frame & before = world_[links_[j].parent];
      world_[j + 1] = {before.R * links_[j].R, before.p + before.R.out(links_[j].p)};
    }
    for (const auto & force : forces_)
    {
      for (auto & x : slope_) x = 0.0;
      double x = 0.0;
      if (force.has_pivots)
      {
        std::array<Vec, 2> at;
        for (std::size_t k = 0; k < 2; ++k)
        {
          const auto & pivot = force.pivots[k];
          at[k] = world_[pivot.joint].p +
                  world_[pivot.joint].R.out({pivot.point[0], pivot.point[1], pivot.point[2]});
        }
        const Vec span = at[1] - at[0];
        x = std::sqrt(dot(span, span));
        if (!(x > 0.0)) continue;
        const Vec u = (1.0 / x) * span;
        for (std::size_t k = 0; k < 2; ++k)
        {
          for (std::size_t i = force.pivots[k].joint; i; i = links_[i - 1].parent)
          {
            const Vec & axis = world_[i].R.k;
            const double moved =
              links_[i - 1].prismatic ? dot(u, axis) : dot(u, cross(axis, at[k] - world_[i].p));
            slope_[i - 1] += k == 0 ? -moved : moved;
          }
        }
      }
      else
      {
        for (const auto & weight : force.weights)
        {
          const std::size_t j = weight.joint - 1;
          slope_[j] += weight.value;
          x += weight.value * (G_.empty() ? q_[j] : q_[j] + offset_[j]);
        }
      }
      const double s = x - force.rest,
                   F = force.K[0] + s * (force.K[1] + s * (force.K[2] + s * force.K[3]));
      for (std::size_t j = 0; j < n_; ++j) tau_[j] += slope_[j] * F;
    }
  }

  /// Rotors and couplings: their inertia times x (accelerations, or speeds for the momentum), added
  /// to tau_.
  void add_rotors(const double * x) noexcept
  {
    for (std::size_t j = 0; j < n_; ++j) tau_[j] += chi_[j][IA] * x[j];
    for (const auto & coupling : couplings_)
    {
      const double inertia = coupled_inertia(coupling);
      double total = 0.0;
      for (const auto & weight : coupling.weights) total += weight.value * x[weight.joint - 1];
      for (const auto & weight : coupling.weights)
      {
        tau_[weight.joint - 1] +=
          inertia * weight.value * (total - weight.value * x[weight.joint - 1]);
      }
    }
  }

  /// Fv dq + Fc sign(dq) + off of joints and coupled motors, at the active joints.
  void plain_friction(const double * dq, double * tau) noexcept
  {
    expand(dq, dq_.data());
    for (std::size_t j = 0; j < n_; ++j)
      tau_[j] = chi_[j][FV] * dq_[j] + chi_[j][FC] * sign(dq_[j]) + chi_[j][OFF];
    for (const auto & coupling : couplings_)
    {
      double speed = 0.0;
      for (const auto & weight : coupling.weights) speed += weight.value * dq_[weight.joint - 1];
      for (const auto & weight : coupling.weights)
      {
        const double c = weight.value;
        tau_[weight.joint - 1] +=
          c * (coupling.Fvm * (speed - c * dq_[weight.joint - 1]) + coupling.Fcm * sign(speed));
      }
    }
    reduce(tau);
  }

  void add_inertia(std::size_t i, std::size_t j, double value, double * matrix) const noexcept
  {
    if (G_.empty())
    {
      matrix[i * n_active_ + j] += value;
      return;
    }
    for (std::size_t a = 0; a < n_active_; ++a)
    {
      const double left = G_[i * n_active_ + a] * value;
      if (left == 0.0) continue;
      for (std::size_t b = 0; b < n_active_; ++b)
        matrix[a * n_active_ + b] += left * G_[j * n_active_ + b];
    }
  }

  /// Add a link's composite body, seen from its antecedent's frame, to the antecedent's.
  static void add_moved(const Link & link, LinkInertia & into) noexcept
  {
    const LinkInertia & c = link.composite;
    const Rotation & R = link.R;
    const Vec s = R.out(c.m), &t = link.p;
    // R J R^T by its columns
    const Vec Ji{c.XX, c.XY, c.XZ}, Jj{c.XY, c.YY, c.YZ}, Jk{c.XZ, c.YZ, c.ZZ};
    const Vec a = R.out(Ji), b = R.out(Jj), d = R.out(Jk);  // R J, columns
    const double st = 2.0 * dot(s, t) + c.M * dot(t, t);
    into.XX += a.x * R.i.x + b.x * R.j.x + d.x * R.k.x + st - 2.0 * s.x * t.x - c.M * t.x * t.x;
    into.XY += a.x * R.i.y + b.x * R.j.y + d.x * R.k.y - s.x * t.y - t.x * s.y - c.M * t.x * t.y;
    into.XZ += a.x * R.i.z + b.x * R.j.z + d.x * R.k.z - s.x * t.z - t.x * s.z - c.M * t.x * t.z;
    into.YY += a.y * R.i.y + b.y * R.j.y + d.y * R.k.y + st - 2.0 * s.y * t.y - c.M * t.y * t.y;
    into.YZ += a.y * R.i.z + b.y * R.j.z + d.y * R.k.z - s.y * t.z - t.y * s.z - c.M * t.y * t.z;
    into.ZZ += a.z * R.i.z + b.z * R.j.z + d.z * R.k.z + st - 2.0 * s.z * t.z - c.M * t.z * t.z;
    into.m = into.m + s + c.M * t;
    into.M += c.M;
  }

  std::size_t n_;
  std::vector<Link> links_;
  std::vector<std::size_t> active_;
  std::size_t n_active_;
  std::vector<Coupling> couplings_;
  std::vector<Force> forces_;
  struct Frame
  {
    Rotation R;
    Vec p;
  };
  std::vector<Frame> world_;  ///< frames 0 to n in frame 0; empty without forces
  std::vector<double> slope_;
  std::vector<FrictionTerm> terms_;
  std::vector<double> q_, dq_, ddq_, tau_, rigid_;
  std::vector<std::array<double, PER_JOINT>> chi_;
  std::vector<double> G_, offset_;  ///< empty without passive joints
  std::vector<double> linear_;      ///< G without the loops' passive joints; empty without loops
  std::optional<LoopClosure> closure_;
  Rotation base_;
  Vec base_position_, gravity_;
  Load load_;
  double smoothing_ = 0.0;
};

}  // namespace ros2_dynid
