include_guard()

include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/ferry")

# One export set a component, so that platform can be used where CAF or libtorch is not installed.
get_property(components GLOBAL PROPERTY FERRY_COMPONENTS)
foreach(component IN LISTS components)
  install(EXPORT ferry-${component}-targets NAMESPACE ferry:: DESTINATION "${package_dir}")
endforeach()

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/ferry-config.cmake.in"
  "${PROJECT_BINARY_DIR}/ferry-config.cmake"
  INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/ferry-config-version.cmake"
  COMPATIBILITY SameMinorVersion)

install(FILES
  "${PROJECT_BINARY_DIR}/ferry-config.cmake"
  "${PROJECT_BINARY_DIR}/ferry-config-version.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/FindCAF.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/FerryTorch.cmake"
  DESTINATION "${package_dir}")
install(FILES LICENSE CHANGELOG.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
