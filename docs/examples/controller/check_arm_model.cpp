// Prints what holds the arm still in its zero position, and how long one call takes.
#include <chrono>
#include <cstdio>

#include "arm_model.hpp"

int main()
{
  ArmModel::Vector limits, q{}, dq{}, ddq{};
  limits.fill(200.0);
  const ArmModel model(limits);
  const auto tau = model.gravity(q);
  for (std::size_t j = 0; j < ArmModel::joints; ++j) std::printf("joint %zu: %8.3f N.m\n", j, tau[j]);

  const int calls = 100000;
  double sum = 0.0;
  const auto begin = std::chrono::steady_clock::now();
  for (int k = 0; k < calls; ++k) {
    q[0] = dq[1] = ddq[2] = 1e-5 * k;
    sum += model.feedforward(q, dq, ddq)[1];
  }
  const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - begin;
  std::printf("%.2f us a call (mean torque of joint 1: %.3f N.m)\n", spent.count() / calls, sum / calls);
  return std::isfinite(sum) ? 0 : 1;
}
