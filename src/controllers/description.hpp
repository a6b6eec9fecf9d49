// SPDX-License-Identifier: Apache-2.0
// Whether a model is of the robot that a URDF describes: the paths of its last links must agree.
#pragma once

#include <string>

#include "ros2_dynid/model.hpp"

namespace ros2_dynid
{

/// Why the model is not of the robot of this URDF, or nothing ("") if it is. Models without links
/// are told by joint names alone.
std::string difference_from_description(const Model & model, const std::string & urdf);

}  // namespace ros2_dynid
