// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/profile_ranges.hpp"

#include <nvtx3/nvToolsExt.h>

namespace ferry {

namespace {

/// NVTX is headers alone, and does next to nothing unless a profiler started the process.
class nvtx final : public profile_ranges {
public:
  nvtx() : domain_(nvtxDomainCreateA("ferry")) {}
  ~nvtx() override { nvtxDomainDestroy(domain_); }

  void push(const std::string& name) override {
    nvtxEventAttributes_t range{};
    range.version = NVTX_VERSION;
    range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    range.messageType = NVTX_MESSAGE_TYPE_ASCII;
    range.message.ascii = name.c_str();
    nvtxDomainRangePushEx(domain_, &range);
  }
  void pop() noexcept override { nvtxDomainRangePop(domain_); }

private:
  nvtxDomainHandle_t domain_;
};

} // namespace

std::shared_ptr<profile_ranges> nvtx_ranges() {
  return std::make_shared<nvtx>();
}

} // namespace ferry
