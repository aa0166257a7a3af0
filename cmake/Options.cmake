# Language, warnings, sanitizers and ccache for every target of the tree.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

option(MILLRACE_PYTHON "build the compiled part of the Python package (client/python)" OFF)
option(MILLRACE_CUDA "deliver to GPUs too (device=\"cuda:N\"); needs nvcc" OFF)
set(MILLRACE_CUDA_ARCHITECTURES "80-real;90-real;100" CACHE STRING "GPUs that kernels are compiled for")
option(MILLRACE_BENCH "with the tests, build the programs that measure (tests/bench)" ON)
option(MILLRACE_CHECKS "fail at warnings and at includes that a module must not have; OFF for users" ON)
option(MILLRACE_FUZZ "link tests/fuzz with libFuzzer; needs clang, see the preset fuzz" OFF)
set(MILLRACE_SANITIZE "" CACHE STRING "sanitizers to build with, for example address,undefined")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(MILLRACE_CCACHE ccache)
if(MILLRACE_CCACHE)
  # Paths are relative to the checkout, so that build folders share objects: pip's build folder
  # compiles the whole daemon too.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}
    CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros ${MILLRACE_CCACHE})
endif()

# -Og compiles in less than two thirds of the time that -O2 takes. What runs for each batch or example
# has -O2 or more (HOT of millrace_module).
set(CMAKE_CXX_FLAGS_RELEASE "-Og -g1 -DNDEBUG")
set(MILLRACE_HOT_OPTIONS $<$<CONFIG:Release>:-O2>)

add_library(millrace_options INTERFACE)
# Without contraction, a * b + c rounds twice on every machine.
target_compile_options(millrace_options INTERFACE -ffp-contract=off)
target_compile_definitions(millrace_options INTERFACE
  $<BUILD_INTERFACE:MILLRACE_VERSION="${PROJECT_VERSION}">)
if(NOT MILLRACE_CHECKS)
  # To look for warnings takes a tenth of the time.
  target_compile_options(millrace_options INTERFACE -w)
else()
  target_compile_options(millrace_options INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wconversion
    -Wno-sign-conversion -Werror)
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    target_compile_options(millrace_options INTERFACE -Wthread-safety -Wno-missing-field-initializers)
  else()
    # GCC 12 reports these in code that the optimiser has inlined from the standard library.
    target_compile_options(millrace_options INTERFACE
      -Wno-missing-field-initializers -Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow
      -Wno-array-bounds -Wno-stringop-overread)
  endif()
endif()
if(MILLRACE_SANITIZE)
  target_compile_options(millrace_options INTERFACE
    -fsanitize=${MILLRACE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(millrace_options INTERFACE -fsanitize=${MILLRACE_SANITIZE})
  if(MILLRACE_SANITIZE MATCHES thread)
    # With this macro, Protobuf's headers give maps another layout, but Debian's library was
    # compiled without it, and both have to see the same layout. The standard library's headers
    # still avoid code that the sanitizer cannot follow, and GCC instruments the same code. Tests
    # that it cannot run ask for _GLIBCXX_TSAN.
    target_compile_options(millrace_options INTERFACE -U__SANITIZE_THREAD__ -D_GLIBCXX_TSAN=1)
  endif()
endif()
install(TARGETS millrace_options EXPORT MillraceTargets)
