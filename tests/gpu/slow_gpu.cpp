// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "gpu/slow_gpu.hpp"

#include "gpu/kernels.hpp"

namespace ferry::test {

void slow_gpu::copy(stream_id stream, const copy_operation& operation) {
  if (slow_.copy.count() != 0)
    spin(inner_->native_stream(stream), slow_.copy);
  inner_->copy(stream, operation);
}

void slow_gpu::compute(stream_id stream, const compute_operation& operation) {
  inner_->compute(stream, operation);
  if (slow_.compute.count() != 0)
    spin(inner_->native_stream(stream), slow_.compute);
}

} // namespace ferry::test
