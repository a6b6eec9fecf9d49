// SPDX-License-Identifier: Apache-2.0
// A URDF as the joints that a model is compared with.
#pragma once

#include <string>

#include "ros2_dynid/description.hpp"

namespace ros2_dynid
{

/// The joints of a URDF; throws std::runtime_error if it cannot be read.
Description description_of(const std::string & urdf);

}  // namespace ros2_dynid
