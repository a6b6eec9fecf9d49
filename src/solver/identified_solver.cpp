// SPDX-License-Identifier: Apache-2.0
// The identified model as a solver of inverse_dynamics_solver. What it computes is in
// torque_parts.hpp.
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#if __has_include(<inverse_dynamics_solver/inverse_dynamics_solver.hpp>)
#include <inverse_dynamics_solver/exceptions.hpp>
#include <inverse_dynamics_solver/inverse_dynamics_solver.hpp>
#else  // up to its version 0.1
#include <inverse_dynamics_solver/exceptions.h>
#include <inverse_dynamics_solver/inverse_dynamics_solver.h>
#endif

#include "../controllers/urdf_description.hpp"
#include "pluginlib/class_list_macros.hpp"
#include "rclcpp/parameter.hpp"
#include "ros2_dynid/torque_parts.hpp"

namespace ros2_dynid
{

/// Vectors are in the order of the model's active joints.
class IdentifiedSolver : public inverse_dynamics_solver::InverseDynamicsSolver
{
public:
  using Vector = Eigen::VectorXd;

  /// Parameters, in the namespace: `model`, file of dynid export MODEL --to runtime; `leave_out`,
  /// list of gravity and friction. A robot description that is given must be of the model's robot.
  void initialize(
    rclcpp::node_interfaces::NodeParametersInterface::ConstSharedPtr parameters,
    const std::string & param_namespace, const std::string & robot_description) override
  {
    using inverse_dynamics_solver::InvalidParameterValueException;
    const std::string prefix = param_namespace.empty() ? "" : param_namespace + ".";
    rclcpp::Parameter path, leave_out;
    if (!parameters || !parameters->get_parameter(prefix + "model", path))
    {
      throw inverse_dynamics_solver::ParameterUninitializedException(
        "set " + prefix + "model to the file that dynid export MODEL --to runtime wrote");
    }
    try
    {
      const Model model = load_model(path.as_string());
      refuse_loops(model, "solvers");
      std::vector<std::string> parts;
      if (parameters->get_parameter(prefix + "leave_out", leave_out))
        parts = leave_out.as_string_array();
      const std::string why =
        robot_description.empty()
          ? ""
          : difference_from_description(model, description_of(robot_description));
      if (!why.empty()) throw std::runtime_error(path.as_string() + ": " + why);
      parts_ = std::make_unique<TorqueParts>(model, left_out(parts));
    }
    catch (const std::exception & error)
    {
      throw InvalidParameterValueException(error.what());
    }
  }

  Eigen::MatrixXd getInertiaMatrix(const Vector & q) const override
  {
    Eigen::MatrixXd M(q.size(), q.size());
    const auto guard = use(q);
    parts_->inertia(q.data(), M.data());  // symmetric: by rows or by columns
    return M;
  }

  Vector getCoriolisVector(const Vector & q, const Vector & dq) const override
  {
    Vector tau(q.size());
    const auto guard = use(q, dq);
    parts_->velocity_torque(q.data(), dq.data(), tau.data());
    return tau;
  }

  Vector getGravityVector(const Vector & q) const override
  {
    Vector tau(q.size());
    const auto guard = use(q);
    parts_->gravity(q.data(), tau.data());
    return tau;
  }

  Vector getFrictionVector(const Vector & dq) const override
  {
    Vector tau(dq.size());
    const auto guard = use(dq);
    parts_->friction(dq.data(), tau.data());
    return tau;
  }

  /// With friction, also that of the load, unless it is left out.
  Vector getTorques(const Vector & q, const Vector & dq, const Vector & ddq) const override
  {
    Vector tau(q.size());
    const auto guard = use(q, dq, ddq);
    parts_->torque(q.data(), dq.data(), ddq.data(), tau.data());
    return tau;
  }

private:
  /// Check the sizes of vectors and lock: the functions are const, what they compute with is not.
  template <typename... Vectors>
  std::unique_lock<std::mutex> use(const Vectors &... vectors) const
  {
    if (!parts_) throw inverse_dynamics_solver::UninitializedException();
    const auto n = static_cast<Eigen::Index>(parts_->joints());
    if (!((vectors.size() == n) && ...))
      throw std::invalid_argument("give vectors of " + std::to_string(n) + " joints");
    return std::unique_lock<std::mutex>(mutex_);
  }

  std::unique_ptr<TorqueParts> parts_;
  mutable std::mutex mutex_;
};

}  // namespace ros2_dynid

PLUGINLIB_EXPORT_CLASS(ros2_dynid::IdentifiedSolver, inverse_dynamics_solver::InverseDynamicsSolver)
