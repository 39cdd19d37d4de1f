# SPDX-License-Identifier: MIT
# Installs the core: library, header, a CMake package and a pkg-config file.
if(NOT core_sources)
    return()
endif()
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/winnow_core)

install(TARGETS winnow_core EXPORT winnow_core ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/winnow_core.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT winnow_core NAMESPACE winnow:: FILE winnow_core-targets.cmake
        DESTINATION ${package_dir})

configure_package_config_file(cmake/winnow_core-config.cmake.in
                              ${PROJECT_BINARY_DIR}/winnow_core-config.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/winnow_core-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/winnow_core-config.cmake
              ${PROJECT_BINARY_DIR}/winnow_core-config-version.cmake
        DESTINATION ${package_dir})

# The pkg-config file finds the prefix from its own place, so the installed tree can be moved.
file(RELATIVE_PATH pkgconfig_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/winnow_core.pc.in winnow_core.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/winnow_core.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
