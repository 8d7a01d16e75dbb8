# Run with: cmake -DSOURCE_DIR=<root> -P CheckFences.cmake
# Each fence: a regular expression over #include lines, and the only paths that may match it.
set(fences
  "<(cuda|cuda_runtime|cuda_runtime_api|driver_types)[.]h>;^(platform/src/cuda/|tests/support/fake_cuda[.]|tests/gpu/kernels[.]cu$)"
  "<nccl[.]h>;^(platform/src/nccl/|tests/support/fake_nccl[.])"
  "<(torch|ATen|c10)/;^(offload/torch|app/models|tests/torch|tests/models|tests/benchmarks|tests/field_cases|tests/gpu)/"
  "<caf/;^(messages/include/ferry/messages/caf[.]hpp$|messages/src/workers[.]cpp$|tests/support/)"
  "<spdlog/;^platform/src/log[.]cpp$"
  "<ferry/offload/;^(offload|messages|actors|app|tests)/"
  "<ferry/torch/;^(offload/torch|app|tests)/"
  "<ferry/messages/;^(messages|actors|app|tests)/"
  "<ferry/actors/;^(actors|app|tests)/")

set(broken "")
file(GLOB_RECURSE sources RELATIVE "${SOURCE_DIR}"
  "${SOURCE_DIR}/*.hpp" "${SOURCE_DIR}/*.cpp" "${SOURCE_DIR}/*.cu")
foreach(path IN LISTS sources)
  if(path MATCHES "^(build|[.]venv|[.]cache)/")
    continue()
  endif()
  file(STRINGS "${SOURCE_DIR}/${path}" includes REGEX "^[ \t]*#[ \t]*include")
  list(LENGTH fences n)
  math(EXPR last "${n} - 1")
  foreach(i RANGE 0 ${last} 2)
    math(EXPR j "${i} + 1")
    list(GET fences ${i} header)
    list(GET fences ${j} allowed)
    if(includes MATCHES "${header}" AND NOT path MATCHES "${allowed}")
      string(APPEND broken "\n  ${path} may not include ${header}")
    endif()
  endforeach()
endforeach()
if(broken)
  message(FATAL_ERROR "Includes that cross a fence:${broken}")
endif()
