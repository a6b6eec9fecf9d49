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

# The controllers' lifecycle, without a manager: where they are built.
if(TARGET ${PROJECT_NAME}_controllers)
  find_package(ament_cmake_gmock REQUIRED)
  set(model "${CMAKE_CURRENT_BINARY_DIR}/demo6.dynid")
  add_custom_command(OUTPUT "${model}"
    COMMAND ${CMAKE_COMMAND} -E env "PYTHONPATH=${CMAKE_CURRENT_SOURCE_DIR}:$ENV{PYTHONPATH}"
      "${Python3_EXECUTABLE}" "${CMAKE_CURRENT_SOURCE_DIR}/test/controllers/write_model.py" "${model}"
    DEPENDS test/controllers/write_model.py)
  ament_add_gmock(controllers_lifecycle test/controllers/test_lifecycle.cpp "${model}" ENV DYNID_TEST_MODEL=${model})
  target_include_directories(controllers_lifecycle PRIVATE src/controllers)
  get_target_property(libraries ${PROJECT_NAME}_controllers LINK_LIBRARIES)
  target_link_libraries(controllers_lifecycle ${PROJECT_NAME}_controllers ${libraries})
endif()
