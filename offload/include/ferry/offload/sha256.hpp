// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>

#include <string>

struct evp_md_ctx_st;

namespace ferry {

/// The SHA-256 of bytes that come in pieces.
class sha256_sum {
public:
  sha256_sum();
  sha256_sum(const sha256_sum&) = delete;
  sha256_sum& operator=(const sha256_sum&) = delete;
  ~sha256_sum();

  void add(const_bytes bytes);

  /// Returns the sum of what has been added so far, in lower-case hexadecimal.
  [[nodiscard]] std::string text() const;

private:
  evp_md_ctx_st* state_;
};

/// Returns the SHA-256 of `bytes` in lower-case hexadecimal.
[[nodiscard]] std::string sha256(const_bytes bytes);

} // namespace ferry
