# Debian packages, by `cpack -G DEB` in the build folder: millrace-daemon, millrace-cli and
# libmillrace-dev. deploy/release makes them together with the image and the wheel.
find_program(MILLRACE_GZIP gzip)
find_program(MILLRACE_DPKG_SHLIBDEPS dpkg-shlibdeps)
if(NOT MILLRACE_GZIP OR NOT MILLRACE_DPKG_SHLIBDEPS)
  return()  # not on Debian
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME millrace)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(MILLRACE_PACKAGE_CONTACT "The authors of Millrace <millrace@localhost>" CACHE STRING
  "name and address of who publishes the packages")
set(CPACK_PACKAGE_CONTACT ${MILLRACE_PACKAGE_CONTACT})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL daemon cli Development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION TRUE)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)

set(CPACK_DEBIAN_DAEMON_PACKAGE_NAME millrace-daemon)
set(CPACK_DEBIAN_DAEMON_PACKAGE_SECTION science)
set(CPACK_COMPONENT_DAEMON_DESCRIPTION "training batches prepared outside of the trainer: daemon
The dispatcher admits trainers and names their workers. Workers read datasets, build
batches and stream them to one consumer per GPU.

The package has the units millrace-serve, millrace-dispatcher and
millrace-worker for systemd. None of them is started before it is enabled.")
set(CPACK_DEBIAN_DAEMON_PACKAGE_DEPENDS
  "systemd | systemd-standalone-sysusers | systemd-sysusers, passwd")
set(CPACK_DEBIAN_DAEMON_PACKAGE_SUGGESTS "millrace-cli, python3-numpy")
set(debian ${PROJECT_SOURCE_DIR}/deploy/debian)
set(CPACK_DEBIAN_DAEMON_PACKAGE_CONTROL_EXTRA
  "${debian}/conffiles;${debian}/postinst;${debian}/prerm;${debian}/postrm")

set(CPACK_DEBIAN_CLI_PACKAGE_NAME millrace-cli)
set(CPACK_DEBIAN_CLI_PACKAGE_SECTION science)
set(CPACK_COMPONENT_CLI_DESCRIPTION "training batches prepared outside of the trainer: commands
The command millrace shows the status of a fleet, consumes batches as a
trainer would, and makes, indexes, inspects and checks datasets and pipelines.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libmillrace-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "training batches prepared outside of the trainer: C++ client
The static library and headers with which a trainer in C++ reads batches, for
find_package(Millrace).")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
  "libgrpc++-dev, libprotobuf-dev, libspdlog-dev, libfmt-dev, libssl-dev")

# millrace_install_docs(COMPONENT PACKAGE [MAN]): the files that every Debian package has.
function(millrace_install_docs component package)
  set(folder ${PROJECT_BINARY_DIR}/debian/${package})
  string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
  if(NOT EXISTS ${folder}/changelog OR ${PROJECT_SOURCE_DIR}/CMakeLists.txt IS_NEWER_THAN ${folder}/changelog)
    configure_file(${debian}/changelog.in ${folder}/changelog @ONLY)
  endif()
  configure_file(${PROJECT_SOURCE_DIR}/CHANGELOG.md ${folder}/CHANGELOG.md COPYONLY)
  set(texts changelog CHANGELOG.md)
  foreach(man ${ARGN})
    configure_file(${debian}/${man} ${folder}/${man} COPYONLY)
    list(APPEND texts ${man})
    install(FILES ${folder}/${man}.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
      COMPONENT ${component} EXCLUDE_FROM_ALL)
  endforeach()
  foreach(text ${texts})
    execute_process(COMMAND ${MILLRACE_GZIP} -9nkf ${folder}/${text} COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  install(FILES ${folder}/changelog.gz ${folder}/CHANGELOG.md.gz ${debian}/copyright
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()
millrace_install_docs(daemon millrace-daemon millraced.1)
millrace_install_docs(cli millrace-cli millrace.1)
millrace_install_docs(Development libmillrace-dev)

# Debian wants static libraries without debugging symbols; CMake strips programs only.
install(CODE [[
  if(CMAKE_INSTALL_DO_STRIP)
    file(GLOB_RECURSE libraries "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/lib*/libmillrace_*.a")
    if(libraries)
      execute_process(COMMAND strip --strip-debug --remove-section=.comment --remove-section=.note
        --enable-deterministic-archives ${libraries} COMMAND_ERROR_IS_FATAL ANY)
    endif()
  endif()]] COMPONENT Development)

# The units, one for each role.
foreach(unit "serve|dispatcher and worker in one process" "dispatcher|admits trainers and names their workers"
             "worker|builds and sends batches")
  string(REGEX MATCH "^[^|]+" ROLE ${unit})
  string(REGEX REPLACE "^[^|]+\\|" "" WHAT ${unit})
  set(file ${PROJECT_BINARY_DIR}/debian/millrace-${ROLE}.service)
  configure_file(${PROJECT_SOURCE_DIR}/deploy/systemd/millrace.service.in ${file} @ONLY)
  install(FILES ${file} DESTINATION /lib/systemd/system COMPONENT daemon EXCLUDE_FROM_ALL)
endforeach()
install(FILES ${debian}/sysusers.conf DESTINATION /usr/lib/sysusers.d RENAME millrace.conf
  COMPONENT daemon EXCLUDE_FROM_ALL)
install(FILES ${debian}/millraced.yaml DESTINATION /etc/millrace
  COMPONENT daemon EXCLUDE_FROM_ALL)
install(FILES ${PROJECT_SOURCE_DIR}/deploy/systemd/tls.conf
  DESTINATION ${CMAKE_INSTALL_DATADIR}/millrace
  COMPONENT daemon EXCLUDE_FROM_ALL)

include(CPack)
