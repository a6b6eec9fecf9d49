// SPDX-License-Identifier: Apache-2.0
// Times of one inverse dynamics in turn: the C++ runtime, Pinocchio's rnea, our generated C. bench_runtime.py builds it.
// runtime MODEL URDF: prints the largest relative difference of the torques, then nanoseconds of each, medians.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <vector>

#include <pinocchio/multibody.hpp>
#include <pinocchio/parsers/urdf.hpp>
#include <pinocchio/algorithm/rnea.hpp>

#include "arm.h"
#include "ros2_dynid/dynamics.hpp"

namespace
{
constexpr int samples = 1000, repeats = 41;

template <typename Call>
double nanoseconds(Call && call)
{
  const auto begin = std::chrono::steady_clock::now();
  for (int k = 0; k < samples; ++k) call(k);
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begin;
  return spent.count() / samples;
}

double median(std::vector<double> times)
{
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}
}  // namespace

int main(int, char ** argv)
{
  ros2_dynid::Dynamics dynamics(ros2_dynid::load_model(argv[1]));
  pinocchio::Model model;
  pinocchio::urdf::buildModel(argv[2], model);
  pinocchio::Data data(model);
  const std::size_t n = dynamics.joints();
  std::mt19937 random(0);
  std::uniform_real_distribution<double> uniform(-2.0, 2.0);
  std::vector<Eigen::VectorXd> q(samples, Eigen::VectorXd(n)), dq = q, ddq = q;
  for (auto * set : {&q, &dq, &ddq}) for (auto & x : *set) for (auto & value : x) value = uniform(random);
  Eigen::VectorXd tau(n), generated(n);
  double error = 0.0;
  for (int k = 0; k < samples; ++k) {
    const auto & peer = pinocchio::rnea(model, data, q[k], dq[k], ddq[k]);
    dynamics.inverse_dynamics(q[k].data(), dq[k].data(), ddq[k].data(), tau.data());
    arm_torque(q[k].data(), dq[k].data(), ddq[k].data(), generated.data());
    error = std::max({error, (tau - peer).cwiseAbs().maxCoeff() / peer.cwiseAbs().maxCoeff(),
      (generated - peer).cwiseAbs().maxCoeff() / peer.cwiseAbs().maxCoeff()});
  }
  std::vector<double> ours, peers, codes;
  double sum = 0.0;
  for (int r = 0; r < repeats; ++r) {
    ours.push_back(nanoseconds([&](int k) {
      dynamics.inverse_dynamics(q[k].data(), dq[k].data(), ddq[k].data(), tau.data());
      sum += tau[0];
    }));
    peers.push_back(nanoseconds([&](int k) { sum += pinocchio::rnea(model, data, q[k], dq[k], ddq[k])[0]; }));
    codes.push_back(nanoseconds([&](int k) {
      arm_torque(q[k].data(), dq[k].data(), ddq[k].data(), generated.data());
      sum += generated[0];
    }));
  }
  std::printf("%.3g %.1f %.1f %.1f %g\n", error, median(ours), median(peers), median(codes), sum);
  return 0;
}
