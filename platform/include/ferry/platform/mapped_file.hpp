// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>
#include <ferry/platform/error.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace ferry {

/// A file mapped read-only, and open for as long. Immovable: spans into it are kept all over the
/// program. An empty file has no bytes.
class mapped_file {
public:
  /// Says what lies at an offset of the file, for messages: `tensor "blocks.0.weight"`. Asked by
  /// any thread that reads bytes of the mapping, while it lives.
  using contents_at = std::function<std::string(std::uint64_t offset)>;

  /// @throws ferry_error `io_failure` with the path and the operating system's reason
  explicit mapped_file(std::filesystem::path path, contents_at contents = {});
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;
  ~mapped_file();

  [[nodiscard]] const_bytes bytes() const noexcept { return bytes_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

private:
  std::filesystem::path path_;
  const_bytes bytes_;
};

/// Copies bytes of mapped files, a piece at a time. The pages of at most one piece stay resident
/// behind it, for what follows them in their file, also when their `mapped_file` ends. Used by one
/// thread at a time.
class mapped_reader {
public:
  mapped_reader() = default;
  mapped_reader(const mapped_reader&) = delete;
  mapped_reader& operator=(const mapped_reader&) = delete;
  ~mapped_reader() { let_go(); }

  /// Copies `source`, converted, to `target`, which has room for exactly that. A file that was cut
  /// short or written since it was mapped is an error, where an access of its pages may end the
  /// process. Bytes that no live `mapped_file` holds are copied like any other.
  /// @throws ferry_error `io_failure` with the path and what has happened to the file,
  /// `invalid_checkpoint` with its place for a number that is too large for a narrower type
  void read(const_bytes source, mutable_bytes target, conversion how);

  /// Takes what is resident of it out of the process.
  void let_go() noexcept;

private:
  void read_piece(const_bytes piece, mutable_bytes target, conversion how);
  void enter(const_bytes piece);

  const_bytes resident_;
};

/// Reads with a `mapped_reader` of its own: nothing stays resident.
/// @throws ferry_error as `mapped_reader::read`
void read_mapped(const_bytes source, mutable_bytes target, conversion how = conversion::none);

/// Returns what of `range` is read at a time: up to the next 4 MiB of addresses and the end of the
/// element that lies there, so that pieces share no more of a large page than that.
[[nodiscard]] const_bytes first_piece(const_bytes range,
                                      conversion how = conversion::none) noexcept;

/// Makes `pages` of a mapped file resident, so that reading them waits for nothing. What is not in
/// the page cache is read into pages as large as the kernel has them: those cost next to nothing
/// to be made resident again. Does nothing for memory that no live `mapped_file` holds.
/// @throws ferry_error `io_failure` as `mapped_reader::read`
void populate_pages(const_bytes pages);

/// Fails with `io_failure`, the path and what happened, if the file of `range` has been cut short
/// or written since it was mapped: then whoever has read its pages may have read anything. Asks the
/// operating system once. Nothing for memory that no live `mapped_file` holds. Thread-safe.
[[nodiscard]] result<void> check_unchanged(const_bytes range);

/// Fails in the same way if an access has met a page that the file of any mapping does not have any
/// more. Such an access reads zeros instead of ending the process, from the first `mapped_file` on;
/// a SIGBUS of another kind goes to whoever handled it before. Who computes with mapped weights
/// outside of requests asks here before he uses what came out. Thread-safe.
[[nodiscard]] result<void> check_lost_pages();

/// Returns how many bytes disks have read for this process since it began: not those that the page
/// cache had.
[[nodiscard]] std::uint64_t bytes_read_from_disk() noexcept;

/// Lets the operating system forget whole pages of `range` of a mapped file that are in its page
/// cache and in no process, and with them the large page in which the range begins. Never fails,
/// and does nothing for memory that no live `mapped_file` holds.
void drop_cached_pages(const_bytes range) noexcept;

/// Takes the pages that hold `range` of a mapped file out of the resident set, those at its edges
/// and the large page in which it begins included. The contents stay what they are: a later
/// access reads the file again. Never fails, and does nothing for memory that no live `mapped_file`
/// holds.
void drop_resident_pages(const_bytes range) noexcept;

} // namespace ferry
