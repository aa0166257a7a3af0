# millrace_module(NAME SOURCES ... [MODULES ...] [LIBRARIES ...]) makes the library millrace_NAME of
# the current folder. MODULES are the project's modules that it may include from; LIBRARIES come
# from outside. That dependencies run one way is checked twice: here, against the table below, and
# at build time, when every #include of the module is held against MODULES (check_includes.cmake).

set(MILLRACE_MAY_SEE_proto "")
set(MILLRACE_MAY_SEE_base "")
set(MILLRACE_MAY_SEE_epoch base)
set(MILLRACE_MAY_SEE_batch base)
set(MILLRACE_MAY_SEE_transport base epoch batch proto)
set(MILLRACE_MAY_SEE_dataset ${MILLRACE_MAY_SEE_transport} transport)
set(MILLRACE_MAY_SEE_state ${MILLRACE_MAY_SEE_transport} transport)
set(MILLRACE_MAY_SEE_pipeline ${MILLRACE_MAY_SEE_dataset} dataset)
set(MILLRACE_MAY_SEE_dispatcher ${MILLRACE_MAY_SEE_pipeline} pipeline state)
set(MILLRACE_MAY_SEE_worker ${MILLRACE_MAY_SEE_pipeline} pipeline)
set(MILLRACE_MAY_SEE_client ${MILLRACE_MAY_SEE_transport} transport)

set(MILLRACE_DIR_proto proto)
foreach(module base epoch batch transport)
  set(MILLRACE_DIR_${module} common/${module})
endforeach()
foreach(module dataset state pipeline dispatcher worker)
  set(MILLRACE_DIR_${module} server/${module})
endforeach()
set(MILLRACE_DIR_client client)
set(MILLRACE_DIR_cli client/cli)
set(MILLRACE_DIR_python client/python)

function(millrace_module name)
  cmake_parse_arguments(arg "" "" "SOURCES;MODULES;LIBRARIES" ${ARGN})
  foreach(module ${arg_MODULES})
    if(NOT module IN_LIST MILLRACE_MAY_SEE_${name})
      message(FATAL_ERROR "module ${name} must not see ${module}: dependencies run one way, "
                          "see MILLRACE_MAY_SEE_${name} in cmake/Module.cmake")
    endif()
  endforeach()
  list(TRANSFORM arg_MODULES PREPEND millrace_ OUTPUT_VARIABLE modules)
  add_library(millrace_${name} STATIC ${arg_SOURCES})
  add_library(millrace::${name} ALIAS millrace_${name})
  set_target_properties(millrace_${name} PROPERTIES EXPORT_NAME ${name})
  target_link_libraries(millrace_${name} PUBLIC ${modules} ${arg_LIBRARIES} PRIVATE millrace_options)
  target_include_directories(millrace_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/millrace>)
  millrace_check_includes(${name} "${arg_MODULES}" millrace_${name})
endfunction()

# Headers that the files of module `name` include lie in its own folder and those of `modules`.
# `target` waits for the check.
function(millrace_check_includes name modules target)
  set(allowed ${MILLRACE_DIR_${name}})
  foreach(module ${modules})
    list(APPEND allowed ${MILLRACE_DIR_${module}})
  endforeach()
  set(dir ${PROJECT_SOURCE_DIR}/${MILLRACE_DIR_${name}})
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${dir}/*.h ${dir}/*.cc)
  if(name STREQUAL client)
    list(FILTER files EXCLUDE REGEX "/client/(cli|python|examples)/")
  endif()
  set(stamp ${CMAKE_CURRENT_BINARY_DIR}/includes_of_${name}.checked)
  add_custom_command(OUTPUT ${stamp}
    COMMAND ${CMAKE_COMMAND} "-DMODULE=${name}" "-DALLOWED=${allowed}" "-DFILES=${files}"
            -P ${PROJECT_SOURCE_DIR}/cmake/check_includes.cmake
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/check_includes.cmake VERBATIM)
  add_custom_target(check_includes_${name} ALL DEPENDS ${stamp})
  add_dependencies(${target} check_includes_${name})
endfunction()
