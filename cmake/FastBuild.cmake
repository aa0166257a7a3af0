# MILLRACE_FAST_BUILD is for a build from nothing; deploy/quickstart and tests/run set it. A
# compiler spends most of its time for one source on headers. So several sources of a target are
# compiled as one. While somebody works on a few sources, OFF compiles less after each change.
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
    target_compile_options(millrace_options INTERFACE -Wno-subobject-linkage)
  endif()
endif()
