// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "output_digests.hpp"

#include "run_output.hpp"

namespace ferry {

void output_digests::add(std::size_t index, const generated& made) {
  latents_.add(bytes_of(made.latents));
  auto& sums = sums_[index];
  sums.push_back(sha256(bytes_of(made.latents)));
  if (made.pictures.defined())
    sums.push_back(sha256(bytes_of(made.pictures)));
}

} // namespace ferry
