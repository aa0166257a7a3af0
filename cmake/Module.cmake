# millrace_floor(ROOMS ...) begins a floor of the house: the folders of its rooms, with all below
# them. Rooms know rooms of the floors before it, and none of its own floor.
#
# millrace_module(NAME FOLDER [PURE | MACHINE] [OWN_HOT_LIBRARY] [MODULES ...] [LIBRARIES ...]
#                 [HOT ...] [ALONE ...])
# makes the library millrace_NAME from the sources in FOLDER, without main.cc. Sub-folders are
# modules of their own. The module may include headers of the project's MODULES; LIBRARIES come from
# outside. A folder without sources gives an interface library.
#
# Dependencies run one way. A module sees only modules that were declared before it, in its own room
# or on a floor below; the client library never sees server/, nor server/ the client. The build
# compares every #include of the module with MODULES (check_includes.cmake).
#
# HOT: the sources that run for each batch or each example, or ALL. They are optimised more
# (MILLRACE_HOT_OPTIONS).
# ALONE: sources that are compiled by themselves, because they have options of their own or are
# generated.
# OWN_HOT_LIBRARY: MILLRACE_FAST_BUILD joins no hot source of the module with those of another
# module, for example because their library has options of its own.
#
# HOT sources that are not joined are in a library of their own, millrace_NAME_hot.
#
# PURE: the module has only values and functions. It may not include headers of threads, and sees
# only pure modules, so that it reaches no thread, clock or transport.
# MACHINE: a pure module that decides. For tests/sim there is also millrace_NAME_mutants: the same
# module with the switch for deliberate bugs (common/base/mutant.h).

set_property(GLOBAL PROPERTY MILLRACE_PURE proto)
foreach(module proto services coq_schema)
  set_property(GLOBAL PROPERTY MILLRACE_DIR_${module} proto)
  set_property(GLOBAL PROPERTY MILLRACE_ROOM_${module} proto)
  set_property(GLOBAL PROPERTY MILLRACE_FLOOR_${module} 0)
endforeach()

set_property(GLOBAL PROPERTY MILLRACE_FLOOR 0)

function(millrace_floor)
  get_property(floor GLOBAL PROPERTY MILLRACE_FLOOR)
  math(EXPR floor "${floor} + 1")
  set_property(GLOBAL PROPERTY MILLRACE_FLOOR ${floor})
  set_property(GLOBAL PROPERTY MILLRACE_ROOMS_OF_FLOOR ${ARGN})
endfunction()

function(millrace_module name dir)
  cmake_parse_arguments(arg "PURE;MACHINE;OWN_HOT_LIBRARY" "" "MODULES;LIBRARIES;HOT;ALONE" ${ARGN})
  set(folder ${PROJECT_SOURCE_DIR}/${dir})
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/main\\.cc$")  # main.cc is a program next to the module
  if(arg_MACHINE)
    set(arg_PURE TRUE)
  endif()
  millrace_check_floors(${name} "${dir}" "${arg_MODULES}" "${arg_PURE}")

  list(TRANSFORM arg_MODULES PREPEND millrace_ OUTPUT_VARIABLE modules)
  if(arg_HOT STREQUAL "ALL")
    set(arg_HOT ${sources})
  endif()
  foreach(list arg_HOT arg_ALONE)
    list(TRANSFORM ${list} PREPEND "${folder}/" REGEX "^[^/]")
  endforeach()
  # What is joined with other modules, and what goes into libraries of this module.
  set(cold ${sources} ${arg_ALONE})
  list(REMOVE_DUPLICATES cold)
  list(REMOVE_ITEM cold ${arg_HOT} "")
  set(hot ${arg_HOT})
  set(own_cold ${cold})
  set(own_hot ${hot})
  if(NOT MILLRACE_FAST_BUILD)
    set(cold "")
  endif()
  if(NOT MILLRACE_FAST_BUILD OR arg_OWN_HOT_LIBRARY)
    set(hot "")
  endif()
  list(REMOVE_ITEM cold ${arg_ALONE} "")
  list(REMOVE_ITEM hot ${arg_ALONE} "")
  list(REMOVE_ITEM own_cold ${cold} "")
  list(REMOVE_ITEM own_hot ${hot} "")
  if(arg_ALONE)
    set_source_files_properties(${arg_ALONE} PROPERTIES
      SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
  endif()

  if(own_cold)
    add_library(millrace_${name} STATIC ${own_cold})
    millrace_link(millrace_${name} "${modules}" "${arg_LIBRARIES}")
    millrace_use_common_headers(millrace_${name} millrace_common_headers)
  else()
    add_library(millrace_${name} INTERFACE)
    target_link_libraries(millrace_${name} INTERFACE ${modules} ${arg_LIBRARIES})
    millrace_include_from_root(millrace_${name} INTERFACE)
  endif()
  if(own_hot)
    add_library(millrace_${name}_hot STATIC ${own_hot})
    # Each of the two libraries needs the other.
    millrace_link(millrace_${name}_hot "millrace_${name};${modules}" "${arg_LIBRARIES}")
    millrace_use_common_headers(millrace_${name}_hot millrace_common_headers_hot)
    target_compile_options(millrace_${name}_hot PRIVATE ${MILLRACE_HOT_OPTIONS})
    set_target_properties(millrace_${name}_hot PROPERTIES EXPORT_NAME ${name}_hot)
    millrace_use(millrace_${name} millrace_${name}_hot)
  endif()
  if(cold OR hot)
    millrace_join(${name} ${dir} "${arg_MACHINE}" "${cold}" "${hot}" "${modules};${arg_LIBRARIES}")
  endif()
  add_library(millrace::${name} ALIAS millrace_${name})
  set_target_properties(millrace_${name} PROPERTIES EXPORT_NAME ${name})
  set_property(GLOBAL PROPERTY MILLRACE_DIR_${name} ${dir})
  millrace_room_of(${dir} room)
  get_property(floor GLOBAL PROPERTY MILLRACE_FLOOR)
  set_property(GLOBAL PROPERTY MILLRACE_ROOM_${name} ${room})
  set_property(GLOBAL PROPERTY MILLRACE_FLOOR_${name} ${floor})
  if(arg_PURE)
    set_property(GLOBAL APPEND PROPERTY MILLRACE_PURE ${name})
  endif()
  millrace_check_includes(${name} ${dir} "${arg_MODULES}" millrace_${name} "${arg_PURE}")
  foreach(target millrace_${name}_hot millrace_${block} millrace_${block}_hot)
    if(MILLRACE_CHECKS AND TARGET ${target})
      add_dependencies(${target} check_includes_${name})
    endif()
  endforeach()

  if(arg_MACHINE)
    add_library(millrace_${name}_mutants STATIC EXCLUDE_FROM_ALL ${sources})
    set(mutants "")
    foreach(module ${modules})
      if(TARGET ${module}_mutants)
        list(APPEND mutants ${module}_mutants)
      else()
        list(APPEND mutants ${module})
      endif()
    endforeach()
    millrace_link(millrace_${name}_mutants "${mutants}" "${arg_LIBRARIES}")
    target_compile_definitions(millrace_${name}_mutants PUBLIC MILLRACE_MUTANTS)
    millrace_use_common_headers(millrace_${name}_mutants millrace_common_headers_hot)
    # Simulators do nothing else.
    target_compile_options(millrace_${name}_mutants PRIVATE ${MILLRACE_HOT_OPTIONS})
  endif()
endfunction()

# Links `libraries` to the users of a target, and to the target if it is more than an interface.
function(millrace_use target)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL INTERFACE_LIBRARY)
    target_link_libraries(${target} INTERFACE ${ARGN})
  else()
    target_link_libraries(${target} PUBLIC ${ARGN})
  endif()
endfunction()

function(millrace_link target modules libraries)
  target_link_libraries(${target} PUBLIC ${modules} ${libraries} PRIVATE millrace_options)
  millrace_include_from_root(${target} PUBLIC)
endfunction()

# Headers are included by their paths in the source tree. Installed headers lie below
# include/millrace.
function(millrace_include_from_root target scope)
  target_include_directories(${target} ${scope}
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/millrace>)
endfunction()

# The room of the present floor that a folder lies in.
function(millrace_room_of dir room)
  get_property(rooms GLOBAL PROPERTY MILLRACE_ROOMS_OF_FLOOR)
  foreach(candidate ${rooms})
    if("${dir}/" MATCHES "^${candidate}/")
      set(${room} ${candidate} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "${dir} is in none of the rooms of its floor: ${rooms}")
endfunction()

# Fails if the module in `dir` may not see one of `modules`.
function(millrace_check_floors name dir modules pure)
  millrace_room_of(${dir} room)
  get_property(floor GLOBAL PROPERTY MILLRACE_FLOOR)
  get_property(pure_modules GLOBAL PROPERTY MILLRACE_PURE)
  foreach(module ${modules})
    if(NOT TARGET millrace_${module})
      message(FATAL_ERROR "module ${name} must not see ${module}: dependencies run one way, "
                          "and ${module} is not declared before ${name}")
    endif()
    get_property(seen GLOBAL PROPERTY MILLRACE_DIR_${module})
    get_property(seen_room GLOBAL PROPERTY MILLRACE_ROOM_${module})
    get_property(seen_floor GLOBAL PROPERTY MILLRACE_FLOOR_${module})
    if(seen_floor EQUAL floor AND NOT seen_room STREQUAL room)
      message(FATAL_ERROR "module ${name} must not see ${module}: ${room} and ${seen_room} are rooms "
                          "of the same floor")
    endif()
    if(room STREQUAL client AND seen MATCHES "^server/")
      message(FATAL_ERROR "module ${name} must not see ${module}: the client library sees no server")
    endif()
    if(dir MATCHES "^server/" AND seen MATCHES "^client/")
      message(FATAL_ERROR "module ${name} must not see ${module}: the server sees no client")
    endif()
    if(pure AND NOT module IN_LIST pure_modules)
      message(FATAL_ERROR "module ${name} must not see ${module}: a pure module sees pure modules only")
    endif()
  endforeach()
endfunction()

# Checks that the files of `dir`, without its sub-folders, include only headers from `dir` and from
# the folders of `modules`. `target` is built after the check.
function(millrace_check_includes name dir modules target pure)
  if(NOT MILLRACE_CHECKS)
    return()
  endif()
  set(allowed ${dir})
  foreach(module ${modules})
    get_property(seen GLOBAL PROPERTY MILLRACE_DIR_${module})
    list(APPEND allowed ${seen})
  endforeach()
  file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${dir}/*.h ${PROJECT_SOURCE_DIR}/${dir}/*.cc)
  set(stamp ${CMAKE_CURRENT_BINARY_DIR}/includes_of_${name}.checked)
  add_custom_command(OUTPUT ${stamp}
    COMMAND ${CMAKE_COMMAND} "-DMODULE=${name}" "-DALLOWED=${allowed}" "-DFILES=${files}"
            "-DPURE=${pure}" -P ${PROJECT_SOURCE_DIR}/cmake/check_includes.cmake
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/check_includes.cmake VERBATIM)
  add_custom_target(check_includes_${name} ALL DEPENDS ${stamp})
  add_dependencies(${target} check_includes_${name})
endfunction()

# millrace_embed(NAME FILES SCRIPT): the variable NAME names a source that SCRIPT writes from the
# files of a pattern, which is a path with wildcards.
function(millrace_embed name pattern script)
  file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${pattern})
  set(source ${PROJECT_BINARY_DIR}/${name}.cc)
  add_custom_command(OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} "-DFILES=${files}" -DOUT=${source} -P ${PROJECT_SOURCE_DIR}/${script}
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/${script} VERBATIM)
  set(${name} ${source} PARENT_SCOPE)
endfunction()
