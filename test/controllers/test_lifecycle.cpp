// SPDX-License-Identifier: Apache-2.0
// The controllers through their lifecycle, without a manager: what they command is what their laws
// compute, joint by joint. DYNID_TEST_MODEL names the runtime file of the demo robot.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brake_controller.hpp"
#include "external_effort_broadcaster.hpp"
#include "feedforward_controller.hpp"
#include "hand_guiding_controller.hpp"
#include "pluginlib/class_loader.hpp"
#include "urdf_description.hpp"
#include "wrist_wrench_broadcaster.hpp"

using controller_interface::return_type;
using lifecycle_msgs::msg::State;
using ros2_dynid::Model;
using ros2_dynid::unknown;
using testing::DoubleNear;
using testing::Each;
using testing::Pointwise;
using testing::Truly;

namespace
{
constexpr double rate = 1000.0;

std::string model_path() { return std::getenv("DYNID_TEST_MODEL"); }

/// A controller with interfaces of its own, in the order that it asks for.
template <typename Controller>
class Shell
{
public:
  explicit Shell(std::vector<rclcpp::Parameter> parameters)
  {
    model = ros2_dynid::load_model(model_path());
    names = model.active_names();
    const std::vector<std::string> reversed(names.rbegin(), names.rend());
    parameters.emplace_back("model", model_path());
    parameters.emplace_back("joints", reversed);
    controller_interface::ControllerInterfaceParams params;
    params.controller_name = "tested";
    params.update_rate = static_cast<unsigned>(rate);
    params.controller_manager_update_rate = static_cast<unsigned>(rate);
    params.node_options = controller.define_custom_node_options();
    params.node_options.parameter_overrides(parameters);
    started = controller.init(params) == return_type::OK;
  }

  bool configure()
  {
    if (controller.configure().id() != State::PRIMARY_STATE_INACTIVE) return false;
    std::vector<hardware_interface::LoanedCommandInterface> loaned_commands;
    std::vector<hardware_interface::LoanedStateInterface> loaned_states;
    commands.clear();
    states.clear();
    for (const auto & name : controller.command_interface_configuration().names)
    {
      commands.push_back(interface<hardware_interface::CommandInterface>(name));
      loaned_commands.emplace_back(commands.back(), nullptr);
    }
    for (const auto & name : controller.state_interface_configuration().names)
    {
      states.push_back(interface<hardware_interface::StateInterface>(name));
      loaned_states.emplace_back(states.back(), nullptr);
    }
    controller.assign_interfaces(std::move(loaned_commands), std::move(loaned_states));
    return true;
  }
  bool activate() { return controller.get_node()->activate().id() == State::PRIMARY_STATE_ACTIVE; }
  bool deactivate()
  {
    return controller.get_node()->deactivate().id() == State::PRIMARY_STATE_INACTIVE;
  }
  return_type update()
  {
    time = time + rclcpp::Duration::from_seconds(1.0 / rate);
    return controller.update(time, rclcpp::Duration::from_seconds(1.0 / rate));
  }

  /// What the sensors say: kinds one after the other, each in the model's order.
  void measure(const std::vector<double> & values)
  {
    for (std::size_t k = 0; k < values.size(); ++k) ASSERT_TRUE(states[k]->set_value(values[k]));
  }
  std::vector<double> commanded() const
  {
    std::vector<double> values;
    for (const auto & one : commands)
      values.push_back(one->template get_optional<double>().value());
    return values;
  }

  Controller controller;
  bool started = false;
  Model model;
  std::vector<std::string> names;
  std::vector<hardware_interface::CommandInterface::SharedPtr> commands;
  std::vector<hardware_interface::StateInterface::SharedPtr> states;
  rclcpp::Time time{1, 0, RCL_ROS_TIME};

private:
  template <typename Interface>
  static std::shared_ptr<Interface> interface(const std::string & name)
  {
    const auto slash = name.rfind('/');
    return ros2_dynid::exported_interface<Interface>(name.substr(0, slash), name.substr(slash + 1));
  }
};

bool is_nan(double x) { return std::isnan(x); }

std::vector<double> reversed(std::vector<double> values)
{
  return {values.rbegin(), values.rend()};
}
std::vector<double> both(std::vector<double> a, const std::vector<double> & b)
{
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
std::vector<double> list_of(const double * x, std::size_t n) { return {x, x + n}; }

const std::vector<double> limits{70.0, 65.0, 40.0, 15.0, 14.0, 13.0};
const std::vector<double> rates{1500.0, 1400.0, 900.0, 320.0, 310.0, 300.0};
const std::vector<double> q{0.1, -0.6, 0.5, 0.2, -0.3, 0.1};
const std::vector<double> dq{0.3, -0.2, 0.1, 0.4, -0.1, 0.2};

class ControllersTest : public testing::Test
{
public:
  static void SetUpTestSuite() { rclcpp::init(0, nullptr); }
  static void TearDownTestSuite() { rclcpp::shutdown(); }
};
}  // namespace

TEST_F(ControllersTest, every_plugin_is_loaded_by_its_name)
{
  pluginlib::ClassLoader<controller_interface::ControllerInterface> plain(
    "controller_interface", "controller_interface::ControllerInterface");
  pluginlib::ClassLoader<controller_interface::ChainableControllerInterface> chained(
    "controller_interface", "controller_interface::ChainableControllerInterface");
  EXPECT_NO_THROW(plain.createSharedInstance("ros2_dynid/HandGuidingController"));
  EXPECT_NO_THROW(plain.createSharedInstance("ros2_dynid/GravityCompensationController"));
  EXPECT_NO_THROW(chained.createSharedInstance("ros2_dynid/FeedforwardController"));
  EXPECT_NO_THROW(chained.createSharedInstance("ros2_dynid/BrakeController"));
  EXPECT_NO_THROW(chained.createSharedInstance("ros2_dynid/ExternalEffortBroadcaster"));
  EXPECT_NO_THROW(chained.createSharedInstance("ros2_dynid/WristWrenchBroadcaster"));
}

TEST_F(ControllersTest, feedforward_commands_what_its_law_computes)
{
  const std::vector<double> kp{100, 90, 80, 30, 20, 10}, kd{10, 9, 8, 3, 2, 1},
    damping{7, 6, 5, 4, 3, 2};
  Shell<ros2_dynid::FeedforwardController> shell(
    {{"robot_adds", std::vector<std::string>{"nothing"}},
     {"kp", reversed(kp)},
     {"kd", reversed(kd)},
     {"damping", reversed(damping)},
     {"effort_limits", reversed(limits)},
     {"effort_rates", reversed(rates)},
     {"ramp_seconds", 0.02}});
  ASSERT_TRUE(shell.started && shell.configure());
  ros2_dynid::FeedforwardLaw law(
    shell.model, {kp, kd, damping}, {limits, rates, 0.02, 2.0 / rate}, {0.02, 0.05});
  const std::size_t n = shell.names.size();
  const auto same = [&]
  { EXPECT_THAT(shell.commanded(), Pointwise(DoubleNear(1e-12), list_of(law.command(), n))); };

  shell.measure(both(q, std::vector<double>(n, unknown)));
  EXPECT_FALSE(shell.activate());  // a speed is not known
  ASSERT_TRUE(shell.configure());
  shell.measure(both(q, dq));
  auto references = shell.controller.export_reference_interfaces();
  ASSERT_EQ(references.size(), 3 * n);
  for (std::size_t k = 0; k < 3 * n; ++k)
  {
    const std::vector<std::string> kinds{"position", "velocity", "acceleration"};
    EXPECT_EQ(references[k]->get_name(), "tested/" + shell.names[k % n] + "/" + kinds[k / n]);
    ASSERT_TRUE(references[k]->set_value(5.0));  // from before the activation
  }
  ASSERT_TRUE(shell.controller.set_chained_mode(true));
  ASSERT_TRUE(shell.activate());
  ASSERT_TRUE(law.start(q.data()));
  same();
  for (int k = 0; k < 200; ++k)
  {
    std::vector<double> reference(3 * n);
    for (std::size_t j = 0; j < 3 * n; ++j)
      reference[j] = (j < n ? q[j] : 0.0) + 1e-4 * k * static_cast<double>(j % n + 1);
    if (k < 100)  // then the controller before it stops to write
    {
      for (std::size_t j = 0; j < 3 * n; ++j) ASSERT_TRUE(references[j]->set_value(reference[j]));
      law.set_reference(&reference[0], &reference[n], &reference[2 * n], 1.0 / rate);
    }
    if (k == 50)
    {
      const auto node = shell.controller.get_node();
      EXPECT_FALSE(node->set_parameter({"kp", std::vector<double>{1.0, 2.0}}).successful);
      EXPECT_TRUE(node->set_parameter({"kp", reversed(kd)}).successful);
      law.set_gains({kd, kd, damping});
    }
    ASSERT_EQ(shell.update(), return_type::OK);
    law.update(q.data(), dq.data(), 1.0 / rate);
    same();
  }
  EXPECT_EQ(law.mode(), ros2_dynid::FeedforwardMode::hold);
  ASSERT_TRUE(shell.deactivate());
  law.end(q.data(), dq.data());
  same();

  ASSERT_TRUE(shell.activate());  // in the same update: the robot never carried what was left
  ASSERT_TRUE(law.start(q.data(), true));
  same();
  ASSERT_TRUE(shell.deactivate());
  auto moved = q;
  moved[4] += 1e-6;
  shell.measure(both(moved, dq));
  ASSERT_TRUE(shell.activate());
  ASSERT_TRUE(law.start(moved.data()));
  same();
  ASSERT_TRUE(shell.states[n + 2]->set_value(unknown));
  int well = 0;
  while (well < 1000 && shell.update() == return_type::OK) ++well;
  EXPECT_GE(well, 49);
  EXPECT_LE(well, 51);
  EXPECT_EQ(
    shell.controller.get_node()->cleanup().id(), State::PRIMARY_STATE_ACTIVE);  // not while active
  ASSERT_TRUE(shell.deactivate());
  EXPECT_EQ(shell.controller.get_node()->cleanup().id(), State::PRIMARY_STATE_UNCONFIGURED);
  EXPECT_TRUE(shell.configure());
}

TEST_F(ControllersTest, hand_guiding_commands_what_its_law_computes)
{
  const std::vector<double> speed{0.8, 0.9, 1.0, 1.1, 1.2, 1.3}, damping{3, 2.5, 2, 1, 0.9, 0.8};
  const std::vector<double> margin{0.1, 0.11, 0.12, 0.13, 0.14, 0.15};
  Shell<ros2_dynid::HandGuidingController> shell(
    {{"robot_adds", std::vector<std::string>{"nothing"}},
     {"speed_limits", reversed(speed)},
     {"damping", reversed(damping)},
     {"range_margins", reversed(margin)},
     {"effort_limits", reversed(limits)},
     {"effort_rates", reversed(rates)},
     {"friction", 0.7},
     {"wall", 0.3},
     {"brake_seconds", 0.04},
     {"smoothing", 0.03},
     {"ramp_seconds", 0.02}});
  ASSERT_TRUE(shell.started && shell.configure());
  const std::size_t n = shell.names.size();
  ros2_dynid::HandGuidingOptions options;
  options.speed = speed;
  options.damping = damping;
  options.margin = margin;
  for (const auto & joint : shell.model.joints)
  {
    options.lower.push_back(joint.limits.lower);
    options.upper.push_back(joint.limits.upper);
  }
  options.friction = 0.7;
  options.wall = 0.3;
  options.time = 0.04;
  options.smoothing = 0.03;
  ros2_dynid::HandGuidingLaw law(shell.model, options, {limits, rates, 0.02, 2.0 / rate});
  const auto same = [&]
  { EXPECT_THAT(shell.commanded(), Pointwise(DoubleNear(1e-12), list_of(law.command(), n))); };
  auto outside = q;
  outside[3] = options.upper[3] + 0.01;
  shell.measure(both(outside, dq));
  EXPECT_FALSE(shell.activate());
  ASSERT_TRUE(shell.configure());
  shell.measure(both(q, dq));
  ASSERT_TRUE(shell.activate());
  ASSERT_TRUE(law.start(q.data()));
  same();
  auto faster = dq;
  for (int k = 0; k < 150; ++k)
  {
    if (k == 50)
    {
      EXPECT_FALSE(shell.controller.get_node()->set_parameter({"friction", 1.0}).successful);
      EXPECT_TRUE(shell.controller.get_node()->set_parameter({"friction", 0.2}).successful);
      law.set_friction(0.2);
    }
    if (k == 100) faster[0] = 2.0;  // more than twice its limit: the brake
    shell.measure(both(q, faster));
    ASSERT_EQ(shell.update(), return_type::OK);
    law.update(q.data(), faster.data(), 1.0 / rate);
    same();
  }
  EXPECT_EQ(law.mode(), ros2_dynid::HandGuidingMode::brake);
  ASSERT_TRUE(shell.deactivate());
  law.end(q.data(), faster.data());
  same();
}

TEST_F(ControllersTest, the_brake_passes_efforts_on_and_brakes_when_they_stop)
{
  const std::vector<double> damping{3, 2.5, 2, 1, 0.9, 0.8};
  Shell<ros2_dynid::BrakeController> shell(
    {{"robot_adds", std::vector<std::string>{"nothing"}},
     {"damping", reversed(damping)},
     {"effort_limits", reversed(limits)},
     {"effort_rates", reversed(rates)},
     {"brake_seconds", 0.07},
     {"timeout", 0.005}});
  ASSERT_TRUE(shell.started && shell.configure());
  const std::size_t n = shell.names.size();
  ros2_dynid::BrakeLaw law(
    shell.model, {damping, 0.07, 0.02, 0.005}, {limits, rates, 0.3, 2.0 / rate});
  const auto same = [&]
  { EXPECT_THAT(shell.commanded(), Pointwise(DoubleNear(1e-12), list_of(law.command(), n))); };
  shell.measure(both(q, std::vector<double>(n, unknown)));
  EXPECT_FALSE(shell.activate());
  ASSERT_TRUE(shell.configure());
  shell.measure(both(q, dq));
  auto efforts = shell.controller.export_reference_interfaces();
  ASSERT_EQ(efforts.size(), n);
  EXPECT_EQ(efforts[2]->get_name(), "tested/" + shell.names[2] + "/effort");
  ASSERT_TRUE(shell.controller.set_chained_mode(true));
  ASSERT_TRUE(shell.activate());
  ASSERT_TRUE(law.start(q.data()));
  same();
  for (int k = 0; k < 100; ++k)
  {
    const std::vector<double> wanted{5.0 + 0.1 * k, -4.0, 3.0, 2.0, -1.0, 0.5};
    if (k < 50)
    {
      for (std::size_t j = 0; j < n; ++j) ASSERT_TRUE(efforts[j]->set_value(wanted[j]));
      law.set_efforts(wanted.data());
    }
    ASSERT_EQ(shell.update(), return_type::OK);
    law.update(q.data(), dq.data(), 1.0 / rate);
    same();
    EXPECT_EQ(law.mode(), k < 55 ? ros2_dynid::BrakeMode::pass : ros2_dynid::BrakeMode::brake);
  }
  ASSERT_TRUE(shell.deactivate());
  law.end(q.data(), dq.data());
  same();
}

TEST_F(ControllersTest, efforts_go_through_the_controller_that_is_named)
{
  Shell<ros2_dynid::FeedforwardController> follow(
    {{"robot_adds", std::vector<std::string>{"nothing"}}, {"command_prefix", "last"}});
  Shell<ros2_dynid::HandGuidingController> guide(
    {{"robot_adds", std::vector<std::string>{"nothing"}}, {"command_prefix", "last"}});
  ASSERT_TRUE(follow.configure() && guide.configure());
  const std::string wanted = "last/" + follow.names[1] + "/effort";
  EXPECT_EQ(follow.controller.command_interface_configuration().names[1], wanted);
  EXPECT_EQ(guide.controller.command_interface_configuration().names[1], wanted);
}

TEST_F(ControllersTest, nothing_is_commanded_while_it_is_not_known_what_the_robot_adds)
{
  Shell<ros2_dynid::FeedforwardController> shell(
    {{"robot_adds", std::vector<std::string>{"everything"}}});
  ASSERT_TRUE(shell.started);
  EXPECT_FALSE(shell.configure());
}

TEST_F(ControllersTest, the_broadcaster_exports_what_its_observer_finds)
{
  Shell<ros2_dynid::ExternalEffortBroadcaster> shell({});
  ASSERT_TRUE(shell.started && shell.configure());
  const std::size_t n = shell.names.size();
  const auto exported = shell.controller.export_state_interfaces();
  ASSERT_EQ(exported.size(), n + 1);
  const auto told = [&]
  {
    std::vector<double> values;
    for (const auto & one : exported) values.push_back(one->get_optional<double>().value());
    return values;
  };
  ros2_dynid::ObserverOptions options;
  options.bandwidth = 100.0;
  options.smoothing = 0.02;
  options.longest_step = 0.04;
  ros2_dynid::MomentumObserver observer(shell.model, options);
  const std::vector<double> effort{20.0, -10.0, 5.0, 2.0, -1.0, 0.5};
  ASSERT_TRUE(shell.activate());
  shell.measure(both(both(q, dq), effort));
  for (int k = 0; k < 20; ++k)
  {
    auto moved = q;  // the same sample again would say nothing
    for (std::size_t j = 0; j < n; ++j) moved[j] += 1e-3 * k * dq[j];
    shell.measure(both(both(moved, dq), effort));
    ASSERT_EQ(shell.update(), return_type::OK);
    observer.update(moved.data(), dq.data(), effort.data(), 1.0 / rate);
    auto values = told();
    values.pop_back();
    EXPECT_THAT(values, Pointwise(DoubleNear(1e-12), list_of(observer.external(), n)));
  }
  shell.measure(both(both(q, std::vector<double>(n, unknown)), effort));
  for (int k = 0; k < 110; ++k) ASSERT_EQ(shell.update(), return_type::OK);
  EXPECT_THAT(told(), Each(Truly(is_nan)));
  ASSERT_TRUE(shell.deactivate());
  EXPECT_THAT(told(), Each(Truly(is_nan)));
}

TEST_F(ControllersTest, the_broadcaster_tells_contacts_efforts_and_wrench_as_they_are_found)
{
  struct Value
  {
    double x;
    std::optional<double> get_optional() const { return x; }
  };
  struct Found
  {
    std::vector<double> external, thresholds;
    std::vector<bool> beyond;
    bool contact = false;
  };
  const Model model = ros2_dynid::load_model(model_path());
  const ros2_dynid::Tool & tool = model.tools.back();
  const std::vector<double> given{0, 0, 0, 4.0, 0, 0};  // the others from the error bars
  Shell<ros2_dynid::ExternalEffortBroadcaster> shell(
    {{"bandwidth", 200.0},
     {"smoothing", 0.03},
     {"width", 4.0},
     {"thresholds", reversed(given)},
     {"publish_rate", 200.0},
     {"frame", tool.link}});
  ASSERT_TRUE(shell.started && shell.configure());
  const std::size_t n = shell.names.size();
  const auto exported = shell.controller.export_state_interfaces();
  ros2_dynid::ObserverOptions options;
  options.bandwidth = 200.0;
  options.smoothing = 0.03;
  options.longest_step = 0.02;
  ros2_dynid::ContactOptions contacts;
  contacts.bandwidth = 200.0;
  contacts.width = 4.0;
  ros2_dynid::ExternalEffortLoop loop(model, options, given, contacts);
  ros2_dynid::Dynamics dynamics(model);
  const auto watcher = std::make_shared<rclcpp::Node>("watcher");
  std::vector<ros2_dynid::msg::Contact> told;
  sensor_msgs::msg::JointState efforts;
  geometry_msgs::msg::WrenchStamped wrench;
  const auto first = watcher->create_subscription<ros2_dynid::msg::Contact>(
    "/tested/contact", rclcpp::QoS(10).reliable().transient_local(),
    [&](const ros2_dynid::msg::Contact & message) { told.push_back(message); });
  const auto second = watcher->create_subscription<sensor_msgs::msg::JointState>(
    "/tested/external_effort", 10,
    [&](const sensor_msgs::msg::JointState & message) { efforts = message; });
  const auto third = watcher->create_subscription<geometry_msgs::msg::WrenchStamped>(
    "/tested/wrench", 10,
    [&](const geometry_msgs::msg::WrenchStamped & message) { wrench = message; });
  rclcpp::executors::SingleThreadedExecutor executor;
  executor.add_node(watcher);
  executor.add_node(shell.controller.get_node()->get_node_base_interface());
  const auto wait = [&](const std::function<bool()> & reached)
  {
    for (int k = 0; k < 1000 && !reached(); ++k) executor.spin_some(std::chrono::milliseconds(10));
    return reached();
  };

  ASSERT_TRUE(shell.activate());
  ASSERT_TRUE(wait([&] { return told.size() == 1; }));
  EXPECT_FALSE(told[0].contact);
  EXPECT_EQ(told[0].joints, shell.names);
  loop.start();
  std::map<std::int64_t, Found> history;
  std::vector<double> moved = q;
  std::size_t events = 0;
  for (int k = 0; k < 700; ++k)
  {
    std::vector<double> effort(n);
    for (std::size_t j = 0; j < n; ++j) moved[j] += 1e-3 * dq[j];
    dynamics.inverse_dynamics(
      moved.data(), dq.data(), std::vector<double>(n, 0.0).data(), effort.data());
    for (std::size_t j = 0; j < n; ++j)
      effort[j] += 0.01 * std::sin(37.0 * k + static_cast<double>(j));
    if (k >= 400 && k < 450) effort[3] -= 10.0;
    const auto all = both(both(moved, dq), effort);
    shell.measure(all);
    ASSERT_EQ(shell.update(), return_type::OK);
    std::vector<Value> values;
    for (const double x : all) values.push_back({x});
    if (loop.update(values, 1.0 / rate) != ros2_dynid::ContactEvent::none) ++events;
    const auto & found = loop.contacts();
    EXPECT_EQ(exported.back()->get_optional<double>().value(), found.contact() ? 1.0 : 0.0);
    history[shell.time.nanoseconds()] = {
      list_of(loop.external(), n), list_of(found.thresholds(), n),
      std::vector<bool>(found.beyond(), found.beyond() + n), found.contact()};
    executor.spin_some(std::chrono::milliseconds(0));
  }
  ASSERT_EQ(events, 2u);
  ASSERT_TRUE(wait([&] { return told.size() == 3; }));
  for (std::size_t k = 1; k < 3; ++k)
  {
    const auto at = history.find(rclcpp::Time(told[k].header.stamp).nanoseconds());
    ASSERT_NE(at, history.end());
    EXPECT_EQ(told[k].contact, k == 1);
    EXPECT_EQ(told[k].contact, at->second.contact);
    EXPECT_THAT(told[k].external_effort, Pointwise(DoubleNear(1e-12), at->second.external));
    EXPECT_THAT(told[k].threshold, Pointwise(DoubleNear(1e-12), at->second.thresholds));
    EXPECT_EQ(told[k].beyond, at->second.beyond);
  }
  EXPECT_EQ(told[1].beyond, std::vector<bool>({false, false, false, true, false, false}));
  ASSERT_TRUE(wait([&] { return wrench.header.stamp == shell.time; }));
  ASSERT_TRUE(wait([&] { return efforts.header.stamp == shell.time; }));
  EXPECT_EQ(efforts.name, shell.names);
  EXPECT_THAT(efforts.effort, Pointwise(DoubleNear(1e-12), list_of(loop.external(), n)));
  EXPECT_EQ(wrench.header.frame_id, tool.link);
  std::array<double, 6> F{};
  ASSERT_TRUE(
    ros2_dynid::WrenchEstimator(n).update(dynamics, tool, moved.data(), loop.external(), F));
  const auto & w = wrench.wrench;
  const std::vector<double> sent{w.force.x,  w.force.y,  w.force.z,
                                 w.torque.x, w.torque.y, w.torque.z};
  EXPECT_THAT(sent, Pointwise(DoubleNear(1e-9), list_of(F.data(), 6)));
}

TEST_F(ControllersTest, the_wrist_broadcaster_exports_what_its_sensor_finds)
{
  using geometry_msgs::msg::WrenchStamped;
  const Model model = ros2_dynid::load_model(model_path());
  const ros2_dynid::Tool &link = model.tools.front(), &frame = model.tools.back();
  ASSERT_NE(link.link, frame.link);
  const ros2_dynid::WristTool tool{
    0.8,
    {0.01, -0.02, 0.08},
    {0.004, 1e-4, -2e-4, 0.005, 3e-4, 0.003},
    {1, -2, 3, 0.1, 0.2, -0.3},
    -1.0};
  Shell<ros2_dynid::WristWrenchBroadcaster> shell(
    {{"sensor_name", "wrist"},
     {"link", link.link},
     {"frame", frame.link},
     {"tool.mass", tool.mass},
     {"tool.com", std::vector<double>{tool.centre.x, tool.centre.y, tool.centre.z}},
     {"tool.inertia", std::vector<double>(tool.inertia.begin(), tool.inertia.end())},
     {"bias", std::vector<double>(tool.bias.begin(), tool.bias.end())},
     {"reversed", true},
     {"filter_seconds", 0.05}});
  ASSERT_TRUE(shell.started && shell.configure());
  const std::size_t n = shell.names.size();
  EXPECT_EQ(shell.states[2 * n]->get_name(), "wrist/force.x");
  EXPECT_EQ(shell.states.back()->get_name(), "wrist/torque.z");
  EXPECT_TRUE(shell.controller.command_interface_configuration().names.empty());
  const auto exported = shell.controller.export_state_interfaces();
  ASSERT_EQ(exported.size(), 6u);
  EXPECT_EQ(exported[4]->get_name(), "tested/torque.y");
  const auto told = [&]
  {
    std::vector<double> values;
    for (const auto & one : exported) values.push_back(one->get_optional<double>().value());
    return values;
  };
  const auto watcher = std::make_shared<rclcpp::Node>("watcher");
  WrenchStamped of_sensor, of_frame;
  const auto first = watcher->create_subscription<WrenchStamped>(
    "/tested/wrench", 10, [&](const WrenchStamped & message) { of_sensor = message; });
  const auto second = watcher->create_subscription<WrenchStamped>(
    "/tested/wrench_in_frame", 10, [&](const WrenchStamped & message) { of_frame = message; });
  const auto client = watcher->create_client<ros2_dynid::srv::SetPayload>("/tested/set_tool");
  rclcpp::executors::SingleThreadedExecutor executor;
  executor.add_node(watcher);
  executor.add_node(shell.controller.get_node()->get_node_base_interface());

  ros2_dynid::WristSensor sensor(model, link, 0.05);
  ASSERT_TRUE(sensor.set_tool(tool));
  ros2_dynid::Wrench rest{};
  ASSERT_TRUE(shell.activate());
  EXPECT_THAT(told(), Each(Truly(is_nan)));
  int k = 0;
  std::vector<double> moved = q;
  const auto step = [&]
  {
    auto speed = dq;
    for (std::size_t j = 0; j < n; ++j)
      speed[j] += 1e-3 * k * static_cast<double>(j + 1), moved[j] += 1e-3 * speed[j];
    const ros2_dynid::Wrench wrench{5.0 + k, -4.0, 3.0, 0.2, -0.1 * k, 0.05};
    shell.measure(both(both(moved, speed), std::vector<double>(wrench.begin(), wrench.end())));
    ASSERT_EQ(shell.update(), return_type::OK);
    ASSERT_TRUE(sensor.update(moved.data(), speed.data(), wrench, 1.0 / rate, rest));
    EXPECT_THAT(told(), Pointwise(DoubleNear(1e-12), list_of(rest.data(), rest.size())));
    ++k;
  };
  while (k < 20) step();
  const auto list_in = [](const geometry_msgs::msg::Wrench & w) -> std::vector<double>
  { return {w.force.x, w.force.y, w.force.z, w.torque.x, w.torque.y, w.torque.z}; };
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::chrono::steady_clock::now() < limit && of_frame.header.frame_id.empty())
  {
    step();
    executor.spin_some(std::chrono::milliseconds(10));
  }
  const auto same = [&]  // an update after which both have come
  {
    for (int tries = 0; tries < 50; ++tries)
    {
      step();
      for (int wait = 0; wait < 20 && !(of_frame.header.stamp == shell.time); ++wait)
        executor.spin_some(std::chrono::milliseconds(10));
      if (of_frame.header.stamp == shell.time && of_sensor.header.stamp == shell.time) break;
    }
    EXPECT_EQ(of_sensor.header.frame_id, link.link);
    EXPECT_EQ(of_frame.header.frame_id, frame.link);
    const auto seen = sensor.seen_from(rest, moved.data(), frame);
    EXPECT_THAT(list_in(of_sensor.wrench), Pointwise(DoubleNear(1e-12), list_of(rest.data(), 6)));
    EXPECT_THAT(list_in(of_frame.wrench), Pointwise(DoubleNear(1e-12), list_of(seen.data(), 6)));
  };
  same();

  const auto ask = [&](double mass, const std::string & in) -> bool
  {
    auto request = std::make_shared<ros2_dynid::srv::SetPayload::Request>();
    request->link = in;
    request->payload.m = mass;
    request->payload.com.y = 0.03;
    request->payload.ixx = request->payload.iyy = request->payload.izz = 0.002;
    request->payload.ixz = 1e-4;
    auto answer = client->async_send_request(request);
    if (
      executor.spin_until_future_complete(answer, std::chrono::seconds(10)) !=
      rclcpp::FutureReturnCode::SUCCESS)
      return false;
    const auto response = answer.get();
    EXPECT_EQ(response->success, response->message.empty());
    return response->success;
  };
  EXPECT_FALSE(ask(-1.0, ""));
  EXPECT_FALSE(ask(1.0, frame.link));
  step();  // the tool is the old one
  EXPECT_TRUE(ask(1.0, link.link));
  auto heavier = tool;
  heavier.mass = 1.0;
  heavier.centre = {0.0, 0.03, 0.0};
  heavier.inertia = {0.002, 0.0, 1e-4, 0.002, 0.0, 0.002};
  ASSERT_TRUE(sensor.set_tool(heavier));
  step();
  same();

  ASSERT_TRUE(shell.states[n + 1]->set_value(unknown));
  ASSERT_EQ(shell.update(), return_type::OK);
  EXPECT_THAT(told(), Each(Truly(is_nan)));
  sensor.restart();
  step();
  ASSERT_TRUE(shell.deactivate());
  EXPECT_THAT(told(), Each(Truly(is_nan)));
}

TEST_F(ControllersTest, the_wrist_broadcaster_refuses_what_it_cannot_compute)
{
  const std::string link = ros2_dynid::load_model(model_path()).tools.front().link;
  const auto configured = [&](std::vector<rclcpp::Parameter> parameters)
  {
    parameters.emplace_back("sensor_name", "wrist");
    Shell<ros2_dynid::WristWrenchBroadcaster> shell(std::move(parameters));
    return shell.started && shell.configure();
  };
  EXPECT_TRUE(configured({{"link", link}}));
  EXPECT_FALSE(configured({}));
  EXPECT_FALSE(configured({{"link", "elbow"}}));
  EXPECT_FALSE(configured({{"link", link}, {"frame", "elbow"}}));
  EXPECT_FALSE(configured({{"link", link}, {"tool.mass", -1.0}}));
}

TEST(DescriptionTest, joints_are_read_as_the_urdf_has_them)
{
  const std::string limit = "<limit lower='-1' upper='1' velocity='1' effort='1'/>";
  const auto description = ros2_dynid::description_of(
    "<robot name='r'><link name='base'/><link name='a'/><link name='b'/><link name='c'/>"
    "<link name='d'/><joint name='turn' type='revolute'><parent link='base'/><child link='a'/>"
    "<origin xyz='0.1 -0.2 0.3' rpy='0 0 1.5707963267948966'/><axis xyz='0 0 2'/>" +
    limit +
    "</joint><joint name='slide' type='prismatic'><parent link='a'/><child link='b'/>"
    "<axis xyz='0 -3 0'/>" +
    limit +
    "</joint><joint name='follow' type='continuous'><parent link='b'/><child link='c'/>"
    "<mimic joint='turn' multiplier='-0.5' offset='0.25'/></joint>"
    "<joint name='tip' type='fixed'><parent link='c'/><child link='d'/></joint></robot>");
  std::map<std::string, ros2_dynid::DescribedJoint> joints;
  for (const auto & joint : description) joints[joint.name] = joint;
  ASSERT_EQ(joints.size(), 4u);
  const auto list = [](const ros2_dynid::Vec & v) -> std::vector<double>
  { return {v.x, v.y, v.z}; };
  const auto near = [](std::vector<double> values) { return Pointwise(DoubleNear(1e-12), values); };
  using ros2_dynid::DescribedMotion;
  const auto & turn = joints["turn"];
  EXPECT_EQ(turn.parent + " " + turn.child + turn.mimics, "base a");
  EXPECT_EQ(turn.motion, DescribedMotion::revolute);
  EXPECT_THAT(list(turn.axis), near({0, 0, 1}));
  EXPECT_THAT(list(turn.origin.p), near({0.1, -0.2, 0.3}));
  EXPECT_THAT(list(turn.origin.R.i), near({0, 1, 0}));
  EXPECT_THAT(list(turn.origin.R.j), near({-1, 0, 0}));
  EXPECT_THAT(list(turn.origin.R.k), near({0, 0, 1}));
  EXPECT_EQ(joints["slide"].motion, DescribedMotion::prismatic);
  EXPECT_THAT(list(joints["slide"].axis), near({0, -1, 0}));
  const auto & follow = joints["follow"];
  EXPECT_EQ(follow.motion, DescribedMotion::revolute);
  EXPECT_EQ(follow.mimics, "turn");
  EXPECT_EQ(follow.factor, -0.5);
  EXPECT_EQ(follow.offset, 0.25);
  EXPECT_EQ(joints["tip"].motion, DescribedMotion::fixed);
  EXPECT_THROW(ros2_dynid::description_of("<robot"), std::runtime_error);
}

TEST(DescriptionTest, efforts_are_read_where_every_joint_measures_them)
{
  const auto described = [](const std::vector<std::string> & measured)
  {
    std::string joints, hardware = "<hardware><plugin>none</plugin></hardware>";
    for (const std::string name : {"a", "b"})
    {
      joints += "<joint name='" + name + "' type='revolute'><parent link='base'/><child link='" +
                name + "_link'/><limit lower='-1' upper='1' velocity='1' effort='1'/></joint>" +
                "<link name='" + name + "_link'/>";
      hardware += "<joint name='" + name + "'><state_interface name='position'/>";
      for (const auto & one : measured)
        if (one == name) hardware += "<state_interface name='effort'/>";
      hardware += "</joint>";
    }
    return "<robot name='r'><link name='base'/>" + joints +
           "<ros2_control name='x' type='system'>" + hardware + "</ros2_control></robot>";
  };
  const std::vector<std::string> names{"a", "b"}, two{"position", "velocity"},
    three{"position", "velocity", "effort"};
  EXPECT_EQ(ros2_dynid::state_kinds(true, names, described({"a", "b"})), three);
  EXPECT_EQ(ros2_dynid::state_kinds(true, names, described({"b"})), two);
  EXPECT_EQ(ros2_dynid::state_kinds(true, names, described({})), two);
  EXPECT_EQ(ros2_dynid::state_kinds(true, names, ""), two);
  EXPECT_EQ(ros2_dynid::state_kinds(false, names, described({"a", "b"})), two);
}
