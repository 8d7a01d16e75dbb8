// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "nccl/nccl_check.hpp"

#include "ferry/platform/log.hpp"

#include <string>

namespace ferry::nccl {
namespace {

const char* name_of(ncclResult_t said) {
  switch (said) {
    case ncclSuccess:
      return "ncclSuccess";
    case ncclUnhandledCudaError:
      return "ncclUnhandledCudaError";
    case ncclSystemError:
      return "ncclSystemError";
    case ncclInternalError:
      return "ncclInternalError";
    case ncclInvalidArgument:
      return "ncclInvalidArgument";
    case ncclInvalidUsage:
      return "ncclInvalidUsage";
    case ncclRemoteError:
      return "ncclRemoteError";
    case ncclInProgress:
      return "ncclInProgress";
    case ncclNumResults:
      break;
  }
  return "unknown result";
}

errc code_of(ncclResult_t said) {
  switch (said) {
    case ncclInvalidArgument:
    case ncclInvalidUsage:
      return errc::invalid_argument;
    case ncclRemoteError:
      return errc::transfer_aborted; // Another rank has ended, or its network has.
    default:
      return errc::device_failure;
  }
}

std::string text_of(const char* text) {
  return text == nullptr ? std::string() : std::string(text);
}

} // namespace

failure failed_call(const api& library, const char* call, ncclResult_t said, ncclComm_t comm) {
  auto detail = std::string(call) + ": " + text_of(library.ncclGetErrorString(said)) + " (" +
                name_of(said) + ")";
  if (const auto last = text_of(library.ncclGetLastError(comm)); !last.empty())
    detail += ": " + last;
  return {.code = code_of(said), .detail = std::move(detail), .vendor_code = said};
}

outcome check(const api& library, const char* call, ncclResult_t said, ncclComm_t comm) {
  if (said == ncclSuccess || said == ncclInProgress)
    return {};
  return tl::unexpected(failed_call(library, call, said, comm));
}

void check_while_closing(const api& library, const char* call, ncclResult_t said) noexcept {
  const auto done = check(library, call, said);
  if (!done && done.error().detail.find("driver shutting down") == std::string::npos)
    log(log_level::error, "ferry.platform", "close communicator reason=" + describe(done.error()));
}

} // namespace ferry::nccl
