# Defines ferry_libtorch: the CPU half of libtorch, from a directory that holds include/ and lib/.
# Looked for in FERRY_TORCH_DIR, in .venv of the checkout, and in the python3 of the machine.
# The package's own find_package(Torch) needs a CUDA toolkit at configure time; this does not.
include_guard()

if(NOT FERRY_TORCH_DIR)
  file(GLOB candidates "${CMAKE_CURRENT_LIST_DIR}/../.venv/lib/python3*/site-packages/torch")
  if(NOT candidates)
    execute_process(
      COMMAND python3 -c "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
      OUTPUT_VARIABLE candidates OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  list(GET candidates 0 found)
  set(FERRY_TORCH_DIR "${found}" CACHE PATH "Directory with include/ and lib/ of libtorch" FORCE)
endif()
if(NOT EXISTS "${FERRY_TORCH_DIR}/lib/libtorch_cpu.so")
  set(missing "libtorch not found in '${FERRY_TORCH_DIR}'; pass -DFERRY_TORCH_DIR=DIRECTORY, the one "
    "with include/ and lib/ of libtorch 2.11")
  if(EXISTS "${CMAKE_CURRENT_LIST_DIR}/../test.sh")
    list(APPEND missing ", or run ./test.sh, which installs it")
  endif()
  list(JOIN missing "" missing)
  message(FATAL_ERROR "${missing}")
endif()

add_library(ferry_libtorch INTERFACE IMPORTED)
target_include_directories(ferry_libtorch SYSTEM INTERFACE
  "${FERRY_TORCH_DIR}/include"
  "${FERRY_TORCH_DIR}/include/torch/csrc/api/include")
target_compile_definitions(ferry_libtorch INTERFACE USE_DISTRIBUTED)
# The CUDA half is not linked: it is loaded from beside the other one when a GPU is opened.
if(EXISTS "${FERRY_TORCH_DIR}/lib/libtorch_cuda.so")
  set(FERRY_TORCH_HAS_CUDA ON)
  set(FERRY_TORCH_CUDA_STATUS "loaded when a GPU is asked for")
else()
  set(FERRY_TORCH_HAS_CUDA OFF)
  set(FERRY_TORCH_CUDA_STATUS "left out: this libtorch computes on the CPU alone")
endif()
# torch_cpu names symbols of libraries that only its CUDA half brings; none of ours needs them.
target_link_libraries(ferry_libtorch INTERFACE
  "${FERRY_TORCH_DIR}/lib/libtorch_cpu.so" "${FERRY_TORCH_DIR}/lib/libc10.so")
target_link_options(ferry_libtorch INTERFACE
  "LINKER:--allow-shlib-undefined" "LINKER:-rpath,${FERRY_TORCH_DIR}/lib")
