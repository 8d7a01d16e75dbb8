# Finds the header of NCCL and the directories in which its library is looked for when Ferry runs;
# nothing is linked. It needs the CUDA backend, and comes with it unless the header is missing.
#   FERRY_WITH_NCCL           whether the NCCL backend is built
#   FERRY_NCCL_INCLUDE_DIR    directory of nccl.h
#   FERRY_NCCL_LIBRARY_DIRS   directories, in the order in which they are tried
#   FERRY_NCCL_STATUS         one line for people
include_guard()

set(FERRY_WITH_NCCL OFF)
set(FERRY_NCCL_LIBRARY_DIRS "")
if(NOT FERRY_WITH_CUDA)
  set(FERRY_NCCL_STATUS "left out with the CUDA backend")
  return()
endif()

set(wheel "")
if(FERRY_TORCH_DIR)
  cmake_path(SET wheel NORMALIZE "${FERRY_TORCH_DIR}/../nvidia/nccl")
endif()
find_path(FERRY_NCCL_INCLUDE_DIR nccl.h
  HINTS "${FERRY_CUDA_INCLUDE_DIR}" ENV NCCL_ROOT ENV CUDA_HOME ENV CUDA_PATH ${wheel}
  PATH_SUFFIXES include
  DOC "Directory of nccl.h")

if(FERRY_NCCL_INCLUDE_DIR)
  foreach(part MAJOR MINOR PATCH)
    file(STRINGS "${FERRY_NCCL_INCLUDE_DIR}/nccl.h" line REGEX "^#define NCCL_${part} +[0-9]+")
    string(REGEX REPLACE ".* ([0-9]+).*" "\\1" nccl_${part} "${line}")
  endforeach()
  set(version "${nccl_MAJOR}.${nccl_MINOR}.${nccl_PATCH}")
endif()
if(NOT FERRY_NCCL_INCLUDE_DIR)
  set(FERRY_NCCL_STATUS "left out: nccl.h is neither in the CUDA toolkit nor beside libtorch; set NCCL_ROOT")
elseif(NOT EXISTS "${FERRY_CUDA_INCLUDE_DIR}/cuda_fp16.h")
  set(FERRY_NCCL_STATUS "left out: nccl.h needs cuda_fp16.h, which is not in ${FERRY_CUDA_INCLUDE_DIR}")
elseif(version VERSION_LESS 2.14 OR version VERSION_GREATER_EQUAL 3)
  set(FERRY_NCCL_STATUS "left out: ${FERRY_NCCL_INCLUDE_DIR} has NCCL ${version}; 2.14 or a later 2 is needed")
else()
  set(FERRY_WITH_NCCL ON)
  set(FERRY_NCCL_STATUS "NCCL ${version}, header in ${FERRY_NCCL_INCLUDE_DIR}")
  cmake_path(GET FERRY_NCCL_INCLUDE_DIR PARENT_PATH root)
  foreach(dir IN ITEMS "${wheel}/lib" "${root}/lib64" "${root}/lib")
    if(EXISTS "${dir}/libnccl.so.2")
      list(APPEND FERRY_NCCL_LIBRARY_DIRS "${dir}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES FERRY_NCCL_LIBRARY_DIRS)
endif()
