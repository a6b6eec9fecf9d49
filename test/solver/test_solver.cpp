// SPDX-License-Identifier: Apache-2.0
// The solver plugin, loaded as any program that uses inverse_dynamics_solver loads it, against the
// runtime. Needs a model in the variable DYNID_TEST_MODEL.
#include <gmock/gmock.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#if __has_include(<inverse_dynamics_solver/inverse_dynamics_solver.hpp>)
#include <inverse_dynamics_solver/exceptions.hpp>
#include <inverse_dynamics_solver/inverse_dynamics_solver.hpp>
#else
#include <inverse_dynamics_solver/exceptions.h>
#include <inverse_dynamics_solver/inverse_dynamics_solver.h>
#endif

#include "pluginlib/class_loader.hpp"
#include "rclcpp/rclcpp.hpp"
#include "ros2_dynid/dynamics.hpp"

namespace
{
using Solver = inverse_dynamics_solver::InverseDynamicsSolver;
using Vector = Eigen::VectorXd;

class SolverTest : public testing::Test
{
protected:
  static void SetUpTestSuite() { rclcpp::init(0, nullptr); }
  static void TearDownTestSuite() { rclcpp::shutdown(); }

  /// A solver with these parameters in the namespace `solver`.
  std::shared_ptr<Solver> solver(
    const std::vector<rclcpp::Parameter> & parameters, const std::string & description = "")
  {
    auto options = rclcpp::NodeOptions()
                     .allow_undeclared_parameters(true)
                     .automatically_declare_parameters_from_overrides(true)
                     .parameter_overrides(parameters);
    node_ = std::make_shared<rclcpp::Node>("solver_test", options);
    auto loaded = loader_.createSharedInstance("ros2_dynid/IdentifiedSolver");
    loaded->initialize(node_->get_node_parameters_interface(), "solver", description);
    return loaded;
  }

  const std::string path_ = std::getenv("DYNID_TEST_MODEL");
  pluginlib::ClassLoader<Solver> loader_{
    "inverse_dynamics_solver", "inverse_dynamics_solver::InverseDynamicsSolver"};
  rclcpp::Node::SharedPtr node_;
};

double largest(const Vector & x) { return x.cwiseAbs().maxCoeff(); }

TEST_F(SolverTest, EqualsTheRuntimeOnRandomMotions)
{
  const ros2_dynid::Model model = ros2_dynid::load_model(path_);
  ros2_dynid::Dynamics dynamics(model);
  const auto n = static_cast<Eigen::Index>(dynamics.joints());
  const rclcpp::Parameter file("solver.model", path_);
  const auto whole = solver({file});
  const auto bare =
    solver({file, {"solver.leave_out", std::vector<std::string>{"gravity", "friction"}}});
  std::mt19937 random(7);
  std::uniform_real_distribution<double> number(-2.0, 2.0);
  Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> M(n, n);
  for (int k = 0; k < 1000; ++k)
  {
    Vector q(n), dq(n), ddq(n), tau(n), C(n), Q(n), friction(n), rigid(n);
    for (Eigen::Index a = 0; a < n; ++a) q[a] = number(random);
    for (Eigen::Index a = 0; a < n; ++a) dq[a] = number(random), ddq[a] = 3.0 * number(random);
    dynamics.inverse_dynamics(q.data(), dq.data(), ddq.data(), tau.data());
    dynamics.inertia(q.data(), M.data());
    dynamics.velocity_torque(q.data(), dq.data(), C.data());
    dynamics.gravity(q.data(), Q.data());
    dynamics.friction(dq.data(), Vector::Zero(n).eval().data(), friction.data());
    const double tolerance = 1e-12 * (1.0 + largest(tau));
    EXPECT_LE(largest(whole->getTorques(q, dq, ddq) - tau), tolerance);
    EXPECT_LE((whole->getInertiaMatrix(q) - M).cwiseAbs().maxCoeff(), tolerance);
    EXPECT_LE(largest(whole->getCoriolisVector(q, dq) - C), tolerance);
    EXPECT_LE(largest(whole->getGravityVector(q) - Q), tolerance);
    EXPECT_LE(largest(whole->getFrictionVector(dq) - friction), tolerance);
    dynamics.rigid(q.data(), dq.data(), ddq.data(), rigid.data());
    EXPECT_LE(largest(bare->getTorques(q, dq, ddq) - (rigid - Q)), tolerance);
    EXPECT_EQ(largest(bare->getGravityVector(q)), 0.0);
    EXPECT_EQ(largest(bare->getFrictionVector(dq)), 0.0);
    EXPECT_LE(largest(bare->getInertiaMatrix(q) * ddq + C - (rigid - Q)), 100 * tolerance);
  }
}

TEST_F(SolverTest, WrongParametersAreRefused)
{
  using inverse_dynamics_solver::InvalidParameterValueException;
  const rclcpp::Parameter file("solver.model", path_);
  EXPECT_THROW(solver({}), inverse_dynamics_solver::ParameterUninitializedException);
  EXPECT_THROW(
    solver({rclcpp::Parameter("solver.model", "/nowhere")}), InvalidParameterValueException);
  EXPECT_THROW(
    solver({file, {"solver.leave_out", std::vector<std::string>{"inertia"}}}),
    InvalidParameterValueException);
  EXPECT_THROW(
    solver({file}, "<robot name='other'><link name='base'/></robot>"),
    InvalidParameterValueException);
  const auto well = solver({file});
  EXPECT_THROW(well->getGravityVector(Vector::Zero(2)), std::invalid_argument);
  auto raw = loader_.createSharedInstance("ros2_dynid/IdentifiedSolver");
  EXPECT_THROW(
    raw->getGravityVector(Vector::Zero(6)), inverse_dynamics_solver::UninitializedException);
}
}  // namespace
