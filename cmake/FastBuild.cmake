# MILLRACE_FAST_BUILD is for a build from nothing; deploy/quickstart and tests/run set it. A
# compiler spends most of its time for one source on headers. So several sources of a target are
# compiled as one, and headers from outside that most of them include are compiled once. While
# somebody works on a few sources, OFF compiles less after each change.
#
# So two sources of one target must not have a local name in common.
#
# Sources with compiler options of their own (set_source_files_properties) are compiled alone: CMake
# leaves them out of the batches.

option(MILLRACE_FAST_BUILD "compile several sources at once, for a build from nothing" OFF)
set(MILLRACE_FAST_BUILD_BATCH 16 CACHE STRING "sources that MILLRACE_FAST_BUILD compiles at once")

if(MILLRACE_FAST_BUILD)
  set(CMAKE_UNITY_BUILD ON)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE ${MILLRACE_FAST_BUILD_BATCH})
  # These two warnings mistake the sources that are compiled as one for headers of each other: they
  # report a local name that equals one of another source, and a type of an unnamed namespace inside
  # a class. Other builds have both warnings on.
  target_compile_options(millrace_options INTERFACE -Wno-shadow)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # ccache needs -fpch-preprocess for sources that use compiled headers.
    target_compile_options(millrace_options INTERFACE -Wno-subobject-linkage -fpch-preprocess)
  endif()
endif()

# Compiles the common headers, once with each level of optimisation. The messages (proto) have to be
# declared before.
function(millrace_compile_common_headers)
  if(NOT MILLRACE_FAST_BUILD)
    return()
  endif()
  # GCC takes compiled headers only if the macros that they look at have the same values. -pthread
  # defines one, and some libraries ask for it.
  target_compile_definitions(millrace_options INTERFACE
    $<TARGET_PROPERTY:fmt::fmt,INTERFACE_COMPILE_DEFINITIONS>)
  target_compile_options(millrace_options INTERFACE -pthread)
  # Written only if it changes: all that is compiled depends on it.
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/common_headers.cc
    CONTENT "// The common headers, and nothing else.\n")
  foreach(target millrace_common_headers millrace_common_headers_quickly)
    add_library(${target} OBJECT ${PROJECT_BINARY_DIR}/common_headers.cc)
    target_link_libraries(${target} PRIVATE millrace_options millrace_proto fmt::fmt)
    set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
    target_precompile_headers(${target} PRIVATE
      <algorithm> <atomic> <chrono> <cstdint> <deque> <filesystem> <functional> <map> <memory>
      <optional> <set> <span> <string> <string_view> <system_error> <thread> <utility> <variant>
      <vector> <fmt/core.h> <fmt/format.h>
      <millrace/v1/dispatcher.pb.h> <millrace/v1/worker.pb.h> <millrace/v1/pipeline.pb.h>)
  endforeach()
  target_compile_options(millrace_common_headers_quickly PRIVATE ${MILLRACE_QUICKLY})
endfunction()

# Lets a library use the compiled headers. Sources with options of their own cannot.
function(millrace_use_common_headers target headers)
  if(MILLRACE_FAST_BUILD)
    set_target_properties(${target} PROPERTIES PRECOMPILE_HEADERS_REUSE_FROM ${headers})
    add_dependencies(${target} ${headers})
  endif()
endfunction()

# millrace_share_headers(HEADERS ... TARGETS ...): targets with the same options share compiled
# headers. The first target compiles them.
function(millrace_share_headers)
  cmake_parse_arguments(arg "" "" "HEADERS;TARGETS" ${ARGN})
  if(NOT MILLRACE_FAST_BUILD)
    return()
  endif()
  list(POP_FRONT arg_TARGETS first)
  get_target_property(shared ${first} PRECOMPILE_HEADERS)
  if(NOT shared)
    target_precompile_headers(${first} PRIVATE ${arg_HEADERS})
  endif()
  foreach(target ${arg_TARGETS})
    target_precompile_headers(${target} REUSE_FROM ${first})
  endforeach()
endfunction()
