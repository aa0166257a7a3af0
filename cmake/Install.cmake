# `cmake --install` also installs the static client library for find_package(Millrace), with the
# headers that its users need. These headers include no header of a library, and refer to each other
# as in the source tree, from include/millrace on.
include(CMakePackageConfigHelpers)

set(millrace_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Millrace)

set(modules base parameters system access security epoch tune tensor math expr operations
  compression batch_layout batch operands expand convert transport transport_grpc transport_shm session_machine
  client_api device session_run viz client_coq)
# A fast build has the sources of several modules in blocks (cmake/FastBuild.cmake).
set(blocks block_common block_common_machines block_client block_client_machines)
foreach(name ${modules} ${blocks})
  foreach(target millrace_${name} millrace_${name}_hot)
    if(TARGET ${target})
      install(TARGETS ${target}
        EXPORT MillraceTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT Development)
    endif()
  endforeach()
endforeach()
install(TARGETS millrace_proto millrace_services millrace_client
  EXPORT MillraceTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT Development)
foreach(block ${blocks})
  foreach(target millrace_${block} millrace_${block}_hot)
    if(TARGET ${target})
      target_link_libraries(${target} PUBLIC $<INSTALL_INTERFACE:millrace::client>)
    endif()
  endforeach()
endforeach()

foreach(header
    client/batch.h client/batch_reader.h client/coq/vocabulary.h client/session.h
    client/session_options.h client/spec.h client/device/device.h client/session/machine/stats.h
    common/base/example_description.h
    common/base/dtype.h common/base/ids.h common/base/log.h common/base/result.h
    common/base/tables.h common/base/time.h common/base/wait_cause.h common/batch/layout/drop_reasons.h
    common/system/clock.h common/system/stderr_logger.h
    common/batch/arena.h common/batch/batch.h common/batch/layout/layout.h
    common/batch/layout/tensor_table.h common/expand/delivery.h common/expand/expand.h
    common/epoch/cursor.h common/epoch/position.h common/operations/graph_pad.h)
  get_filename_component(dir ${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/${header}
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/millrace/${dir} COMPONENT Development)
endforeach()

install(EXPORT MillraceTargets NAMESPACE millrace:: DESTINATION ${millrace_package_dir}
  COMPONENT Development)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/MillraceConfig.cmake.in
  ${PROJECT_BINARY_DIR}/MillraceConfig.cmake INSTALL_DESTINATION ${millrace_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/MillraceConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/MillraceConfig.cmake
              ${PROJECT_BINARY_DIR}/MillraceConfigVersion.cmake
  DESTINATION ${millrace_package_dir} COMPONENT Development)
