# Controllers for ros2_control. Says what is built, and why it is not.
string(TOUPPER "${DYNID_CONTROLLERS}" wanted)
if(wanted STREQUAL "OFF")
  message(STATUS "ros2_dynid: controllers are left out: DYNID_CONTROLLERS is OFF")
  return()
endif()
find_package(controller_interface QUIET)
if(NOT controller_interface_FOUND AND controller_interface_CONSIDERED_CONFIGS)
  message(FATAL_ERROR "ros2_dynid: controller_interface is installed but cannot be used: "
    "${controller_interface_CONSIDERED_CONFIGS}: ${controller_interface_NOT_FOUND_MESSAGE}; "
    "repair ros2_control, or leave the controllers out: -DDYNID_CONTROLLERS=OFF")
elseif(NOT controller_interface_FOUND AND wanted STREQUAL "ON")
  message(FATAL_ERROR "ros2_dynid: controller_interface is not installed: install ros2_control, "
    "or leave the controllers out: -DDYNID_CONTROLLERS=OFF")
elseif(NOT controller_interface_FOUND)
  message(WARNING "ros2_dynid: controllers are left out: controller_interface is not installed")
  return()
endif()
message(STATUS "ros2_dynid: controllers are built with ros2_control ${controller_interface_VERSION}")
foreach(package generate_parameter_library hardware_interface pluginlib rclcpp rclcpp_lifecycle realtime_tools sensor_msgs urdf)
  find_package(${package} REQUIRED)
endforeach()

set(folder src/controllers)
set(controllers feedforward_controller hand_guiding_controller brake_controller external_effort_broadcaster
  wrist_wrench_broadcaster)
add_library(${PROJECT_NAME}_controllers SHARED ${folder}/urdf_description.cpp ${folder}/live_model.cpp)
foreach(controller ${controllers})
  generate_parameter_library(${controller}_parameters ${folder}/${controller}_parameters.yaml)
  target_sources(${PROJECT_NAME}_controllers PRIVATE ${folder}/${controller}.cpp)
  target_link_libraries(${PROJECT_NAME}_controllers PRIVATE ${controller}_parameters)
endforeach()
rosidl_get_typesupport_target(typesupport ${PROJECT_NAME} rosidl_typesupport_cpp)
target_link_libraries(${PROJECT_NAME}_controllers PRIVATE
  runtime
  "${typesupport}"
  controller_interface::controller_interface
  hardware_interface::hardware_interface
  pluginlib::pluginlib
  rclcpp::rclcpp
  rclcpp_lifecycle::rclcpp_lifecycle
  realtime_tools::realtime_tools
  urdf::urdf
  ${geometry_msgs_TARGETS}
  ${sensor_msgs_TARGETS}
  ${trajectory_msgs_TARGETS}
)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  target_compile_options(${PROJECT_NAME}_controllers PRIVATE -O2)  # they run at the control rate
endif()
pluginlib_export_plugin_description_file(controller_interface ${folder}/controllers.xml)
install(TARGETS ${PROJECT_NAME}_controllers LIBRARY DESTINATION lib COMPONENT controllers)
