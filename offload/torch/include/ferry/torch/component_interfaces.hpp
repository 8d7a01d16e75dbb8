// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/module_tree.hpp>

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace ferry {

// What a module can tell the offloader beyond its registered children and tensors: it derives from
// the interface beside `torch::nn::Module`. Nothing is guessed from names.

/// Says where the module's blocks are, for pipelines whose plan does not.
class declares_blocks {
public:
  virtual ~declares_blocks() = default;
  [[nodiscard]] virtual block_declaration declared_blocks() const = 0;
};

/// Enumerates tensor members that are neither parameters nor buffers, so that enabling knows of
/// them: quantisation scales, tables. The same tensor objects on every call.
class declares_tensors {
public:
  virtual ~declares_tensors() = default;
  [[nodiscard]] virtual std::vector<std::pair<std::string, at::Tensor>>
  unregistered_tensors() const = 0;
};

/// Names buffers that checkpoints leave out.
class declares_transient_buffers {
public:
  virtual ~declares_transient_buffers() = default;
  [[nodiscard]] virtual std::vector<std::string> transient_buffers() const = 0;
};

/// Brings itself to the device and back.
class stages_itself {
public:
  virtual ~stages_itself() = default;
  virtual void load_to_device() = 0;
  virtual void offload_to_cpu() = 0;
};

/// Says whether the module holds its weights, or stands in for one that another rank holds.
class declares_loaded {
public:
  virtual ~declares_loaded() = default;
  [[nodiscard]] virtual bool is_loaded() const = 0;
};

} // namespace ferry
