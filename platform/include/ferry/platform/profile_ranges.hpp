// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>
#include <string>

namespace ferry {

/// Named ranges of a thread's time, for a profiler to show beside what the thread enqueued in them.
/// Those of one thread nest. Thread-safe.
class profile_ranges {
public:
  profile_ranges() = default;
  profile_ranges(const profile_ranges&) = delete;
  profile_ranges& operator=(const profile_ranges&) = delete;
  virtual ~profile_ranges() = default;

  virtual void push(const std::string& name) = 0;
  virtual void pop() noexcept = 0;
};

/// One range, for as long as it lives. Null: none.
class profile_scope {
public:
  profile_scope(profile_ranges* ranges, const char* what, const std::string& whose);
  profile_scope(const profile_scope&) = delete;
  profile_scope& operator=(const profile_scope&) = delete;
  ~profile_scope();

private:
  profile_ranges* ranges_;
};

/// Returns ranges that the profilers of NVIDIA show; null in a build without CUDA.
[[nodiscard]] std::shared_ptr<profile_ranges> nvtx_ranges();

} // namespace ferry
