// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "versions.hpp"

#include <ferry/platform/cuda_device.hpp>
#include <ferry/platform/nccl_communicator.hpp>

#ifdef FERRY_WITH_ACTORS
#  include <ferry/messages/caf.hpp>
#endif
#ifdef FERRY_WITH_TORCH
#  include "models/torch_version.hpp"
#endif

namespace ferry {

namespace {

std::string caf_version() {
#if !defined(FERRY_WITH_ACTORS)
  return "not in this build";
#elif defined(CAF_VERSION_MAJOR)
  return std::to_string(CAF_VERSION_MAJOR) + "." + std::to_string(CAF_VERSION_MINOR) + "." +
         std::to_string(CAF_VERSION_PATCH);
#else
  return std::to_string(CAF_MAJOR_VERSION) + "." + std::to_string(CAF_MINOR_VERSION) + "." +
         std::to_string(CAF_PATCH_VERSION);
#endif
}

std::string libtorch_version() {
#ifdef FERRY_WITH_TORCH
  return std::string(torch_version());
#else
  return "not in this build";
#endif
}

std::string cuda_version_text() {
  return cuda_version().empty() ? "not in this build" : std::string(cuda_version());
}

std::string nccl_version_text() {
  return nccl_version().value_or("not at hand");
}

} // namespace

std::string versions() {
  return "ferry " FERRY_VERSION "\nlibtorch " + libtorch_version() + "\nCAF " + caf_version() +
         "\nCUDA " + cuda_version_text() + "\nNCCL " + nccl_version_text();
}

} // namespace ferry
