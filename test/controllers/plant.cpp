// SPDX-License-Identifier: Apache-2.0
#include "plant.hpp"

#include <mujoco/mujoco.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <stdexcept>

namespace
{
constexpr double resolution = 2.0 * 3.141592653589793 / (1 << 22), filter_hz = 150.0, period = 1e-3;
}

Plant::~Plant()
{
  if (data_) mj_deleteData(data_);
  if (model_) mj_deleteModel(model_);
}

void Plant::build(const std::string & mjcf, const std::string & friction)
{
  char error[500] = "";
  model_ = mj_loadXML(mjcf.c_str(), nullptr, error, sizeof error);
  if (!model_) throw std::runtime_error(error);
  data_ = mj_makeData(model_);
  const std::size_t n = static_cast<std::size_t>(model_->nv);
  std::ifstream text(friction);
  double start;
  for (double Fv, Fc, off, v0; text >> Fv >> Fc >> off >> v0 >> start;)
  {
    data_->qpos[Fv_.size()] = start;
    Fv_.push_back(Fv), Fc_.push_back(Fc), off_.push_back(off), v0_.push_back(v0);
  }
  if (Fv_.size() != n) throw std::runtime_error("friction of another robot");
  for (auto * list : {&dq, &effort, &command, &push}) list->assign(n, 0.0);
  q = position();
  measure();
  dq.assign(n, 0.0);
}

std::vector<double> Plant::position() const
{
  return std::vector<double>(data_->qpos, data_->qpos + model_->nq);
}

void Plant::step()
{
  if (brakes)
  {
    for (int j = 0; j < model_->nv; ++j) data_->qvel[j] = 0.0;
  }
  for (long k = brakes ? 0 : std::lround(period / model_->opt.timestep); k > 0; --k)
  {
    for (int j = 0; j < model_->nv; ++j)
    {
      const double v = data_->qvel[j];
      data_->qfrc_applied[j] =
        command[j] + push[j] - Fv_[j] * v - Fc_[j] * std::tanh(v / v0_[j]) - off_[j];
    }
    mj_step(model_, data_);
  }
  measure();
}

void Plant::measure()
{
  const double dt = period, share = 1.0 - std::exp(-2.0 * 3.141592653589793 * filter_hz * dt);
  for (std::size_t j = 0; j < q.size(); ++j)
  {
    const double rounded = std::round(data_->qpos[j] / resolution) * resolution;
    const double last = std::isfinite(q[j]) ? q[j] : rounded;
    dq[j] += share * ((rounded - last) / dt - dq[j]);
    q[j] = blind == static_cast<int>(j) ? std::numeric_limits<double>::quiet_NaN() : rounded;
    effort[j] = brakes ? 0.0 : command[j] + noise * std::normal_distribution<double>()(random_);
  }
}

Plant & plant()
{
  static Plant one;
  return one;
}
