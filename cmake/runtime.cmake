# The C++ runtime: headers and the target ros2_dynid::runtime for find_package(ros2_dynid).
add_library(runtime INTERFACE)
add_library(${PROJECT_NAME}::runtime ALIAS runtime)
target_compile_features(runtime INTERFACE cxx_std_17)
target_include_directories(runtime INTERFACE
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
  "$<INSTALL_INTERFACE:include/${PROJECT_NAME}>")
install(DIRECTORY include/${PROJECT_NAME} DESTINATION include/${PROJECT_NAME} FILES_MATCHING PATTERN "*.hpp")
install(TARGETS runtime EXPORT ${PROJECT_NAME}_runtime)

if(DYNID_RUNTIME_ONLY)  # else ament_package() writes the package's configuration
  include(CMakePackageConfigHelpers)
  file(READ package.xml package)
  string(REGEX MATCH "<version>([^<]+)</version>" _ "${package}")
  set(config "${CMAKE_CURRENT_BINARY_DIR}/${PROJECT_NAME}Config.cmake")
  file(WRITE "${config}" "include(\"\${CMAKE_CURRENT_LIST_DIR}/${PROJECT_NAME}_runtime.cmake\")\n")
  write_basic_package_version_file("${config}Version.cmake" VERSION ${CMAKE_MATCH_1} COMPATIBILITY SameMajorVersion
    ARCH_INDEPENDENT)
  set(share share/${PROJECT_NAME}/cmake)
  install(EXPORT ${PROJECT_NAME}_runtime NAMESPACE ${PROJECT_NAME}:: DESTINATION ${share})
  install(FILES "${config}" DESTINATION ${share})
  install(FILES "${config}Version.cmake" DESTINATION ${share} RENAME ${PROJECT_NAME}ConfigVersion.cmake)
else()
  ament_export_targets(${PROJECT_NAME}_runtime)
endif()
