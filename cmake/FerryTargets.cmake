include_guard()

include(GNUInstallDirs)

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")

# Flags for our own targets. A function, not an INTERFACE library: before CMake 3.26 a private
# interface library still has to be exported with every target that links it.
function(ferry_set_build_flags target)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow
    -Wnon-virtual-dtor -Woverloaded-virtual
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> # g++ 12 sees overlaps in std::string that are not there.
    $<$<BOOL:${FERRY_WARNINGS_AS_ERRORS}>:-Werror>)
  if(FERRY_SANITIZERS)
    target_compile_options(${target} PRIVATE
      -fsanitize=${FERRY_SANITIZERS} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(${target} PRIVATE -fsanitize=${FERRY_SANITIZERS})
  endif()
endfunction()

# ferry_add_library(<name>
#   HEADERS <public headers, relative to include/>
#   SOURCES <files, relative to src/>
#   DEPENDS <public link dependencies>
#   PRIVATE_DEPENDS <link dependencies that no header shows>)
function(ferry_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;SOURCES;DEPENDS;PRIVATE_DEPENDS")
  list(TRANSFORM arg_HEADERS PREPEND "include/")
  list(TRANSFORM arg_SOURCES PREPEND "src/")

  # A header that is not listed would be neither installed nor checked.
  file(GLOB_RECURSE headers RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" CONFIGURE_DEPENDS include/*.hpp)
  list(REMOVE_ITEM headers ${arg_HEADERS})
  if(headers)
    message(FATAL_ERROR "ferry::${name} does not list its public headers: ${headers}")
  endif()

  add_library(ferry_${name})
  add_library(ferry::${name} ALIAS ferry_${name})
  target_sources(ferry_${name}
    PUBLIC FILE_SET HEADERS BASE_DIRS include FILES ${arg_HEADERS}
    PRIVATE ${arg_SOURCES})
  target_include_directories(ferry_${name} PRIVATE src)
  target_link_libraries(ferry_${name} PUBLIC ${arg_DEPENDS} PRIVATE ${arg_PRIVATE_DEPENDS})
  ferry_set_build_flags(ferry_${name})
  set_target_properties(ferry_${name} PROPERTIES
    EXPORT_NAME ${name}
    VERIFY_INTERFACE_HEADER_SETS ON)
  if(FERRY_INSTALL)
    install(TARGETS ferry_${name} EXPORT ferry-${name}-targets FILE_SET HEADERS)
    set_property(GLOBAL APPEND PROPERTY FERRY_COMPONENTS ${name})
  endif()
endfunction()
