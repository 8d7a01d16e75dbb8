// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/pipeline.hpp>

#include <string>
#include <utility>

namespace ferry {

result<pipeline_claim> pipeline_claim::take(std::shared_ptr<pipeline> subject) {
  if (subject->claimed_.exchange(true))
    return tl::unexpected(failure{errc::already_enabled, "another runtime offloads " +
                                                             std::string{subject->type_name()} +
                                                             "; disable it there first"});
  return pipeline_claim{std::move(subject)};
}

pipeline_claim& pipeline_claim::operator=(pipeline_claim&& other) noexcept {
  if (this != &other) {
    give_back();
    subject_ = std::move(other.subject_);
  }
  return *this;
}

pipeline_claim::~pipeline_claim() {
  give_back();
}

void pipeline_claim::give_back() noexcept {
  if (subject_ != nullptr)
    subject_->claimed_.store(false);
}

} // namespace ferry
