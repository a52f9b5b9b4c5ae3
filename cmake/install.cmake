# What `cmake --install` lays down: libreprise.so, the public headers, and the package that find_package(reprise) reads.
include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/reprise)

if(TARGET reprise)
  install(TARGETS reprise EXPORT reprise)
  install(EXPORT reprise FILE repriseTargets.cmake NAMESPACE reprise:: DESTINATION ${package})
  install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h PATTERN *.def)
  configure_package_config_file(cmake/repriseConfig.cmake.in ${PROJECT_BINARY_DIR}/repriseConfig.cmake
    INSTALL_DESTINATION ${package})
  # Before 1.0 a minor version may break the API.
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/repriseConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/repriseConfig.cmake ${PROJECT_BINARY_DIR}/repriseConfigVersion.cmake
    DESTINATION ${package})
endif()
