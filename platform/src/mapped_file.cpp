// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/mapped_file.hpp"

#include "ferry/platform/conversion.hpp"
#include "ferry/platform/error.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace ferry {

namespace {

/// What is read at a time of what is to be converted: it is in a core's cache while it is.
constexpr std::size_t converted_piece = std::size_t{256} << 10;

ferry_error file_error(const std::filesystem::path& path, std::string_view what, int code) {
  return ferry_error({.code = errc::io_failure,
                      .detail = std::string(what) + " '" + path.string() +
                                "': " + std::generic_category().message(code)});
}

/// A file that is open for reading, and what it was when it was opened.
class open_file {
public:
  explicit open_file(std::filesystem::path path)
      : path_(std::move(path)), number_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (number_ < 0)
      throw file_error(path_, "cannot open", errno);
    if (::fstat(number_, &opened_) != 0) {
      const auto reason = errno;
      ::close(number_);
      throw file_error(path_, "cannot inspect", reason);
    }
  }
  open_file(const open_file&) = delete;
  open_file& operator=(const open_file&) = delete;
  ~open_file() { ::close(number_); }

  [[nodiscard]] int number() const noexcept { return number_; }
  [[nodiscard]] const struct ::stat& opened() const noexcept { return opened_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  /// @throws ferry_error `io_failure`, also if the file is not what it was
  void read(std::uint64_t offset, mutable_bytes target) const {
    while (!target.empty()) {
      const auto got = ::pread(number_, target.data(), target.size(), static_cast<::off_t>(offset));
      if (got < 0 && errno == EINTR)
        continue;
      if (got < 0)
        throw file_error(path_, "cannot read", errno);
      if (got == 0)
        break;
      offset += static_cast<std::uint64_t>(got);
      target = target.subspan(static_cast<std::size_t>(got));
    }
    require_unchanged();
    if (!target.empty())
      throw file_error(path_, "cannot read", EIO);
  }

private:
  void require_unchanged() const {
    struct ::stat now{};
    if (::fstat(number_, &now) != 0)
      throw file_error(path_, "cannot inspect", errno);
    if (now.st_size != opened_.st_size)
      throw ferry_error({.code = errc::io_failure,
                         .detail = "'" + path_.string() +
                                   "' was changed while it was in use: it had " +
                                   std::to_string(opened_.st_size) + " bytes and has " +
                                   std::to_string(now.st_size)});
    if (now.st_mtim.tv_sec != opened_.st_mtim.tv_sec ||
        now.st_mtim.tv_nsec != opened_.st_mtim.tv_nsec)
      throw ferry_error({.code = errc::io_failure,
                         .detail = "'" + path_.string() +
                                   "' was written while it was in use; write a new file and put it "
                                   "in the place of the old one instead"});
  }

  std::filesystem::path path_;
  int number_;
  struct ::stat opened_{};
};

/// Where bytes of a mapping are in its file.
struct place_in_file {
  std::shared_ptr<const open_file> file; ///< Null: in none.
  std::uint64_t offset = 0;
};

/// Every live mapping of the process, so that advice never reaches memory that no mapping owns:
/// dropping the pages of ordinary memory would lose its contents.
class mapping_table {
public:
  void add(const_bytes mapping, std::shared_ptr<const open_file> file) {
    const auto lock = std::unique_lock(mutex_);
    mappings_.emplace(mapping.data(), entry{mapping.size(), std::move(file)});
  }

  void remove(const_bytes mapping) noexcept {
    const auto lock = std::unique_lock(mutex_);
    mappings_.erase(mapping.data());
  }

  [[nodiscard]] place_in_file find(const_bytes range) const noexcept {
    const auto lock = std::shared_lock(mutex_);
    const auto after = mappings_.upper_bound(range.data());
    if (range.empty() || after == mappings_.begin())
      return {};
    const auto& [begin, mapping] = *std::prev(after);
    const auto offset = static_cast<std::size_t>(range.data() - begin);
    if (offset + range.size() > mapping.bytes)
      return {};
    return {mapping.file, offset};
  }

private:
  struct entry {
    std::size_t bytes;
    std::shared_ptr<const open_file> file;
  };

  mutable std::shared_mutex mutex_;
  std::map<const std::byte*, entry, std::less<>> mappings_;
};

mapping_table& mappings() {
  static mapping_table table;
  return table;
}

void advise(const_bytes range, int advice) noexcept {
  if (mappings().find(range).file == nullptr)
    return;
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(range.data()) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(range.data() + range.size());
  ::madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

} // namespace

mapped_file::mapped_file(std::filesystem::path path) : path_(std::move(path)) {
  auto file = std::make_shared<const open_file>(path_);
  if (S_ISDIR(file->opened().st_mode))
    throw file_error(path_, "cannot map", EISDIR);
  if (file->opened().st_size == 0)
    return;

  const auto size = static_cast<std::size_t>(file->opened().st_size);
  auto* const data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file->number(), 0);
  if (data == MAP_FAILED)
    throw file_error(path_, "cannot map", errno);
  bytes_ = const_bytes(static_cast<const std::byte*>(data), size);
  mappings().add(bytes_, std::move(file));
}

mapped_file::~mapped_file() {
  if (bytes_.empty())
    return;
  mappings().remove(bytes_);
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void read_mapped(const_bytes source, mutable_bytes target, conversion how) {
  FERRY_ASSERT(target.size() == converted_bytes(how, source.size()));
  const auto [file, offset] = mappings().find(source);
  if (file == nullptr)
    return convert(how, source, target);
  if (how == conversion::none)
    return file->read(offset, target);
  thread_local std::vector<std::byte> piece(converted_piece);
  for (std::size_t done = 0; done != source.size();) {
    const auto next = mutable_bytes(piece).first(std::min(piece.size(), source.size() - done));
    file->read(offset + done, next);
    convert(how, next,
            target.subspan(converted_bytes(how, done), converted_bytes(how, next.size())));
    done += next.size();
  }
}

void read_ahead(const_bytes range) noexcept {
  advise(range, MADV_WILLNEED);
}

void drop_resident_pages(const_bytes range) noexcept {
  advise(range, MADV_DONTNEED);
}

} // namespace ferry
