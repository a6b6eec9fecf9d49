// SPDX-License-Identifier: Apache-2.0
// What test_runtime.py compares: all functions of the runtime for samples from a file, and whether
// they allocate. runtime_program MODEL check | runtime_program MODEL IN OUT [joint mass cx cy cz XX
// XY XZ YY YZ ZZ]
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "ros2_dynid/dynamics.hpp"

static std::size_t allocations = 0;

void * operator new(std::size_t size)
{
  ++allocations;
  if (void * p = std::malloc(size ? size : 1)) return p;
  throw std::bad_alloc();
}
void operator delete(void * p) noexcept { std::free(p); }
void operator delete(void * p, std::size_t) noexcept { std::free(p); }

int main(int argc, char ** argv)
{
  ros2_dynid::Model model;
  try
  {
    model = ros2_dynid::load_model(argv[1]);
  }
  catch (const std::runtime_error & error)
  {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  if (argc == 3)
  {
    for (const auto & name : model.active_names()) std::printf("%s\n", name.c_str());
    for (const auto & bar : model.error_bars)
      std::printf("%.17g %.17g\n", bar.sigma, bar.torque_std);
    return 0;
  }
  ros2_dynid::Dynamics dynamics(model);
  const std::size_t n = dynamics.joints(), columns = 10 * n + n * n;
  std::vector<double> in, out(columns);
  std::FILE * file = std::fopen(argv[2], "rb");
  double value;
  while (std::fread(&value, sizeof value, 1, file) == 1) in.push_back(value);
  std::fclose(file);
  file = std::fopen(argv[3], "wb");
  const std::size_t before = allocations;
  if (argc > 4)
  {
    ros2_dynid::Load load;
    load.joint = static_cast<std::size_t>(std::atoi(argv[4]));
    load.mass = std::atof(argv[5]);
    load.centre = {std::atof(argv[6]), std::atof(argv[7]), std::atof(argv[8])};
    for (std::size_t k = 0; k < 6; ++k) load.inertia[k] = std::atof(argv[9 + k]);
    if (!dynamics.set_payload(load)) return 4;
  }
  for (std::size_t at = 0; at + 4 * n <= in.size(); at += 4 * n)
  {
    const double *q = &in[at], *dq = q + n, *ddq = dq + n, *motor = ddq + n;
    double * to = out.data();
    dynamics.inverse_dynamics(q, dq, ddq, to);
    dynamics.rigid(q, dq, ddq, to += n);
    dynamics.gravity(q, to += n);
    dynamics.velocity_torque(q, dq, to += n);
    dynamics.momentum(q, dq, to + n, to + 2 * n);
    to += 3 * n;
    dynamics.carried(dq, motor, to);
    dynamics.friction(
      dq, to, to + n);  // of what was found to be carried: together the motor's torque again
    dynamics.set_smoothing(0.05);
    dynamics.friction(dq, &out[n], to + 2 * n);
    dynamics.set_smoothing(0.0);
    dynamics.undecided_friction(dq, &out[n], 0.05, to + 3 * n);
    dynamics.inertia(q, to + 4 * n);
    if (!dynamics.set_parameters(model)) return 4;
    std::fwrite(out.data(), sizeof(double), columns, file);
  }
  if (allocations != before)
  {
    std::fprintf(stderr, "%zu allocations\n", allocations - before);
    return 3;
  }
  return std::fclose(file) == 0 ? 0 : 1;
}
