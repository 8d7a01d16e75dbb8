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

# One runtime serves the kernels and the backend, so that their versions have to agree.
execute_process(COMMAND "${FERRY_NVCC}" --version
  OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE failed)
string(REGEX MATCH "release ([0-9]+)\\.([0-9]+)" release "${said}")
set(nvcc_version "${CMAKE_MATCH_1}.${CMAKE_MATCH_2}")
string(REGEX MATCH "^[0-9]+" headers_major "${FERRY_CUDA_VERSION}")
if(failed OR NOT release)
  set(FERRY_NVCC_STATUS "left out: ${FERRY_NVCC} --version fails (${failed})")
  return()
endif()
if(nvcc_version VERSION_LESS FERRY_CUDA_VERSION OR NOT nvcc_version MATCHES "^${headers_major}\\.")
  set(FERRY_NVCC_STATUS "left out: ${FERRY_NVCC} is CUDA ${nvcc_version}, and the headers are CUDA ${FERRY_CUDA_VERSION}; a ${headers_major}.x that is no older is needed")
  return()
endif()

# Whether it works is found out aside: one that does not would end the whole configuration.
include(CheckLanguage)
if(NOT DEFINED ENV{CUDACXX})
  set(ENV{CUDACXX} "${FERRY_NVCC}")
endif()
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  unset(CMAKE_CUDA_COMPILER CACHE) # So that it is tried again.
  set(FERRY_NVCC_STATUS "left out: $ENV{CUDACXX} compiles nothing; CMakeFiles/CMakeError.log says why")
  return()
endif()
# Two generations as they are, and what any later one can be translated from.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 90-virtual)
endif()
enable_language(CUDA)
find_package(CUDAToolkit)
if(NOT TARGET CUDA::cudart)
  set(FERRY_NVCC_STATUS "left out: there is no runtime library beside ${CMAKE_CUDA_COMPILER}")
  return()
endif()
list(JOIN CMAKE_CUDA_ARCHITECTURES ", " architectures)
set(FERRY_WITH_NVCC ON)
set(FERRY_NVCC_STATUS "nvcc ${CMAKE_CUDA_COMPILER_VERSION} for ${architectures}")
