# Enables the CUDA language for tests and benchmarks where the CUDA backend is built and there is a
# compiler. The library itself has no kernels and needs none.
#   FERRY_WITH_NVCC      whether there is
#   FERRY_NVCC_STATUS    one line for people
include_guard()

set(FERRY_WITH_NVCC OFF)
if(NOT FERRY_WITH_CUDA)
  set(FERRY_NVCC_STATUS "left out, as the CUDA backend is")
  return()
endif()
if(FERRY_SANITIZERS)
  set(FERRY_NVCC_STATUS "left out of a sanitizer's build")
  return()
endif()
if(NOT FERRY_ENABLE_ACTORS)
  set(FERRY_NVCC_STATUS "left out, as the actors are")
  return()
endif()
find_program(FERRY_NVCC nvcc
  HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda /opt/cuda
  PATH_SUFFIXES bin
  DOC "The CUDA compiler, for tests and benchmarks on a GPU")
if(NOT FERRY_NVCC)
  set(FERRY_NVCC_STATUS "left out: nvcc is not found; set CUDA_HOME")
  return()
endif()

if(NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER "${FERRY_NVCC}")
endif()
# Two generations as they are, and what any later one can be translated from.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 90-virtual)
endif()
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
list(JOIN CMAKE_CUDA_ARCHITECTURES ", " architectures)
set(FERRY_WITH_NVCC ON)
set(FERRY_NVCC_STATUS "nvcc ${CMAKE_CUDA_COMPILER_VERSION} for ${architectures}")
