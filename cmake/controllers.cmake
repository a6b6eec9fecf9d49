# Controllers for ros2_control, where it is installed.
find_package(controller_interface QUIET)
if(NOT controller_interface_FOUND)
  message(STATUS "ros2_dynid: controllers are left out, since controller_interface is not installed")
  return()
endif()
