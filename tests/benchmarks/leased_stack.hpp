// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/actors/runtime.hpp>
#include <ferry/platform/mapped_file.hpp>

#include "support/fake_pipeline.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace ferry::bench {

/// How a device gets at the pages of a file.
enum class page_access : std::uint8_t {
  registered, ///< It copies from them.
  staged,     ///< The host copies them to pinned buffers first.
};

/// A denoiser without bodies whose equal blocks lie one behind the other in a mapped file, enabled
/// the way that a loader with a lease of the file does it.
class leased_stack {
public:
  /// @throws ferry_error also if the pages are not accessed as wanted, with the reason
  leased_stack(std::shared_ptr<device> target, std::shared_ptr<const mapped_file> file,
               std::size_t blocks, page_access how, runtime_options options);

  /// Enqueues one request, which goes through all blocks `steps` times.
  void request(std::size_t steps);

private:
  std::size_t blocks_;
  std::shared_ptr<test::fake_pipeline> model_;
  runtime runtime_;
};

} // namespace ferry::bench
