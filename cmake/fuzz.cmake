# libFuzzer: tests/fuzz/<name>.cpp becomes fuzz_<name>. A build of its own, by clang, whose coverage goes through the
# layers as well; warnings are judged by the ordinary build.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
  message(FATAL_ERROR "REPRISE_FUZZ needs clang: configure with -DCMAKE_CXX_COMPILER=clang++")
endif()
target_compile_options(reprise_options INTERFACE -fsanitize=fuzzer-no-link -Wno-error)

add_custom_target(fuzz)
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fuzz/*.cpp)
foreach(source ${sources})
  cmake_path(GET source STEM name)
  add_executable(fuzz_${name} EXCLUDE_FROM_ALL ${source})
  target_include_directories(fuzz_${name} PRIVATE include src tests)
  target_link_libraries(fuzz_${name} PRIVATE reprise_options reprise_jit)
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  set_target_properties(fuzz_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  add_dependencies(fuzz fuzz_${name})
endforeach()
