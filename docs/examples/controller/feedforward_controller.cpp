#include "feedforward_controller.hpp"

#include "pluginlib/class_list_macros.hpp"

PLUGINLIB_EXPORT_CLASS(FeedforwardController, controller_interface::ControllerInterface)
