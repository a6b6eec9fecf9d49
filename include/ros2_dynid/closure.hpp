// SPDX-License-Identifier: Apache-2.0
// Closed loops of any form: passive joints follow from pairs of points that coincide, as in
// ros2_dynid/codegen/loop_code.py.
//
// From the closed positions of the call before the joints go to those asked for in steps; at each
// pose Newton's method moves the passive joints. A step that does not close, comes near a singular
// pose or moves a passive joint far is halved, so the linkage stays on its branch of assembly. The
// number of poses is bounded. Construction allocates; the functions do not, and throw nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "ros2_dynid/model.hpp"
#include "ros2_dynid/vectors.hpp"

namespace ros2_dynid
{

class LoopClosure
{
public:
  explicit LoopClosure(const Model & model)
  : n_(model.joints.size()),
    pairs_(model.loops.pairs),
    passive_(model.loops.passive),
    follows_(n_, false),
    links_(n_),
    frames_(n_ + 1),
    unit_(n_, 1.0),
    assembly_(model.loops.assembly),
    joints_(assembly_),
    start_(n_),
    now_(n_),
    next_(n_),
    phi_(3 * pairs_.size()),
    Phi_(phi_.size() * n_),
    L_(passive_.size() * passive_.size()),
    pivots_(passive_.size()),
    x_(passive_.size())
  {
    for (const auto & pair : pairs_)
      for (const auto & pivot : pair)
        for (const double x : pivot.point) size_ = std::max(size_, std::fabs(x));
    for (const auto & joint : model.joints)
      for (const double x : {joint.b, joint.d, joint.r}) size_ = std::max(size_, std::fabs(x));
    if (size_ == 0.0) size_ = 1.0;
    for (auto & joint : passive_) follows_[--joint] = true;
    for (std::size_t j = 0; j < n_; ++j)
    {
      const Joint & joint = model.joints[j];
      Link & link = links_[j];
      link.parent = joint.parent;
      link.prismatic = joint.prismatic;
      if (joint.prismatic) unit_[j] = size_;
      const double ca = std::cos(joint.alpha), sa = std::sin(joint.alpha);
      const double cg = std::cos(joint.gamma), sg = std::sin(joint.gamma);
      link.fixed = Rotation{{cg, sg, 0.0}, {-sg * ca, cg * ca, sa}, {sg * sa, -cg * sa, ca}};
      link.theta = joint.theta;
      link.origin = link.fixed.out({joint.d, 0.0, joint.r}) + Vec{0.0, 0.0, joint.b};
    }
    close_pose(joints_);
    prepare(joints_);
  }

  /// Closed positions of all joints, those of the last call of `close` that succeeded.
  const std::vector<double> & joints() const noexcept { return joints_; }

  /// Go to positions of all joints, of which those of the loops' passive ones are not used: from
  /// the last ones, else from the assembly. False, and `joints` stay, where the loops do not close.
  bool close(const std::vector<double> & goal) noexcept
  {
    const bool reached = follow(joints_, goal) || follow(assembly_, goal);
    if (reached) joints_ = now_;
    prepare(joints_);
    return reached;
  }

  /// G = dq/dq_active of all joints at `joints`, n x n_active by rows; linear: its rows without
  /// those of the loops' passive joints, which are 0.
  void ratios(const std::vector<double> & linear, std::vector<double> & G) noexcept
  {
    const std::size_t n_active = linear.size() / n_;
    G = linear;
    for (std::size_t a = 0; a < n_active; ++a)
    {
      for (std::size_t r = 0; r < phi_.size(); ++r)
      {
        phi_[r] = 0.0;
        for (std::size_t j = 0; j < n_; ++j)
          phi_[r] -= Phi_[r * n_ + j] * linear[j * n_active + a] / unit_[j];
      }
      solve();
      for (std::size_t k = 0; k < passive_.size(); ++k)
        G[passive_[k] * n_active + a] = x_[k] * unit_[passive_[k]];
    }
  }

  /// Add dG/dt dq_active to the accelerations of all joints, for the speeds dq of all joints.
  void add_bias(const std::vector<double> & dq, std::vector<double> & ddq) noexcept
  {
    for (std::size_t j = 0; j < n_; ++j)
    {
      Frame & frame = frames_[j + 1];
      const Frame & before = frames_[links_[j].parent];
      const Vec r = frame.p - before.p, along = dq[j] * frame.R.k;
      frame.a = before.a + cross(before.dw, r) + cross(before.w, cross(before.w, r));
      frame.w = before.w;
      frame.dw = before.dw;
      if (links_[j].prismatic)
      {
        frame.a = frame.a + 2.0 * cross(before.w, along);
      }
      else
      {
        frame.w = frame.w + along;
        frame.dw = frame.dw + cross(before.w, along);
      }
    }
    for (std::size_t m = 0; m < pairs_.size(); ++m)
    {
      Vec gap;
      for (std::size_t end = 0; end < 2; ++end)
      {
        const Frame & frame = frames_[pairs_[m][end].joint];
        const Vec r = frame.R.out(point(m, end));
        const Vec a = frame.a + cross(frame.dw, r) + cross(frame.w, cross(frame.w, r));
        gap = end == 0 ? gap - a : gap + a;
      }
      put(m, (-1.0 / size_) * gap);
    }
    solve();
    for (std::size_t k = 0; k < passive_.size(); ++k)
      ddq[passive_[k]] += x_[k] * unit_[passive_[k]];
  }

private:
  static constexpr double step_ = 0.1;      ///< way of an active joint between two poses
  static constexpr double max_move_ = 0.2;  ///< of a passive one
  static constexpr int max_poses_ = 256, corrections_ = 6;
  static constexpr double closed_ = 1e-10;     ///< gap of closed loops, in lengths of the loop
  static constexpr double min_pivot_ = 1e-6;  ///< over the largest, of a pose that is not singular

  struct Link
  {
    std::size_t parent = 0;
    bool prismatic = false;
    Rotation fixed;
    double theta = 0.0;
    Vec origin;
  };
  struct Frame
  {
    Rotation R;
    Vec p, w, dw, a;
  };

  Vec point(std::size_t m, std::size_t end) const noexcept
  {
    const auto & x = pairs_[m][end].point;
    return {x[0], x[1], x[2]};
  }
  void put(std::size_t m, const Vec & v) noexcept
  {
    phi_[3 * m] = v.x, phi_[3 * m + 1] = v.y, phi_[3 * m + 2] = v.z;
  }

  /// Go from closed positions to a goal; the result is in now_.
  bool follow(const std::vector<double> & from, const std::vector<double> & goal) noexcept
  {
    start_ = from;
    now_ = from;
    double way = 0.0;
    for (std::size_t j = 0; j < n_; ++j)
    {
      if (follows_[j]) continue;
      const double length = std::fabs(goal[j] - start_[j]) / unit_[j];
      if (!(length <= max_poses_ * step_)) return false;  // too far, or not a number
      way = std::max(way, length);
    }
    const double longest = way > step_ ? step_ / way : 1.0;
    double step = longest, part = 0.0;
    for (int k = 0; k < max_poses_; ++k)
    {
      const double at = std::min(part + step, 1.0);
      for (std::size_t j = 0; j < n_; ++j)
      {
        next_[j] = follows_[j]  ? now_[j]
                   : at < 1.0 ? start_[j] + at * (goal[j] - start_[j])
                              : goal[j];
      }
      bool good = close_pose(next_);
      for (const auto j : passive_)
        good = good && std::fabs(next_[j] - now_[j]) <= max_move_ * unit_[j];
      if (!good)
      {
        step *= 0.5;
        continue;
      }
      now_ = next_;
      part = at;
      step = std::min(2.0 * step, longest);
      if (part >= 1.0) return true;
    }
    return false;
  }

  /// Move the passive joints of q until the loops close; false if they do not, or nearly singular.
  bool close_pose(std::vector<double> & q) noexcept
  {
    for (int k = 0; k <= corrections_; ++k)
    {
      if (!prepare(q)) return false;
      bool closed = true;
      for (const double x : phi_) closed = closed && std::fabs(x) <= closed_;
      solve();
      for (std::size_t i = 0; i < passive_.size(); ++i)
      {
        closed = closed && std::fabs(x_[i]) <= max_move_;
        q[passive_[i]] -= x_[i] * unit_[passive_[i]];
      }
      if (closed) return true;
    }
    return false;
  }

  /// Frames, gaps and their Jacobian at q, and the factors of its normal equations; false near a
  /// singular pose.
  bool prepare(const std::vector<double> & q) noexcept
  {
    for (std::size_t j = 0; j < n_; ++j)
    {
      const Link & link = links_[j];
      const double angle = link.prismatic ? link.theta : link.theta + q[j];
      const double c = std::cos(angle), s = std::sin(angle);
      const Rotation & A = link.fixed;
      const Rotation R{c * A.i + s * A.j, c * A.j - s * A.i, A.k};
      const Vec p = link.prismatic ? link.origin + q[j] * A.k : link.origin;
      const Frame & before = frames_[link.parent];
      frames_[j + 1].R = before.R * R;
      frames_[j + 1].p = before.p + before.R.out(p);
    }
    for (auto & x : Phi_) x = 0.0;
    for (std::size_t m = 0; m < pairs_.size(); ++m)
    {
      Vec gap;
      for (std::size_t end = 0; end < 2; ++end)
      {
        std::size_t i = pairs_[m][end].joint;
        const Vec at = frames_[i].p + frames_[i].R.out(point(m, end));
        gap = end == 0 ? gap - at : gap + at;
        for (; i; i = links_[i - 1].parent)
        {
          const Vec & axis = frames_[i].R.k;
          const Vec moved =
            links_[i - 1].prismatic ? axis : (1.0 / size_) * cross(axis, at - frames_[i].p);
          const double sign = end == 0 ? -1.0 : 1.0;
          Phi_[(3 * m) * n_ + i - 1] += sign * moved.x;
          Phi_[(3 * m + 1) * n_ + i - 1] += sign * moved.y;
          Phi_[(3 * m + 2) * n_ + i - 1] += sign * moved.z;
        }
      }
      put(m, (1.0 / size_) * gap);
    }
    return factorise();
  }

  /// Phi_p^T Phi_p = L D L^T.
  bool factorise() noexcept
  {
    const std::size_t P = passive_.size();
    double least = 0.0, most = 0.0;
    for (std::size_t i = 0; i < P; ++i)
    {
      for (std::size_t k = 0; k <= i; ++k)
      {
        double rest = 0.0;
        for (std::size_t r = 0; r < phi_.size(); ++r)
          rest += Phi_[r * n_ + passive_[i]] * Phi_[r * n_ + passive_[k]];
        for (std::size_t m = 0; m < k; ++m) rest -= L_[i * P + m] * L_[k * P + m] * pivots_[m];
        if (k < i)
          L_[i * P + k] = rest / pivots_[k];
        else
          pivots_[i] = rest;
      }
      least = i == 0 ? pivots_[i] : std::min(least, pivots_[i]);
      most = std::max(most, pivots_[i]);
      if (!std::isfinite(pivots_[i])) return false;
    }
    return least > min_pivot_ * most;
  }

  /// x_ with Phi_p x = phi_, by least squares.
  void solve() noexcept
  {
    const std::size_t P = passive_.size();
    for (std::size_t i = 0; i < P; ++i)
    {
      x_[i] = 0.0;
      for (std::size_t r = 0; r < phi_.size(); ++r) x_[i] += Phi_[r * n_ + passive_[i]] * phi_[r];
      for (std::size_t k = 0; k < i; ++k) x_[i] -= L_[i * P + k] * x_[k];
    }
    for (std::size_t i = 0; i < P; ++i) x_[i] /= pivots_[i];
    for (std::size_t i = P; i-- > 0;)
      for (std::size_t k = i + 1; k < P; ++k) x_[i] -= L_[k * P + i] * x_[k];
  }

  std::size_t n_;
  std::vector<std::array<Pivot, 2>> pairs_;
  std::vector<std::size_t> passive_;  ///< from 0
  std::vector<bool> follows_;
  std::vector<Link> links_;
  std::vector<Frame> frames_;  ///< frames 0 to n in frame 0
  std::vector<double> unit_, assembly_, joints_, start_, now_, next_, phi_, Phi_, L_, pivots_, x_;
  double size_ = 0.0;
};

}  // namespace ros2_dynid
