// SPDX-License-Identifier: Apache-2.0
// Runs the controllers in a real controller_manager on the simulated robot, in simulated time, and
// prints what happened.
//
// controllers_program SCENARIO FOLDER --ros-args --params-file FILE
// FOLDER has robot.urdf and, for what moves, trajectory.txt: rows t, q, dq, ddq. Output: lines of a
// name and values.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "controller_manager/controller_manager.hpp"
#include "controller_manager_msgs/srv/switch_controller.hpp"
#include "geometry_msgs/msg/wrench_stamped.hpp"
#include "plant.hpp"
#include "rcl/time.h"
#include "rclcpp/rclcpp.hpp"
#include "ros2_dynid/msg/contact.hpp"
#include "ros2_dynid/srv/set_payload.hpp"
#include "sensor_msgs/msg/joint_state.hpp"
#include "trajectory_msgs/msg/joint_trajectory.hpp"

// Every allocation of a thread that is being watched is counted, whoever makes it.
static thread_local bool watched = false;
static thread_local long allocations = 0;
extern "C"
{
  void * __libc_malloc(size_t);
  void * __libc_calloc(size_t, size_t);
  void * __libc_realloc(void *, size_t);
  void * __libc_memalign(size_t, size_t);
  void * malloc(size_t size)
  {
    allocations += watched;
    return __libc_malloc(size);
  }
  void * calloc(size_t n, size_t size)
  {
    allocations += watched;
    return __libc_calloc(n, size);
  }
  void * realloc(void * p, size_t size)
  {
    allocations += watched;
    return __libc_realloc(p, size);
  }
  void * memalign(size_t to, size_t size)
  {
    allocations += watched;
    return __libc_memalign(to, size);
  }
  void * aligned_alloc(size_t to, size_t size)
  {
    allocations += watched;
    return __libc_memalign(to, size);
  }
  int posix_memalign(void ** p, size_t to, size_t size)
  {
    allocations += watched;
    *p = __libc_memalign(to, size);
    return *p ? 0 : 12;
  }
}

using controller_interface::return_type;
using Strings = std::vector<std::string>;

namespace
{
constexpr double period = 1e-3;
const char * const FEEDFORWARD = "feedforward_controller";
const char * const TRAJECTORY = "joint_trajectory_controller";
const char * const BRAKE = "brake_controller";
const char * const GUIDING = "hand_guiding_controller";
const char * const BROADCASTER = "external_effort_broadcaster";

void say(const std::string & name, const std::vector<double> & values)
{
  std::printf("%s", name.c_str());
  for (const double value : values) std::printf(" %.17g", value);
  std::printf("\n");
}

struct Row
{
  double t;
  std::vector<double> q, dq, ddq;
};

class World
{
public:
  explicit World(const std::string & folder) : folder_(folder)
  {
    std::ifstream file(folder + "/robot.urdf");
    std::stringstream text;
    text << file.rdbuf();
    executor_ =
      std::make_shared<rclcpp::executors::MultiThreadedExecutor>(rclcpp::ExecutorOptions(), 2);
    manager_ = std::make_shared<controller_manager::ControllerManager>(
      executor_, text.str(), true, "controller_manager");
    node_ = std::make_shared<rclcpp::Node>("watcher");
    executor_->add_node(manager_);
    executor_->add_node(node_);
    set_time();
    spinner_ = std::thread([this] { executor_->spin(); });
  }
  ~World()
  {
    executor_->cancel();
    spinner_.join();
  }

  controller_manager::ControllerManager & manager() { return *manager_; }
  rclcpp::Node::SharedPtr node() { return node_; }
  double now() const { return 1e-9 * static_cast<double>(now_); }
  rclcpp::Time stamp() const { return rclcpp::Time(now_, RCL_ROS_TIME); }

  /// One cycle of the control loop, `late` [s] after it should have been.
  return_type cycle(double late = 0.0)
  {
    now_ += std::llround(1e9 * (period + late));
    set_time();
    const rclcpp::Duration step = rclcpp::Duration::from_seconds(period + late);
    manager_->read(stamp(), step);
    const return_type result = manager_->update(stamp(), step);
    manager_->write(stamp(), step);
    return result;
  }
  void run(double seconds, const std::function<void()> & each = [] {})
  {
    for (int k = 0; k < std::lround(seconds / period); ++k)
    {
      cycle();
      each();
    }
  }
  /// Cycle until something that runs beside the control loop is done.
  template <typename Future>
  void wait(Future & future)
  {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (future.wait_for(std::chrono::microseconds(200)) != std::future_status::ready)
    {
      cycle();
      if (std::chrono::steady_clock::now() > limit)
        throw std::runtime_error("no answer within 20 s");
    }
  }
  bool until(const std::function<bool()> & reached)
  {
    for (int k = 0; k < 20000; ++k)
    {
      if (reached()) return true;
      cycle();
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return false;
  }

  bool load(
    const std::string & name)  // the manager waits for the control loop to take its new list
  {
    auto done =
      std::async(std::launch::async, [&] { return manager_->load_controller(name) != nullptr; });
    wait(done);
    if (!done.get()) return false;
    clocks_.push_back(controller(name)->get_node()->get_clock());
    return true;
  }
  bool configure(const std::string & name)
  {
    auto done = std::async(
      std::launch::async, [&] { return manager_->configure_controller(name) == return_type::OK; });
    wait(done);
    return done.get();
  }
  bool activate(const Strings & on, const Strings & off = {})
  {
    auto done = std::async(
      std::launch::async,
      [&]
      {
        return manager_->switch_controller(
                 on, off, controller_manager_msgs::srv::SwitchController::Request::STRICT, true,
                 rclcpp::Duration::from_seconds(5.0)) == return_type::OK;
      });
    wait(done);
    return done.get();
  }
  controller_interface::ControllerInterfaceBaseSharedPtr controller(const std::string & name)
  {
    for (const auto & one : manager_->get_loaded_controllers())
      if (one.info.name == name) return one.c;
    throw std::runtime_error("no controller " + name);
  }
  bool active(const std::string & name)
  {
    return controller(name)->get_lifecycle_id() == lifecycle_msgs::msg::State::PRIMARY_STATE_ACTIVE;
  }
  bool make(const Strings & names)
  {
    for (const auto & name : names)
      if (!load(name) || !configure(name)) return false;
    return true;
  }
  std::string set(const std::string & controller_name, const rclcpp::Parameter & parameter)
  {
    const auto result = controller(controller_name)->get_node()->set_parameter(parameter);
    return result.successful ? "" : result.reason.empty() ? "refused" : result.reason;
  }

  std::vector<Row> trajectory() const
  {
    std::ifstream file(folder_ + "/trajectory.txt");
    std::vector<Row> rows;
    for (std::string line; std::getline(file, line);)
    {
      std::istringstream in(line);
      Row row;
      in >> row.t;
      const std::size_t n = plant().command.size();
      for (auto * list : {&row.q, &row.dq, &row.ddq})
      {
        list->resize(n);
        for (auto & x : *list) in >> x;
      }
      rows.push_back(row);
    }
    return rows;
  }
  /// Send the trajectory to the trajectory controller, to begin at `start` [s].
  void send(const std::vector<Row> & rows, double start)
  {
    if (!publisher_)
    {
      publisher_ = node_->create_publisher<trajectory_msgs::msg::JointTrajectory>(
        std::string("/") + TRAJECTORY + "/joint_trajectory", rclcpp::SystemDefaultsQoS());
      if (!until([this] { return publisher_->get_subscription_count() > 0; }))
        throw std::runtime_error("nobody listens");
    }
    trajectory_msgs::msg::JointTrajectory message;
    message.header.stamp = rclcpp::Time(std::llround(1e9 * start), RCL_ROS_TIME);
    const rclcpp::Parameter joints = controller(TRAJECTORY)->get_node()->get_parameter("joints");
    message.joint_names = joints.as_string_array();
    for (const auto & row : rows)
    {
      trajectory_msgs::msg::JointTrajectoryPoint point;
      point.positions = row.q;
      point.velocities = row.dq;
      point.accelerations = row.ddq;
      point.time_from_start = rclcpp::Duration::from_seconds(row.t);
      message.points.push_back(point);
    }
    publisher_->publish(message);
  }

private:
  /// The manager and its controllers have one simulated clock.
  void set_time()
  {
    set_time(*manager_->get_clock());
    for (const auto & clock : clocks_) set_time(*clock);
  }
  void set_time(rclcpp::Clock & its_clock)
  {
    rcl_clock_t * clock = its_clock.get_clock_handle();
    const std::lock_guard<std::mutex> guard(its_clock.get_clock_mutex());
    if (
      rcl_enable_ros_time_override(clock) != RCL_RET_OK ||
      rcl_set_ros_time_override(clock, now_) != RCL_RET_OK)
    {
      throw std::runtime_error("the clock cannot be set");
    }
  }

  std::string folder_;
  std::int64_t now_ = 1000000000;
  std::vector<rclcpp::Clock::SharedPtr> clocks_;  ///< of the controllers
  std::shared_ptr<rclcpp::executors::MultiThreadedExecutor> executor_;
  std::shared_ptr<controller_manager::ControllerManager> manager_;
  rclcpp::Node::SharedPtr node_;
  rclcpp::Publisher<trajectory_msgs::msg::JointTrajectory>::SharedPtr publisher_;
  std::thread spinner_;
};

double percentile(std::vector<double> values, double share)
{
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

/// The chain follows the trajectory: RMS errors of the joints.
int track(World & world)
{
  if (!world.make({FEEDFORWARD, TRAJECTORY, BROADCASTER})) return 3;
  if (!world.activate({FEEDFORWARD, TRAJECTORY, BROADCASTER})) return 4;
  world.run(0.2);
  const auto rows = world.trajectory();
  const double start = world.now() + 1.0;
  world.send(rows, start);
  const std::size_t n = rows.front().q.size();
  std::vector<double> square(n, 0.0), largest(n, 0.0);
  int count = 0;
  world.run(
    1.0 + rows.back().t + 0.05,
    [&]
    {
      // positions are those after the cycle: a period later than what was commanded in it
      const double t = world.now() + period - start;
      const auto row = std::lower_bound(
        rows.begin(), rows.end(), t - 1e-9, [](const Row & a, double b) { return a.t < b; });
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      if (t < 0.0 || row == rows.end() || std::fabs(row->t - t) > 1e-6) return;
      const auto q = plant().position();
      for (std::size_t j = 0; j < n; ++j)
      {
        square[j] += std::pow(q[j] - row->q[j], 2);
        largest[j] = std::max(largest[j], std::fabs(q[j] - row->q[j]));
      }
      ++count;
    });
  for (auto & x : square) x = std::sqrt(x / count);
  say("count", {static_cast<double>(count)});
  say("rms", square);
  say("largest", largest);
  say(
    "active", {static_cast<double>(world.active(FEEDFORWARD)),
               static_cast<double>(world.active(TRAJECTORY))});
  // The controller before stops: it goes, the chain ends, and the arm is held by gravity and
  // damping.
  if (!world.activate({FEEDFORWARD}, {TRAJECTORY, FEEDFORWARD})) return 5;
  const auto before = plant().position();
  world.run(1.0);
  auto moved = plant().position();
  for (std::size_t j = 0; j < n; ++j) moved[j] -= before[j];
  say("drift", moved);
  say("command", plant().command);
  say("position", plant().q);
  if (!world.activate({}, {FEEDFORWARD, BROADCASTER})) return 6;
  say("left", plant().command);
  return 0;
}

/// Times and allocations of update(), each controller by itself while the arm moves.
int speed(World & world)
{
  if (!world.make({FEEDFORWARD, TRAJECTORY, BROADCASTER, GUIDING, BRAKE})) return 3;
  if (!world.activate({FEEDFORWARD, TRAJECTORY, BROADCASTER})) return 4;
  const auto rows = world.trajectory();
  world.run(0.1);
  world.send(rows, world.now() + 0.2);
  world.until([&, first = world.now()] { return world.now() > first + 0.1; });
  const auto measure = [&](const Strings & before, const std::string & name, int cycles)
  {
    std::vector<double> times;
    long most = 0;
    const auto one = world.controller(name);
    const rclcpp::Duration step = rclcpp::Duration::from_seconds(period);
    for (int k = 0; k < cycles; ++k)
    {
      world.cycle();  // everything runs as ever; then this one once more, alone
      for (const auto & other : before) world.controller(other)->update(world.stamp(), step);
      allocations = 0;
      watched = true;
      const auto begin = std::chrono::steady_clock::now();
      one->update(world.stamp(), step);
      const std::chrono::duration<double, std::micro> spent =
        std::chrono::steady_clock::now() - begin;
      watched = false;
      most = std::max(most, allocations);
      times.push_back(spent.count());
    }
    double best = percentile(times, 0.99);  // of five parts: a busy machine interrupts at times
    for (int part = 0; part < 5; ++part)
    {
      const auto from = times.begin() + part * cycles / 5;
      best = std::min(best, percentile(std::vector<double>(from, from + cycles / 5), 0.99));
    }
    say(
      "time " + name,
      {percentile(times, 0.5), best, percentile(times, 0.99), percentile(times, 1.0)});
    say("allocations " + name, {static_cast<double>(most)});
  };
  measure({TRAJECTORY}, FEEDFORWARD, 10000);
  say("following", {static_cast<double>(world.active(TRAJECTORY))});
  measure({}, BROADCASTER, 10000);
  if (!world.activate({GUIDING}, {TRAJECTORY, FEEDFORWARD})) return 5;
  measure({}, GUIDING, 10000);
  if (!world.activate({BRAKE}, {GUIDING})) return 6;
  measure({}, BRAKE, 10000);
  watched = true;  // the counter works
  allocations = 0;
  std::free(std::malloc(10));
  std::vector<double> some(100);
  watched = false;
  say("counted", {static_cast<double>(allocations), some[0]});
  return 0;
}

/// A reference that ends, a joint's encoder that fails, an update that is late.
int faults(World & world)
{
  if (!world.make({FEEDFORWARD, TRAJECTORY})) return 3;
  if (!world.activate({FEEDFORWARD, TRAJECTORY})) return 4;
  world.run(0.2);
  world.send(world.trajectory(), world.now() + 0.2);
  world.until([&, first = world.now()] { return world.now() > first + 0.6; });
  double step = 0.0;
  auto last = plant().command;
  const rclcpp::Parameter limits =
    world.controller(FEEDFORWARD)->get_node()->get_parameter("effort_limits");
  const auto watch = [&]
  {
    for (std::size_t j = 0; j < last.size(); ++j)
    {
      step = std::max(step, std::fabs(plant().command[j] - last[j]) / limits.as_double_array()[j]);
      if (!std::isfinite(plant().command[j])) step = 1e9;
    }
    last = plant().command;
  };
  world.run(0.2, watch);
  say("step ordinary", {step});
  step = 0.0;
  const return_type late = world.cycle(0.05);
  watch();
  world.run(0.2, watch);
  say(
    "step late", {step, static_cast<double>(late == return_type::OK),
                  static_cast<double>(world.active(FEEDFORWARD))});
  step = 0.0;
  const auto seen = plant().q;
  plant().blind = 2;
  int good = 0;
  while (good < 1000 && world.active(FEEDFORWARD))
  {
    world.cycle();
    if (world.active(FEEDFORWARD)) watch();  // what is left behind is gravity's at once
    ++good;
  }
  say(
    "blind", {static_cast<double>(good), step, static_cast<double>(world.active(FEEDFORWARD)),
              static_cast<double>(world.active(TRAJECTORY))});
  say("command", plant().command);
  plant().blind = -1;
  world.run(0.1);
  say("position", seen);
  say("again", {static_cast<double>(world.activate({FEEDFORWARD}))});
  plant().blind = 1;
  world.run(0.1);
  world.activate({}, {FEEDFORWARD});
  say("blind activation", {static_cast<double>(world.activate({FEEDFORWARD}))});
  return 0;
}

/// New gains, model, payload and parameters while running.
int live(World & world)
{
  if (!world.make({FEEDFORWARD})) return 3;
  if (!world.activate({FEEDFORWARD})) return 4;
  world.run(0.3);
  const auto settled = [&](const std::string & name)
  {
    double most = 0.0;
    auto last = plant().command;
    world.run(
      1.0,
      [&]
      {
        for (std::size_t j = 0; j < last.size(); ++j)
          most = std::max(most, std::fabs(plant().command[j] - last[j]));
        last = plant().command;
      });
    say(name, plant().command);
    say(name + " step", {most});
  };
  settled("first");
  auto gains = world.set(FEEDFORWARD, rclcpp::Parameter("kp", std::vector<double>{1.0, 2.0}));
  std::printf("wrong gains: %s\n", gains.c_str());
  gains = world.set(FEEDFORWARD, rclcpp::Parameter("kp", std::vector<double>{10.0}));
  std::printf("right gains: %s\n", gains.c_str());
  for (const char * name : {"broken", "other", "lighter"})
  {
    std::string path =
      world.controller(FEEDFORWARD)->get_node()->get_parameter("model").as_string();
    path = path.substr(0, path.rfind('/') + 1) + name + ".dynid";
    std::printf(
      "model %s: %s\n", name, world.set(FEEDFORWARD, rclcpp::Parameter("model", path)).c_str());
  }
  settled("lighter");
  auto client = world.node()->create_client<ros2_dynid::srv::SetPayload>(
    std::string("/") + FEEDFORWARD + "/set_payload");
  if (!world.until([&] { return client->service_is_ready(); })) return 5;
  for (const double mass : {-1.0, 500.0, 1.0})
  {
    auto request = std::make_shared<ros2_dynid::srv::SetPayload::Request>();
    request->payload.m = mass;
    request->payload.com.z = 0.1;
    auto future = client->async_send_request(request).future.share();
    world.wait(future);
    std::printf("payload %g: %d %s\n", mass, future.get()->success, future.get()->message.c_str());
  }
  settled("loaded");
  say("position", plant().q);
  return 0;
}

/// Hand guiding: let go, pushed, and left.
int guide(World & world)
{
  if (!world.make({GUIDING})) return 3;
  if (!world.activate({GUIDING})) return 4;
  const auto from = plant().position();
  world.run(1.0);
  auto moved = plant().position();
  for (std::size_t j = 0; j < moved.size(); ++j) moved[j] -= from[j];
  say("let go", moved);
  plant().push[2] = 8.0;
  world.run(0.4);
  plant().push[2] = 0.0;
  auto pushed = plant().position();
  for (std::size_t j = 0; j < moved.size(); ++j) pushed[j] -= from[j];
  say("pushed", pushed);
  std::printf("friction: %s\n", world.set(GUIDING, rclcpp::Parameter("friction", 0.99)).c_str());
  world.run(0.5);
  world.activate({}, {GUIDING});
  say("left", plant().command);
  say("position", plant().q);
  return 0;
}

/// A known push while the arm moves: when and how well it is found.
int push(World & world)
{
  if (!world.make({FEEDFORWARD, TRAJECTORY, BROADCASTER})) return 3;
  if (!world.activate({FEEDFORWARD, TRAJECTORY, BROADCASTER})) return 4;
  std::mutex mutex;
  std::vector<ros2_dynid::msg::Contact> contacts;
  geometry_msgs::msg::WrenchStamped wrench;
  auto contact_subscription = world.node()->create_subscription<ros2_dynid::msg::Contact>(
    std::string("/") + BROADCASTER + "/contact", rclcpp::QoS(10).reliable().transient_local(),
    [&](const ros2_dynid::msg::Contact & message)
    {
      const std::lock_guard<std::mutex> guard(mutex);
      contacts.push_back(message);
    });
  auto wrench_subscription = world.node()->create_subscription<geometry_msgs::msg::WrenchStamped>(
    std::string("/") + BROADCASTER + "/wrench", rclcpp::SystemDefaultsQoS(),
    [&](const geometry_msgs::msg::WrenchStamped & message)
    {
      const std::lock_guard<std::mutex> guard(mutex);
      wrench = message;
    });
  std::vector<std::array<double, 2>> felt;
  auto effort_subscription = world.node()->create_subscription<sensor_msgs::msg::JointState>(
    std::string("/") + BROADCASTER + "/external_effort", rclcpp::SystemDefaultsQoS(),
    [&](const sensor_msgs::msg::JointState & message)
    {
      const std::lock_guard<std::mutex> guard(mutex);
      felt.push_back({rclcpp::Time(message.header.stamp).seconds(), message.effort[1]});
    });
  world.run(0.2);
  world.send(world.trajectory(), world.now() + 0.2);
  world.until([&, first = world.now()] { return world.now() > first + 1.2; });
  world.run(0.5, [] { std::this_thread::sleep_for(std::chrono::microseconds(50)); });
  const double begin = world.now(), torque = 30.0;
  plant().push[1] = torque;
  world.run(0.2, [] { std::this_thread::sleep_for(std::chrono::microseconds(50)); });
  plant().push[1] = 0.0;
  world.run(0.4, [] { std::this_thread::sleep_for(std::chrono::microseconds(50)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const std::lock_guard<std::mutex> guard(mutex);
  for (const auto & contact : contacts)
  {
    say(
      "contact",
      {rclcpp::Time(contact.header.stamp).seconds() - begin, static_cast<double>(contact.contact),
       static_cast<double>(contact.beyond[1]), contact.external_effort[1], contact.threshold[1]});
  }
  double sum = 0.0, count = 0.0;
  for (const auto & [t, effort] : felt)
  {
    if (t < begin + 0.05 || t > begin + 0.2) continue;
    sum += effort;
    count += 1.0;
  }
  say("felt", {count, sum / count, torque});
  std::printf("frame: %s\n", wrench.header.frame_id.c_str());
  return 0;
}

/// The arm moves along its trajectory, and is in the midst of it.
int begin_motion(World & world, const Strings & chain = {FEEDFORWARD, TRAJECTORY})
{
  if (!world.make(chain)) return 3;
  if (!world.activate(chain)) return 4;
  plant().has_brakes = false;
  world.run(0.2);
  world.send(world.trajectory(), world.now() + 0.2);
  world.until([&, first = world.now()] { return world.now() > first + 1.4; });
  return 0;
}

/// Says where the arm goes for a second, and the largest step of its commands, of their limits.
void watch_rest(World & world)
{
  const rclcpp::Parameter limits =
    world.controller(FEEDFORWARD)->get_node()->get_parameter("effort_limits");
  double step = 0.0;
  auto last = plant().command, before = plant().position();
  world.run(
    1.0,
    [&]
    {
      for (std::size_t j = 0; j < last.size(); ++j)
      {
        const double change = std::fabs(plant().command[j] - last[j]);
        step = std::max(step, change / limits.as_double_array()[j]);
      }
      last = plant().command;
      say("path", plant().position());
    });
  say("step", {step});
}

/// Deactivated in mid-motion, nobody takes over and there are no brakes: the last command stays.
int leave(World & world)
{
  if (const int problem = begin_motion(world)) return problem;
  if (!world.activate({}, {TRAJECTORY, FEEDFORWARD})) return 5;
  say("command", plant().command);
  say("seen", plant().q);
  say("speed", plant().dq);
  watch_rest(world);
  return 0;
}

/// Deactivated in mid-motion, and in the same request activated again without a reference.
int restart(World & world)
{
  if (const int problem = begin_motion(world)) return problem;
  say("speed", plant().dq);
  if (!world.activate({FEEDFORWARD}, {TRAJECTORY, FEEDFORWARD})) return 5;
  watch_rest(world);
  return 0;
}

/// Deactivated in mid-motion above a brake, which goes on: by request, then by an error, then
/// alone.
int brake(World & world)
{
  if (const int problem = begin_motion(world, {BRAKE, FEEDFORWARD, TRAJECTORY})) return problem;
  say("speed", plant().dq);
  if (!world.activate({}, {TRAJECTORY, FEEDFORWARD})) return 5;
  watch_rest(world);
  say(
    "active",
    {static_cast<double>(world.active(BRAKE)), static_cast<double>(world.active(FEEDFORWARD))});
  say("held", plant().command);
  say("position", plant().q);
  if (!world.activate({FEEDFORWARD, TRAJECTORY})) return 6;  // and follows again
  world.run(0.1);
  world.send(world.trajectory(), world.now() + 0.2);
  world.until([&, first = world.now()] { return world.now() > first + 1.4; });
  say("again", plant().dq);
  if (!world.activate({}, {BRAKE, TRAJECTORY, FEEDFORWARD})) return 7;
  say("left", plant().command);
  return 0;
}

/// References by topic: good ones in another order of joints, then each fault.
int stream(World & world)
{
  if (!world.make({FEEDFORWARD})) return 3;
  if (!world.activate({FEEDFORWARD})) return 4;
  world.run(0.1);
  auto publisher = world.node()->create_publisher<trajectory_msgs::msg::JointTrajectory>(
    std::string("/") + FEEDFORWARD + "/reference", rclcpp::SystemDefaultsQoS());
  if (!world.until([&] { return publisher->get_subscription_count() > 0; })) return 5;
  auto names = world.controller(FEEDFORWARD)->get_node()->get_parameter("joints").as_string_array();
  const auto start = plant().position();
  std::reverse(names.begin(), names.end());
  double moved = 0.0;
  const auto send = [&](const std::string & fault)
  {
    trajectory_msgs::msg::JointTrajectory message;
    message.header.stamp = world.stamp();
    message.joint_names = names;
    message.points.resize(1);
    auto & point = message.points[0];
    for (std::size_t j = names.size(); j-- > 0;)
      point.positions.push_back(start[j] + moved * static_cast<double>(j + 1));
    point.velocities.assign(names.size(), 0.0);
    point.accelerations.assign(names.size(), 0.0);
    if (fault == "other joints") message.joint_names[2] = "nobody";
    if (fault == "stale")
      message.header.stamp = rclcpp::Time(world.stamp()) - rclcpp::Duration(0, 200000000);
    if (fault == "reordered")
      message.header.stamp = rclcpp::Time(world.stamp()) - rclcpp::Duration(0, 30000000);
    if (fault == "beyond") point.positions[3] += 5.0;
    if (fault == "fast") point.velocities[3] = 100.0;
    if (fault == "not finite") point.positions[3] = std::nan("");
    if (fault == "sizes") point.velocities.pop_back();
    if (fault == "points") message.points.resize(2);
    publisher->publish(message);
  };
  const auto run = [&](double seconds, const std::string & fault)
  {
    for (int k = 0; k < std::lround(seconds / (5.0 * period)); ++k)
    {
      if (fault == "") moved = std::min(0.03, moved + 0.0005);
      send(fault);
      world.run(5.0 * period, [] { std::this_thread::sleep_for(std::chrono::microseconds(300)); });
    }
  };
  run(1.5, "");
  say("start", start);
  say("followed", plant().position());
  const auto held = plant().position();
  for (const std::string fault :
       {"other joints", "stale", "reordered", "not finite", "sizes", "points", "beyond", "fast"})
  {
    run(0.2, "");
    run(0.05, fault);
    world.until(
      [&, first = std::chrono::steady_clock::now()]
      { return std::chrono::steady_clock::now() - first > std::chrono::milliseconds(1300); });
    std::printf("done: %s\n", fault.c_str());
  }
  auto drift = plant().position();
  for (std::size_t j = 0; j < drift.size(); ++j) drift[j] -= held[j];
  say("drift", drift);
  say("active", {static_cast<double>(world.active(FEEDFORWARD))});
  return 0;
}

/// The broadcaster sends at the rate of the simulated clock, while it is active only.
int broadcast(World & world)
{
  std::atomic<int> count{0};
  auto subscription = world.node()->create_subscription<sensor_msgs::msg::JointState>(
    std::string("/") + BROADCASTER + "/external_effort", rclcpp::SystemDefaultsQoS(),
    [&](const sensor_msgs::msg::JointState &) { ++count; });
  if (!world.make({BROADCASTER})) return 3;
  const auto watch = [&](double seconds)
  {
    const int before = count;
    world.run(seconds, [] { std::this_thread::sleep_for(std::chrono::microseconds(400)); });
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return static_cast<double>(count - before);
  };
  const double configured = watch(0.5);
  if (!world.activate({BROADCASTER})) return 4;
  watch(0.5);
  const double active = watch(1.0);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // the simulation is paused
  const double paused = watch(0.0);
  if (!world.activate({}, {BROADCASTER})) return 5;
  watch(0.0);
  say("messages", {configured, active, paused, watch(0.5)});
  return 0;
}

/// Run for a while and say the largest speed of each joint [rad/s].
void watch_speed(World & world, const std::string & name, double seconds)
{
  auto last = plant().position();
  std::vector<double> most(last.size(), 0.0);
  world.run(
    seconds,
    [&]
    {
      const auto q = plant().position();
      for (std::size_t j = 0; j < q.size(); ++j)
        most[j] = std::max(most[j], std::fabs(q[j] - last[j]) / period);
      last = q;
    });
  say(name, most);
}

/// Held, fed forward, held again and guided, one after the other.
int serve(World & world)
{
  if (!world.make({FEEDFORWARD, TRAJECTORY, GUIDING})) return 3;
  world.run(0.1);
  if (!world.activate({FEEDFORWARD})) return 4;
  watch_speed(world, "held", 0.5);
  say("command", plant().command);
  say("position", plant().q);
  if (!world.activate({}, {FEEDFORWARD})) return 5;
  if (!world.activate({FEEDFORWARD, TRAJECTORY})) return 5;
  watch_speed(world, "chained", 0.3);
  const auto rows = world.trajectory();
  const double start = world.now() + 0.5;
  world.send(rows, start);
  std::vector<double> square(rows.front().q.size(), 0.0);
  int count = 0;
  world.run(
    0.5 + rows.back().t,
    [&]
    {
      const auto k = std::lround((world.now() + period - start) / period);
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      if (k < 0 || k >= static_cast<long>(rows.size())) return;
      const auto q = plant().position();
      const auto & wanted = rows[static_cast<std::size_t>(k)].q;
      for (std::size_t j = 0; j < q.size(); ++j) square[j] += std::pow(q[j] - wanted[j], 2);
      ++count;
    });
  for (auto & x : square) x = std::sqrt(x / count);
  say("rms", square);
  world.run(0.5);
  if (!world.activate({GUIDING}, {TRAJECTORY, FEEDFORWARD})) return 6;
  watch_speed(world, "guided", 0.5);
  const auto from = plant().position();
  plant().push[2] = 8.0;
  world.run(0.4);
  plant().push[2] = 0.0;
  say("pushed", {plant().position()[2] - from[2]});
  world.run(0.5);
  watch_speed(world, "let go", 0.5);
  return 0;
}

/// Take over from the arm itself, or from hand guiding if that can be activated.
int take_over(World & world)
{
  if (!world.make({FEEDFORWARD, BRAKE, GUIDING})) return 3;
  world.run(0.1);
  const bool guided = world.activate({GUIDING});
  say("taken guiding", {static_cast<double>(guided)});
  watch_speed(world, "speed", 0.3);
  for (const std::string name : {FEEDFORWARD, BRAKE})
  {
    if (guided && !world.active(GUIDING) && !world.activate({GUIDING})) return 4;
    world.run(0.2);
    const bool taken = world.activate({name}, guided ? Strings{GUIDING} : Strings{});
    say("taken " + name, {static_cast<double>(taken && world.active(name))});
    watch_speed(world, "speed", 0.3);
  }
  return 0;
}

/// Whether each controller of the parameters' file loads, configures and activates.
int start(World & world)
{
  for (const std::string name : {FEEDFORWARD, GUIDING, BROADCASTER, BRAKE})
  {
    const bool loaded = world.load(name), configured = loaded && world.configure(name);
    const bool activated = configured && world.activate({name});
    say(
      "start " + name, {static_cast<double>(loaded), static_cast<double>(configured),
                        static_cast<double>(activated)});
    if (activated) world.activate({}, {name});
  }
  return 0;
}
}  // namespace

int main(int argc, char ** argv)
{
  rclcpp::init(argc, argv, rclcpp::InitOptions(), rclcpp::SignalHandlerOptions::None);
  const std::map<std::string, int (*)(World &)> scenarios{
    {"track", track}, {"speed", speed},        {"faults", faults},       {"live", live},
    {"guide", guide}, {"push", push},          {"leave", leave},         {"restart", restart},
    {"brake", brake}, {"stream", stream},      {"broadcast", broadcast}, {"start", start},
    {"serve", serve}, {"take over", take_over}};
  int result = 2;
  try
  {
    World world(argv[2]);
    result = scenarios.at(argv[1])(world);
  }
  catch (const std::exception & error)
  {
    std::fprintf(stderr, "%s\n", error.what());
  }
  std::fflush(stdout);
  std::_Exit(result);  // the manager's own shutdown is not what is tested
}
