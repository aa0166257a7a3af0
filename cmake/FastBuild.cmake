# MILLRACE_FAST_BUILD is for a build from nothing: deploy/quickstart and tests/run set it. Most of what
# the compiler does for one source is to read headers, so several sources of a target are compiled as
# one. While somebody works on a few sources, OFF compiles less again.
#
# Sources of one target must therefore have no local name in common.
#
# Sources with compiler options of their own (set_source_files_properties) are compiled alone: CMake
# leaves them out of the batches.

option(MILLRACE_FAST_BUILD "compile several sources at once, for a build from nothing" OFF)
set(MILLRACE_FAST_BUILD_BATCH 16 CACHE STRING "sources that MILLRACE_FAST_BUILD compiles at once")

if(MILLRACE_FAST_BUILD)
  set(CMAKE_UNITY_BUILD ON)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE ${MILLRACE_FAST_BUILD_BATCH})
  # Two warnings that mistake the sources of a batch for headers of each other: a local name like
  # one of another source, and a type of an unnamed namespace inside a class. Other builds have them.
  target_compile_options(millrace_options INTERFACE -Wno-shadow)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(millrace_options INTERFACE -Wno-subobject-linkage)
  endif()
endif()
