// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/safetensors_bytes.hpp"

namespace ferry::test {

std::string header_length(std::size_t bytes) {
  std::string text;
  for (int i = 0; i < 8; ++i)
    text += static_cast<char>(bytes >> (8 * i) & 0xff);
  return text;
}

std::string safetensors_bytes(std::string_view header, std::size_t data_bytes) {
  return header_length(header.size()) + std::string(header) + std::string(data_bytes, 'd');
}

} // namespace ferry::test
