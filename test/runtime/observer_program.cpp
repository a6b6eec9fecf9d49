// SPDX-License-Identifier: Apache-2.0
// What test_observer.py compares: the observer, the contacts and the wrench for samples q, dq, tau,
// dt from a file. observer_program MODEL IN OUT [LINK]
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "ros2_dynid/observer.hpp"

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
  const ros2_dynid::Model model = ros2_dynid::load_model(argv[1]);
  ros2_dynid::MomentumObserver observer(model);
  ros2_dynid::ContactDetector contacts(model.error_bars);
  const std::size_t n = observer.joints();
  ros2_dynid::WrenchEstimator wrench(n);
  ros2_dynid::Tool tool;
  tool.joint = n;
  for (const auto & one : model.tools)
    if (argc > 4 && one.link == argv[4]) tool = one;
  std::array<double, 6> F{};
  std::vector<double> row(3 * n + 1), out(4 * n + 8);
  std::FILE * in = std::fopen(argv[2], "rb");
  std::FILE * to = std::fopen(argv[3], "wb");
  const std::size_t before = allocations;
  while (std::fread(row.data(), sizeof(double), row.size(), in) == row.size())
  {
    const double *q = row.data(), *dq = q + n, *tau = dq + n;
    const bool used = observer.update(q, dq, tau, row[3 * n]);
    const auto event = used ? contacts.update(observer.external(), observer.undecided(), row[3 * n])
                            : ros2_dynid::ContactEvent::none;
    wrench.update(observer.dynamics(), tool, q, observer.external(), F);
    for (std::size_t a = 0; a < n; ++a)
    {
      out[a] = observer.external()[a];
      out[n + a] = observer.undecided()[a];
      out[2 * n + a] = contacts.thresholds()[a];
      out[3 * n + a] = contacts.beyond()[a];
    }
    for (std::size_t k = 0; k < 6; ++k) out[4 * n + k] = F[k];
    out[4 * n + 6] = used;
    out[4 * n + 7] = static_cast<double>(event);
    std::fwrite(out.data(), sizeof(double), out.size(), to);
  }
  if (allocations != before) return 3;
  std::fclose(in);
  return std::fclose(to) == 0 ? 0 : 1;
}
