# Finds the headers of the CUDA runtime and the directories in which its library is looked for when
# Ferry runs; nothing is linked. A toolkit is preferred, then the headers beside libtorch.
#   FERRY_WITH_CUDA           whether the CUDA backend is built
#   FERRY_CUDA_INCLUDE_DIR    directory of cuda_runtime_api.h
#   FERRY_CUDA_VERSION        major.minor of the headers
#   FERRY_CUDA_LIBRARY_DIRS   directories, in the order in which they are tried
#   FERRY_CUDA_STATUS         one line for people
include_guard()

set(FERRY_ENABLE_CUDA AUTO CACHE STRING "Build the CUDA backend: AUTO (where its headers are), ON or OFF")
set_property(CACHE FERRY_ENABLE_CUDA PROPERTY STRINGS AUTO ON OFF)

set(FERRY_WITH_CUDA OFF)
set(FERRY_CUDA_LIBRARY_DIRS "")
if(NOT FERRY_ENABLE_CUDA)
  set(FERRY_CUDA_STATUS "left out: FERRY_ENABLE_CUDA is OFF")
  return()
endif()

# The wheels beside libtorch: nvidia/cu13 since CUDA 13, nvidia/cuda_runtime before.
set(wheels "")
if(FERRY_TORCH_DIR)
  cmake_path(SET beside NORMALIZE "${FERRY_TORCH_DIR}/../nvidia")
  set(wheels "${beside}/cu13" "${beside}/cuda_runtime")
endif()
find_path(FERRY_CUDA_INCLUDE_DIR cuda_runtime_api.h
  HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda /opt/cuda ${wheels}
  PATH_SUFFIXES include
  DOC "Directory of cuda_runtime_api.h")

if(FERRY_CUDA_INCLUDE_DIR)
  file(STRINGS "${FERRY_CUDA_INCLUDE_DIR}/cuda_runtime_api.h" version
    REGEX "^#define CUDART_VERSION +[0-9]+")
  string(REGEX REPLACE ".* ([0-9]+).*" "\\1" version "${version}")
  math(EXPR major "${version} / 1000")
  math(EXPR minor "${version} % 1000 / 10")
endif()
if(NOT FERRY_CUDA_INCLUDE_DIR)
  set(FERRY_CUDA_STATUS "left out: cuda_runtime_api.h is neither in a CUDA toolkit nor beside libtorch; set CUDA_HOME")
elseif(version LESS 12000)
  set(FERRY_CUDA_STATUS "left out: ${FERRY_CUDA_INCLUDE_DIR} is CUDA ${major}.${minor}, and 12.0 is the oldest that will do")
else()
  set(FERRY_WITH_CUDA ON)
  set(FERRY_CUDA_VERSION "${major}.${minor}")
  set(FERRY_CUDA_STATUS "CUDA ${major}.${minor}, headers in ${FERRY_CUDA_INCLUDE_DIR}")
  cmake_path(GET FERRY_CUDA_INCLUDE_DIR PARENT_PATH toolkit)
  foreach(root IN LISTS wheels ITEMS "${toolkit}")
    foreach(dir lib64 lib)
      if(EXISTS "${root}/${dir}/libcudart.so.${major}")
        list(APPEND FERRY_CUDA_LIBRARY_DIRS "${root}/${dir}")
      endif()
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES FERRY_CUDA_LIBRARY_DIRS)
endif()
if(NOT FERRY_WITH_CUDA AND NOT FERRY_ENABLE_CUDA STREQUAL "AUTO")
  message(FATAL_ERROR "FERRY_ENABLE_CUDA is ON, but the CUDA backend is ${FERRY_CUDA_STATUS}")
endif()
