# MILLRACE_FAST_BUILD is for a build from nothing; deploy/quickstart, pip and tests/run set it. A
# compiler spends most of its time for one source on headers and on templates that other sources
# have too. So the sources of many modules are compiled together, in units of even size, and headers
# from outside that most of them include are compiled once. While somebody works on a few sources,
# OFF compiles less after each change.
#
# So two sources of one side (common, server, client, tools) must not have a local name in common.

option(MILLRACE_FAST_BUILD "compile many sources at once, for a build from nothing" OFF)
set(MILLRACE_FAST_BUILD_BATCH 16 CACHE STRING "sources of a target that are compiled at once")
# Larger units save nothing more, and units of a quarter of it take half as long again. A compiler
# takes 2 GB for such a unit.
set(MILLRACE_FAST_BUILD_BYTES 520000 CACHE STRING "size of the units of joined modules")

if(MILLRACE_FAST_BUILD)
  set(CMAKE_UNITY_BUILD ON)
  # gold takes a third of the time that the usual linker takes.
  find_program(MILLRACE_GOLD ld.gold)
  if(MILLRACE_GOLD)
    add_link_options(-fuse-ld=gold)
  endif()
  # Units of joined modules are compiled at once only as many as fit into memory.
  cmake_host_system_information(RESULT mebibytes QUERY TOTAL_PHYSICAL_MEMORY)
  math(EXPR units "${mebibytes} / 2500 + 1")
  set_property(GLOBAL APPEND PROPERTY JOB_POOLS joined_units=${units})
  set(CMAKE_UNITY_BUILD_BATCH_SIZE ${MILLRACE_FAST_BUILD_BATCH})
  # These two warnings mistake the sources that are compiled as one for headers of each other: they
  # report a local name that equals one of another source, and a type of an unnamed namespace inside
  # a class. Other builds have both warnings on.
  target_compile_options(millrace_options INTERFACE -Wno-shadow)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # GCC looks for memory that it may use again from 130 MB on, and more often the larger a unit is: a
    # tenth of its time. Where there is memory, it does so from 1.5 GB on.
    math(EXPR heap "${mebibytes} * 1024 / 8")
    if(heap GREATER 1500000)
      set(heap 1500000)
    endif()
    target_compile_options(millrace_options INTERFACE
      --param=ggc-min-heapsize=${heap} --param=ggc-min-expand=100)
    # GCC inlines less in large units, and would miss what it inlines in single sources.
    list(APPEND MILLRACE_HOT_OPTIONS --param=large-unit-insns=1000000)
    # ccache needs -fpch-preprocess for sources that use compiled headers.
    target_compile_options(millrace_options INTERFACE -Wno-subobject-linkage -fpch-preprocess)
  endif()
endif()

# Compiles the common headers, once with each level of optimisation: where a source includes
# immintrin.h, GCC goes on with the level of its compiled headers. The messages (proto) have to be
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
  foreach(target millrace_common_headers millrace_common_headers_hot)
    add_library(${target} OBJECT ${PROJECT_BINARY_DIR}/common_headers.cc)
    # A compiler cache may give headers as they were before the protos changed.
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER "")
    target_link_libraries(${target} PRIVATE millrace_options millrace_proto fmt::fmt)
    set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
    target_precompile_headers(${target} PRIVATE
      <algorithm> <atomic> <chrono> <cstdint> <deque> <filesystem> <functional> <map> <memory>
      <optional> <set> <span> <string> <string_view> <system_error> <thread> <utility> <variant>
      <vector> <fmt/core.h> <fmt/format.h>
      <millrace/v1/dispatcher.pb.h> <millrace/v1/worker.pb.h>)
  endforeach()
  target_compile_options(millrace_common_headers_hot PRIVATE ${MILLRACE_HOT_OPTIONS})
endfunction()

# Lets a target use the compiled headers. Sources with options of their own cannot, if they include
# immintrin.h or if the options define a macro.
function(millrace_use_common_headers target headers)
  if(MILLRACE_FAST_BUILD)
    set_target_properties(${target} PROPERTIES PRECOMPILE_HEADERS_REUSE_FROM ${headers})
    add_dependencies(${target} ${headers})
  endif()
endfunction()

# Lets a target compile generated messages at once. Each source has these two local names.
function(millrace_join_messages target sources)
  if(NOT MILLRACE_FAST_BUILD)
    target_sources(${target} PRIVATE ${sources})
    return()
  endif()
  set(text "")
  foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    string(APPEND text "#define schemas schemas_of_${name}\n"
      "#define file_default_instances file_default_instances_of_${name}\n"
      "#include \"${source}\"\n#undef schemas\n#undef file_default_instances\n")
  endforeach()
  set(file ${PROJECT_BINARY_DIR}/units/${target}.cc)
  file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
  set_source_files_properties(${file} PROPERTIES OBJECT_DEPENDS "${sources}")
  target_sources(${target} PRIVATE ${file})
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

# The block that the modules of a folder are joined in. The client library does not see the server,
# and the tools see both.
function(millrace_block_of dir block)
  string(REGEX MATCH "^[^/]+" side "${dir}")
  if(dir MATCHES "^client/(cli|local)")
    set(side tools)
  endif()
  set(${block} block_${side} PARENT_SCOPE)
endfunction()

# Adds sources of a module to a block, with the options of the compiled headers.
function(millrace_add_to_block name block headers sources links)
  if(NOT TARGET millrace_${block})
    add_library(millrace_${block} STATIC)
    millrace_link(millrace_${block} "" "")
    # A unit that is linked can need one of another block, and that one of this block again.
    set_target_properties(millrace_${block} PROPERTIES UNITY_BUILD OFF EXPORT_NAME ${block}
      LINK_INTERFACE_MULTIPLICITY 4 JOB_POOL_COMPILE joined_units)
    if(block MATCHES "_hot$")
      target_compile_options(millrace_${block} PRIVATE ${MILLRACE_HOT_OPTIONS})
    endif()
    millrace_use_common_headers(millrace_${block} ${headers})
    set_property(GLOBAL APPEND PROPERTY MILLRACE_BLOCKS ${block})
  endif()
  set_property(GLOBAL APPEND PROPERTY MILLRACE_SOURCES_OF_${block} ${sources})
  # A module may have a library too, of sources that are compiled alone.
  set_property(GLOBAL APPEND PROPERTY MILLRACE_LINKS_OF_${block} millrace_${name} ${links})
  millrace_use(millrace_${name} millrace_${block})
endfunction()

# Adds the sources of a module to its blocks. `block` of the caller is the name of that of the cold
# ones. Machines have blocks of their own, because tests/sim links their mutants in their place.
function(millrace_join name dir machine cold hot links)
  millrace_block_of(${dir} block)
  if(machine)
    string(APPEND block _machines)
  endif()
  if(cold)
    millrace_add_to_block(${name} ${block} millrace_common_headers "${cold}" "${links}")
  endif()
  if(hot)
    millrace_add_to_block(${name} ${block}_hot millrace_common_headers_hot "${hot}" "${links}")
  endif()
  set(block ${block} PARENT_SCOPE)
endfunction()

# Deals the sources of each block into units. All modules have to be declared before.
function(millrace_make_units)
  get_property(blocks GLOBAL PROPERTY MILLRACE_BLOCKS)
  foreach(block ${blocks})
    get_property(links GLOBAL PROPERTY MILLRACE_LINKS_OF_${block})
    list(REMOVE_DUPLICATES links)
    foreach(link ${links})
      target_link_libraries(millrace_${block} PUBLIC $<BUILD_INTERFACE:${link}>)
    endforeach()
    get_property(sources GLOBAL PROPERTY MILLRACE_SOURCES_OF_${block})
    millrace_deal(millrace_${block} "${sources}")
  endforeach()
endfunction()

# millrace_deal(TARGET SOURCES): adds the sources to the target in units of even size.
function(millrace_deal target sources)
  set(total 0)
  foreach(source ${sources})
    file(SIZE ${source} size)
    math(EXPR total "${total} + ${size}")
  endforeach()
  math(EXPR units "(${total} + ${MILLRACE_FAST_BUILD_BYTES} - 1) / ${MILLRACE_FAST_BUILD_BYTES}")
  set(dealt 0)
  set(unit 0)
  set(text "")
  foreach(source ${sources})
    file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${source})
    string(APPEND text "#include \"${path}\"\n")
    file(SIZE ${source} size)
    math(EXPR dealt "${dealt} + ${size}")
    math(EXPR so_far "${dealt} * ${units}")
    math(EXPR due "(${unit} + 1) * ${total}")
    if(so_far GREATER_EQUAL due)
      set(file ${PROJECT_BINARY_DIR}/units/${target}_${unit}.cc)
      file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
      target_sources(${target} PRIVATE ${file})
      math(EXPR unit "${unit} + 1")
      set(text "")
    endif()
  endforeach()
endfunction()
