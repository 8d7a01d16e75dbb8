// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/mapped_file.hpp"

#include "ferry/platform/error.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <system_error>
#include <utility>

namespace ferry {

namespace {

ferry_error file_error(const std::filesystem::path& path, std::string_view what, int code) {
  return ferry_error({.code = errc::io_failure,
                      .detail = std::string(what) + " '" + path.string() +
                                "': " + std::generic_category().message(code)});
}

/// Every live mapping of the process, so that a range alone tells which file it comes from, and so
/// that advice never reaches memory that a mapping does not own.
class mapping_table {
public:
  struct mapping {
    const_bytes bytes;
    int descriptor;
    const std::filesystem::path* path;
  };

  void add(const mapping& added) {
    const auto lock = std::unique_lock(mutex_);
    mappings_.emplace(added.bytes.data(), added);
  }

  void remove(const_bytes bytes) noexcept {
    const auto lock = std::unique_lock(mutex_);
    mappings_.erase(bytes.data());
  }

  [[nodiscard]] std::optional<mapping> find(const_bytes range) const noexcept {
    const auto lock = std::shared_lock(mutex_);
    auto after = mappings_.upper_bound(range.data());
    if (range.empty() || after == mappings_.begin())
      return std::nullopt;
    const auto& candidate = std::prev(after)->second;
    const auto offset = static_cast<std::size_t>(range.data() - candidate.bytes.data());
    if (offset + range.size() > candidate.bytes.size())
      return std::nullopt;
    return candidate;
  }

private:
  mutable std::shared_mutex mutex_;
  std::map<const std::byte*, mapping, std::less<>> mappings_;
};

mapping_table& mappings() {
  static mapping_table table;
  return table;
}

/// Advises on the pages of `range`. Both ends of a mapping lie on page boundaries or on its end.
void advise(const_bytes range, int advice) noexcept {
  if (!mappings().find(range))
    return;
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(range.data()) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(range.data() + range.size());
  ::madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

} // namespace

mapped_file::mapped_file(std::filesystem::path path)
    : path_(std::move(path)), descriptor_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ < 0)
    throw file_error(path_, "cannot open", errno);

  const auto fail = [this](std::string_view what, int code) {
    ::close(descriptor_);
    throw file_error(path_, what, code);
  };
  struct ::stat status {};
  if (::fstat(descriptor_, &status) != 0)
    fail("cannot inspect", errno);
  if (S_ISDIR(status.st_mode))
    fail("cannot map", EISDIR);
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0)
    return;

  auto* const data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor_, 0);
  if (data == MAP_FAILED)
    fail("cannot map", errno);
  bytes_ = const_bytes(static_cast<const std::byte*>(data), size);
  mappings().add({bytes_, descriptor_, &path_});
}

mapped_file::~mapped_file() {
  if (!bytes_.empty()) {
    mappings().remove(bytes_);
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
  ::close(descriptor_);
}

void read_ahead(const_bytes range) noexcept {
  advise(range, MADV_WILLNEED);
}

void drop_resident_pages(const_bytes range) noexcept {
  advise(range, MADV_DONTNEED);
}

bool copy_from_file(mutable_bytes target, const_bytes source) {
  FERRY_ASSERT(target.size() == source.size());
  const auto from = mappings().find(source);
  if (!from)
    return false;

  auto offset = source.data() - from->bytes.data();
  while (!target.empty()) {
    const auto read = ::pread(from->descriptor, target.data(), target.size(), offset);
    if (read < 0 && errno == EINTR)
      continue;
    if (read <= 0) {
      const auto what = "cannot read byte " + std::to_string(offset) + " of";
      throw file_error(*from->path, what, read < 0 ? errno : EIO);
    }
    target = target.subspan(static_cast<std::size_t>(read));
    offset += read;
  }
  return true;
}

} // namespace ferry
