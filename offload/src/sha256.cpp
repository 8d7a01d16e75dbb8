// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/sha256.hpp"

#include <ferry/platform/error.hpp>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <array>
#include <string_view>

namespace ferry {

sha256_sum::sha256_sum() : state_(EVP_MD_CTX_new()) {
  FERRY_ASSERT(state_ != nullptr);
  FERRY_ASSERT(EVP_DigestInit_ex(state_, EVP_sha256(), nullptr) == 1);
}

sha256_sum::~sha256_sum() {
  EVP_MD_CTX_free(state_);
  // What OpenSSL keeps for this thread would be lost if the thread ended together with the process.
  OPENSSL_thread_stop();
}

void sha256_sum::add(const_bytes bytes) {
  FERRY_ASSERT(EVP_DigestUpdate(state_, bytes.data(), bytes.size()) == 1);
}

std::string sha256_sum::text() const {
  auto* copy = EVP_MD_CTX_new();
  FERRY_ASSERT(copy != nullptr && EVP_MD_CTX_copy_ex(copy, state_) == 1);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  FERRY_ASSERT(EVP_DigestFinal_ex(copy, digest.data(), &length) == 1);
  EVP_MD_CTX_free(copy);
  static constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < length; ++i) {
    text += digits[digest.at(i) >> 4U];
    text += digits[digest.at(i) & 15U];
  }
  return text;
}

std::string sha256(const_bytes bytes) {
  sha256_sum sum;
  sum.add(bytes);
  return sum.text();
}

} // namespace ferry
