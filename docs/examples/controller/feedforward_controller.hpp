// A ros2_control controller: tau = model(q_r, dq_r, ddq_r) + Kp (q_r - q) + Kd (dq_r - dq), at the control rate.
// For controller_interface 4.30 (Jazzy) and newer. Put it, with the generated folder, into a package of your own.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "arm_model.hpp"
#include "controller_interface/controller_interface.hpp"
#include "realtime_tools/realtime_buffer.hpp"
#include "trajectory_msgs/msg/joint_trajectory_point.hpp"

class FeedforwardController : public controller_interface::ControllerInterface
{
  using Point = trajectory_msgs::msg::JointTrajectoryPoint;
  using CallbackReturn = controller_interface::CallbackReturn;
  using Configuration = controller_interface::InterfaceConfiguration;

public:
  CallbackReturn on_init() override
  {
    auto_declare<std::vector<std::string>>("joints", {});
    auto_declare<std::vector<double>>("kp", {});             // [N.m/rad]
    auto_declare<std::vector<double>>("kd", {});             // [N.m.s/rad]
    auto_declare<std::vector<double>>("effort_limits", {});  // [N.m]
    auto_declare<double>("timeout", 0.05);                   // [s] without a reference: gravity and damping only
    return CallbackReturn::SUCCESS;
  }

  Configuration command_interface_configuration() const override { return interfaces({"effort"}); }
  Configuration state_interface_configuration() const override { return interfaces({"position", "velocity"}); }

  CallbackReturn on_configure(const rclcpp_lifecycle::State &) override
  {
    ArmModel::Vector limits;
    if (!read("kp", kp_) || !read("kd", kd_) || !read("effort_limits", limits) || names().size() != ArmModel::joints) {
      RCLCPP_ERROR(get_node()->get_logger(), "joints, kp, kd and effort_limits need %zu values", ArmModel::joints);
      return CallbackReturn::ERROR;
    }
    limits_ = limits;
    model_ = std::make_unique<ArmModel>(limits);
    timeout_ = get_node()->get_parameter("timeout").as_double();
    subscription_ = get_node()->create_subscription<Point>(
      "~/reference", rclcpp::SystemDefaultsQoS(), [this](const Point::SharedPtr point) {
        const auto n = ArmModel::joints;
        if (point->positions.size() == n && point->velocities.size() == n && point->accelerations.size() == n &&
            finite(point->positions) && finite(point->velocities) && finite(point->accelerations)) {
          reference_.writeFromNonRT(Stamped{point, get_node()->now()});
        }
      });
    return CallbackReturn::SUCCESS;
  }

  CallbackReturn on_activate(const rclcpp_lifecycle::State &) override
  {
    reference_.writeFromNonRT(Stamped{});  // never follow a reference from before the activation
    ArmModel::Vector q, dq;
    if (!measure(q, dq)) {
      RCLCPP_ERROR(get_node()->get_logger(), "a joint's position or velocity is not known");
      return CallbackReturn::ERROR;
    }
    return write(model_->gravity(q)) ? CallbackReturn::SUCCESS : CallbackReturn::ERROR;  // the arm must not fall
  }

  CallbackReturn on_deactivate(const rclcpp_lifecycle::State &) override
  {
    // The hardware keeps the last command: leave what holds the arm, not what the motion needed. Without a
    // measurement the last good one serves; without any, zero.
    ArmModel::Vector q, dq;
    const bool known = measure(q, dq) || has_measured_;
    return write(known ? model_->gravity(last_q_) : ArmModel::Vector{}) ? CallbackReturn::SUCCESS : CallbackReturn::ERROR;
  }

  controller_interface::return_type update(const rclcpp::Time & time, const rclcpp::Duration &) override
  {
    ArmModel::Vector q, dq, tau;
    if (!measure(q, dq)) return controller_interface::return_type::ERROR;  // the manager deactivates: gravity
    const Stamped reference = *reference_.readFromRT();
    const bool fresh = reference.point && (time - reference.stamp).seconds() < timeout_;
    if (fresh) {
      ArmModel::Vector q_r, dq_r, ddq_r;
      for (std::size_t j = 0; j < ArmModel::joints; ++j) {
        q_r[j] = reference.point->positions[j];
        dq_r[j] = reference.point->velocities[j];
        ddq_r[j] = reference.point->accelerations[j];
      }
      tau = model_->feedforward(q_r, dq_r, ddq_r);  // friction by the sign of the reference: no chatter at rest
      for (std::size_t j = 0; j < ArmModel::joints; ++j) {
        tau[j] += kp_[j] * (q_r[j] - q[j]) + kd_[j] * (dq_r[j] - dq[j]);
      }
    } else {
      tau = model_->gravity(q);
      for (std::size_t j = 0; j < ArmModel::joints; ++j) tau[j] -= kd_[j] * dq[j];
    }
    return write(tau) ? controller_interface::return_type::OK : controller_interface::return_type::ERROR;
  }

private:
  /// Read position and velocity of every joint; false if one is missing or not finite.
  bool measure(ArmModel::Vector & q, ArmModel::Vector & dq)
  {
    for (std::size_t j = 0; j < ArmModel::joints; ++j) {
      const auto position = state_interfaces_[2 * j].get_optional<double>();
      const auto velocity = state_interfaces_[2 * j + 1].get_optional<double>();
      if (!position || !velocity || !std::isfinite(*position) || !std::isfinite(*velocity)) return false;
      q[j] = *position;
      dq[j] = *velocity;
    }
    last_q_ = q;
    has_measured_ = true;
    return true;
  }

  /// The one place that commands: every torque is finite and within its limit.
  bool write(const ArmModel::Vector & tau)
  {
    bool written = true;
    for (std::size_t j = 0; j < ArmModel::joints; ++j) {
      const double finite = std::isfinite(tau[j]) ? tau[j] : 0.0;  // fmin and fmax would turn NaN into a limit
      const double bounded = std::fmax(-limits_[j], std::fmin(limits_[j], finite));
      written = command_interfaces_[j].set_value(bounded) && written;
    }
    return written;
  }

  static bool finite(const std::vector<double> & values)
  {
    return std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
  }

  struct Stamped
  {
    Point::SharedPtr point;
    rclcpp::Time stamp{0, 0, RCL_ROS_TIME};
  };

  std::vector<std::string> names() const { return get_node()->get_parameter("joints").as_string_array(); }

  Configuration interfaces(const std::vector<std::string> & kinds) const
  {
    Configuration wanted{controller_interface::interface_configuration_type::INDIVIDUAL, {}};
    for (const auto & joint : names()) {
      for (const auto & kind : kinds) wanted.names.push_back(joint + "/" + kind);
    }
    return wanted;
  }

  bool read(const std::string & name, ArmModel::Vector & into) const
  {
    const auto values = get_node()->get_parameter(name).as_double_array();
    if (values.size() != into.size()) return false;
    std::copy(values.begin(), values.end(), into.begin());
    return true;
  }

  std::unique_ptr<ArmModel> model_;
  ArmModel::Vector kp_{}, kd_{}, limits_{};
  ArmModel::Vector last_q_{};
  bool has_measured_ = false;
  double timeout_ = 0.05;
  rclcpp::Subscription<Point>::SharedPtr subscription_;
  realtime_tools::RealtimeBuffer<Stamped> reference_;
};
