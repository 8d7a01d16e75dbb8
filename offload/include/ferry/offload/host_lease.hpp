// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/dtype.hpp>
#include <ferry/platform/device.hpp>
#include <ferry/platform/error.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ferry {

/// What a manifest says of one tensor.
struct leased_tensor_form {
  dtype type = dtype::f32;
  std::vector<std::int64_t> shape;   ///< In elements.
  std::vector<std::int64_t> strides; ///< In elements.
  std::size_t bytes = 0;

  friend bool operator==(const leased_tensor_form&, const leased_tensor_form&) = default;
};

/// A tensor whose bytes a lease holds, in host memory.
struct leased_tensor {
  leased_tensor_form form;
  const_bytes bytes;
};

/// Pages of one file that tensors of a lease lie in.
struct mapped_region {
  std::string file;
  const_bytes bytes;
  bool read_only = true;
};

/// What a lease holds.
struct leased_weights {
  std::string resolution_id;                    ///< Names the artifact the bytes came from.
  std::map<std::string, leased_tensor> tensors; ///< By runtime name.
  std::vector<mapped_region> regions;

  /// Returns whether all of `range` lies in one region.
  [[nodiscard]] bool maps(const_bytes range) const noexcept;
};

/// Ownership of validated host weights inside this process. Immovable and not to be copied or
/// serialised; the tensors are valid until it is closed.
///
/// Used by one thread at a time.
class host_lease {
public:
  /// Gives something back; throws if it cannot.
  using closer = std::function<void()>;

  /// How the weights are given back: `closers` in reverse order, then `unlock`, which leaves the
  /// lock that is shared with other processes. A child process that inherited the lease runs the
  /// closers but not `unlock`: the lock is its parent's.
  struct release {
    std::vector<closer> closers = {};
    closer unlock = {}; ///< May be empty.
  };

  /// Takes over `weights`, and checks every tensor against `manifest`, by name and both ways.
  /// @return `invalid_checkpoint` with the tensor, what it is and what was expected; the weights
  /// have then been given back
  [[nodiscard]] static result<std::unique_ptr<host_lease>>
  open(leased_weights weights, const std::map<std::string, leased_tensor_form>& manifest,
       release how);

  host_lease(const host_lease&) = delete;
  host_lease& operator=(const host_lease&) = delete;
  ~host_lease();

  /// @pre not closed
  [[nodiscard]] const leased_weights& weights() const noexcept;
  [[nodiscard]] bool closed() const noexcept { return closed_; }

  /// Gives everything back, once: later calls do nothing and succeed. A closer that fails does not
  /// keep the others from running. Fails with the first failure.
  result<void> close();

private:
  host_lease(leased_weights weights, release how);

  leased_weights weights_;
  release how_;
  int owner_; ///< The process that opened it.
  bool closed_ = false;
};

/// The envelope in which a loader hands a lease to the backend. Closes the lease unless it was
/// taken. Used by one thread at a time.
class lease_carrier {
public:
  explicit lease_carrier(std::unique_ptr<host_lease> lease);
  lease_carrier(const lease_carrier&) = delete;
  lease_carrier& operator=(const lease_carrier&) = delete;
  ~lease_carrier() = default;

  /// Returns whether the lease is still here.
  [[nodiscard]] bool holds() const noexcept { return lease_ != nullptr; }

  /// Hands the lease over; whoever has it closes it. Fails with `stale_handle` once it was taken or
  /// closed.
  [[nodiscard]] result<std::unique_ptr<host_lease>> take();

  /// Closes the lease if nobody took it. Repeating it changes nothing. Fails as
  /// `host_lease::close`.
  result<void> close();

private:
  std::unique_ptr<host_lease> lease_;
};

} // namespace ferry
