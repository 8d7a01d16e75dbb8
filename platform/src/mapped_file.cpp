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
#include <iterator>
#include <map>
#include <mutex>
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

class descriptor {
public:
  explicit descriptor(const std::filesystem::path& path)
      : number_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() {
    if (number_ >= 0)
      ::close(number_);
  }

  [[nodiscard]] int number() const noexcept { return number_; }

private:
  int number_;
};

/// Every live mapping of the process, so that advice never reaches memory that no mapping owns:
/// dropping the pages of ordinary memory would lose its contents.
class mapping_table {
public:
  void add(const_bytes mapping) {
    const auto lock = std::unique_lock(mutex_);
    sizes_.emplace(mapping.data(), mapping.size());
  }

  void remove(const_bytes mapping) noexcept {
    const auto lock = std::unique_lock(mutex_);
    sizes_.erase(mapping.data());
  }

  [[nodiscard]] bool holds(const_bytes range) const noexcept {
    const auto lock = std::shared_lock(mutex_);
    const auto after = sizes_.upper_bound(range.data());
    if (range.empty() || after == sizes_.begin())
      return false;
    const auto& [begin, size] = *std::prev(after);
    return static_cast<std::size_t>(range.data() - begin) + range.size() <= size;
  }

private:
  mutable std::shared_mutex mutex_;
  std::map<const std::byte*, std::size_t, std::less<>> sizes_;
};

mapping_table& mappings() {
  static mapping_table table;
  return table;
}

void advise(const_bytes range, int advice) noexcept {
  if (!mappings().holds(range))
    return;
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(range.data()) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(range.data() + range.size());
  ::madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

} // namespace

mapped_file::mapped_file(std::filesystem::path path) : path_(std::move(path)) {
  const auto file = descriptor(path_);
  if (file.number() < 0)
    throw file_error(path_, "cannot open", errno);
  struct ::stat status{};
  if (::fstat(file.number(), &status) != 0)
    throw file_error(path_, "cannot inspect", errno);
  if (S_ISDIR(status.st_mode))
    throw file_error(path_, "cannot map", EISDIR);
  if (status.st_size == 0)
    return;

  const auto size = static_cast<std::size_t>(status.st_size);
  auto* const data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.number(), 0);
  if (data == MAP_FAILED)
    throw file_error(path_, "cannot map", errno);
  bytes_ = const_bytes(static_cast<const std::byte*>(data), size);
  mappings().add(bytes_);
}

mapped_file::~mapped_file() {
  if (bytes_.empty())
    return;
  mappings().remove(bytes_);
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void read_ahead(const_bytes range) noexcept {
  advise(range, MADV_WILLNEED);
}

void drop_resident_pages(const_bytes range) noexcept {
  advise(range, MADV_DONTNEED);
}

} // namespace ferry
