# libreprise.so: all layers in one shared object, LLVM linked in statically, only the public API visible.
set(layers reprise_trace reprise_jit reprise_cpu reprise_api)
foreach(layer ${layers})
  get_target_property(type ${layer} TYPE)
  if(NOT type STREQUAL STATIC_LIBRARY)
    message(STATUS "no libreprise.so: ${layer} has no sources")
    return()
  endif()
  target_compile_options(${layer} PRIVATE -ffunction-sections -fdata-sections)
endforeach()

# The layers' objects, not their archives: from an archive the linker takes only what something else refers to.
list(TRANSFORM layers REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
add_library(reprise SHARED ${objects})
add_library(reprise::reprise ALIAS reprise)
set_target_properties(reprise PROPERTIES
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}
  LINKER_LANGUAGE CXX
  LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/exports.map)
target_include_directories(reprise INTERFACE
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(reprise INTERFACE cxx_std_20)
target_link_libraries(reprise PRIVATE reprise_options ${layers})
target_link_options(reprise PRIVATE
  -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/exports.map -Wl,--gc-sections -Wl,--as-needed)
if(NOT REPRISE_SANITIZE)
  target_link_options(reprise PRIVATE -Wl,-z,defs)  # a sanitizer's symbols may come from the executable
endif()
