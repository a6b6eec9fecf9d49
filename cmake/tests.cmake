# `colcon test`: the Python tests against what is installed, one test for each folder of test/ that mirrors a package, and
# for each file beside them. test/runtime and test/controllers build and run the C++ tests. test/bootstrap, test/docs and
# test_architecture.py test the checkout: ./dynid test runs them.
find_package(ament_cmake_pytest REQUIRED)
set(real_time nodes)  # measure milliseconds: nothing else may run beside them
set(of_checkout bootstrap docs test_architecture)
file(GLOB files RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}/test" CONFIGURE_DEPENDS test/test_*.py test/*/test_*.py)
set(tests "")
foreach(file ${files})
  string(REGEX REPLACE "/.*|\\.py$" "" name "${file}")
  list(APPEND tests ${name})
endforeach()
list(REMOVE_DUPLICATES tests)
list(REMOVE_ITEM tests ${of_checkout})
foreach(name ${tests})
  set(path "test/${name}")
  if(NOT IS_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}/${path}")
    set(path "${path}.py")
  endif()
  ament_add_pytest_test(${name} ${path} TIMEOUT 1200
    ENV DYNID_LEAVE_OUT=1 OMP_NUM_THREADS=1 ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST)
  if(name IN_LIST real_time)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE)
  endif()
endforeach()
list(LENGTH tests count)
message(STATUS "ros2_dynid: ${count} tests: ${tests}")

# The controllers' lifecycle without a manager, and the solver plugin through pluginlib: where they are built.
if(TARGET ${PROJECT_NAME}_controllers OR TARGET ${PROJECT_NAME}_solver)
  find_package(ament_cmake_gmock REQUIRED)
  set(model "${CMAKE_CURRENT_BINARY_DIR}/demo6.dynid")
  add_custom_command(OUTPUT "${model}"
    COMMAND ${CMAKE_COMMAND} -E env "PYTHONPATH=${CMAKE_CURRENT_SOURCE_DIR}:$ENV{PYTHONPATH}"
      "${Python3_EXECUTABLE}" "${CMAKE_CURRENT_SOURCE_DIR}/test/controllers/write_model.py" "${model}"
    DEPENDS test/controllers/write_model.py)
  add_custom_target(test_model DEPENDS "${model}")
endif()
if(TARGET ${PROJECT_NAME}_controllers)
  ament_add_gmock(controllers_lifecycle test/controllers/test_lifecycle.cpp ENV DYNID_TEST_MODEL=${model})
  target_include_directories(controllers_lifecycle PRIVATE src/controllers)
  get_target_property(libraries ${PROJECT_NAME}_controllers LINK_LIBRARIES)
  target_link_libraries(controllers_lifecycle ${PROJECT_NAME}_controllers ${libraries})
  add_dependencies(controllers_lifecycle test_model)
endif()
if(TARGET ${PROJECT_NAME}_solver)
  ament_add_gmock(solver_plugin test/solver/test_solver.cpp ENV DYNID_TEST_MODEL=${model})
  target_include_directories(solver_plugin SYSTEM PRIVATE ${inverse_dynamics_solver_INCLUDE_DIRS})
  target_link_libraries(solver_plugin runtime Eigen3::Eigen pluginlib::pluginlib rclcpp::rclcpp)
  add_dependencies(solver_plugin test_model)
endif()

# The linters of ament, where they are installed. The braces are those of ros2_control; licences are SPDX lines, which a
# test of its own looks for; clang-format keeps the columns.
foreach(linter cpplint lint_cmake)
  find_program(ament_${linter}_BIN NAMES ament_${linter})
  find_package(ament_cmake_${linter} QUIET)
  if(NOT ament_${linter}_BIN OR NOT ament_cmake_${linter}_FOUND)
    message(STATUS "ros2_dynid: ament_${linter} is not run: it is not installed")
  elseif(linter STREQUAL "cpplint")
    ament_cpplint(FILTERS -legal/copyright -whitespace/newline -whitespace/line_length MAX_LINE_LENGTH 100 include src)
  else()
    ament_lint_cmake(CMakeLists.txt cmake)
  endif()
endforeach()
