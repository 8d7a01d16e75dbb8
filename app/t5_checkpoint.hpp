// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/dtype.hpp>
#include <ferry/offload/safetensors_writer.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <vector>

namespace ferry {

/// The size of a T5 1.1 or UMT5 encoder.
struct t5_shape {
  enum class family : std::uint8_t { t5, umt5 };

  family kind = family::t5; ///< A UMT5 has a table of distances in each block, a T5 in the first.
  std::int64_t blocks = 2;
  std::int64_t hidden = 64;
  std::int64_t head_dim = 64;
  std::int64_t heads = 1;
  std::int64_t ffn = 128;
  std::int64_t vocabulary = 256;

  friend bool operator==(const t5_shape&, const t5_shape&) = default;
};

[[nodiscard]] std::vector<tensor_declaration> t5_tensors(const t5_shape& shape, dtype type);

/// Returns what its `config.json` says.
[[nodiscard]] nlohmann::json t5_config_json(const t5_shape& shape, dtype type);

/// Returns the name that configurations give a type.
[[nodiscard]] const char* torch_name(dtype type);

} // namespace ferry
