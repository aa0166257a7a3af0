# `cmake --install` also installs the static client library for find_package(Millrace), with the
# headers that its users need. These headers include no header of a library, and refer to each other
# as in the source tree, from include/millrace on.
include(CMakePackageConfigHelpers)

set(millrace_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Millrace)

install(TARGETS millrace_proto millrace_services millrace_base millrace_system millrace_access millrace_security millrace_epoch millrace_tune
                millrace_tensor millrace_math millrace_expr millrace_operations millrace_compression
                millrace_batch_layout millrace_batch millrace_operands millrace_expand millrace_convert
                millrace_transport
                millrace_transport_grpc millrace_transport_shm millrace_session_machine
                millrace_client_api millrace_device millrace_session_run millrace_viz millrace_client_coq millrace_client
  EXPORT MillraceTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT Development)

foreach(header
    client/coq/vocabulary.h client/session.h client/session_options.h client/spec.h client/device/device.h client/session/machine/stats.h
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
