// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/mapped_file.hpp"

#include "ferry/platform/conversion.hpp"
#include "ferry/platform/error.hpp"
#include "ferry/platform/memory.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <system_error>
#include <utility>

namespace ferry {

namespace {

/// The largest pages that a page cache has on the machines that we know, and so many bytes of
/// them as are read at a time.
constexpr std::size_t large_page = std::size_t{2} << 20;
constexpr std::size_t piece_bytes = 2 * large_page;

ferry_error file_error(const std::filesystem::path& path, std::string_view what, int code) {
  return ferry_error({.code = errc::io_failure,
                      .detail = std::string(what) + " '" + path.string() +
                                "': " + std::generic_category().message(code)});
}

/// @return 0, or why it was refused
int advise_pages(const_bytes range, int advice) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(range.data()) / page_bytes() * page_bytes();
  const auto end = reinterpret_cast<std::uintptr_t>(range.data() + range.size());
  return ::madvise(reinterpret_cast<void*>(begin), end - begin, advice) == 0 ? 0 : errno;
}

/// Returns how far `address` is behind the begin of a large page.
std::size_t beyond_large_page(const std::byte* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(address) % large_page;
}

/// A file that is open for reading, and what it was when it was opened.
class open_file {
public:
  open_file(std::filesystem::path path, mapped_file::contents_at contents)
      : path_(std::move(path)), contents_(std::move(contents)),
        number_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (number_ < 0)
      throw file_error(path_, "cannot open", errno);
    if (::fstat(number_, &opened_) != 0) {
      const auto reason = errno;
      ::close(number_);
      throw file_error(path_, "cannot inspect", reason);
    }
    tells_what_is_cached_ =
        ::geteuid() == 0 || ::geteuid() == opened_.st_uid || ::access(path_.c_str(), W_OK) == 0;
  }
  open_file(const open_file&) = delete;
  open_file& operator=(const open_file&) = delete;
  ~open_file() { ::close(number_); }

  [[nodiscard]] int number() const noexcept { return number_; }
  [[nodiscard]] const struct ::stat& opened() const noexcept { return opened_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  /// Returns what lies at `offset`, as people call it.
  [[nodiscard]] std::string contents_at(std::uint64_t offset) const {
    const auto place = "byte " + std::to_string(offset);
    return contents_ ? contents_(offset) + " (" + place + ")" : place;
  }

  /// Returns whether the system says which pages of it are in the cache: not to who might only read
  /// it.
  [[nodiscard]] bool tells_what_is_cached() const noexcept { return tells_what_is_cached_; }

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

  /// @throws ferry_error `io_failure` if it is not what it was
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

private:
  std::filesystem::path path_;
  mapped_file::contents_at contents_;
  int number_;
  struct ::stat opened_{};
  bool tells_what_is_cached_ = false;
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
    mappings_.try_emplace(mapping.data(), mapping.size(), std::move(file));
  }

  void remove(const_bytes mapping) noexcept {
    const auto lock = std::unique_lock(mutex_);
    mappings_.erase(mapping.data());
  }

  [[nodiscard]] place_in_file find(const_bytes range) const noexcept {
    const auto lock = std::shared_lock(mutex_);
    const auto at = holder(range);
    if (at == mappings_.end())
      return {};
    return {at->second.file, static_cast<std::size_t>(range.data() - at->first)};
  }

  /// Takes the pages of `range`, and of the large page in which it begins, out of the process. No
  /// mapping goes away meanwhile, and nothing is read.
  void drop_pages(const_bytes range) const noexcept {
    const auto lock = std::shared_lock(mutex_);
    const auto at = holder(range);
    if (at == mappings_.end())
      return;
    const auto offset = static_cast<std::size_t>(range.data() - at->first);
    const auto shared = std::min(offset, beyond_large_page(range.data()));
    static_cast<void>(advise_pages({range.data() - shared, shared + range.size()}, MADV_DONTNEED));
  }

  /// Puts zeros where the file has no page any more. Called by the handler of the access to it:
  /// nobody holds the lock for long, and never while reading a page.
  [[nodiscard]] bool replace_page(const void* accessed) noexcept {
    const auto* address = static_cast<const std::byte*>(accessed);
    const auto lock = std::shared_lock(mutex_);
    const auto at = holder({address, 1});
    if (at == mappings_.end())
      return false;
    at->second.lost = true;
    const auto begin = reinterpret_cast<std::uintptr_t>(address) / page_bytes() * page_bytes();
    return ::mmap(reinterpret_cast<void*>(begin), page_bytes(), PROT_READ,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
  }

  [[nodiscard]] bool has_lost(const_bytes range) const noexcept {
    const auto lock = std::shared_lock(mutex_);
    const auto at = holder(range);
    return at != mappings_.end() && at->second.lost;
  }

  /// Returns a file that has lost pages, null if there is none.
  [[nodiscard]] std::shared_ptr<const open_file> any_loser() const noexcept {
    const auto lock = std::shared_lock(mutex_);
    const auto at =
        std::ranges::find_if(mappings_, [](const auto& each) { return each.second.lost.load(); });
    return at == mappings_.end() ? nullptr : at->second.file;
  }

private:
  struct entry {
    entry(std::size_t size, std::shared_ptr<const open_file> of)
        : bytes(size), file(std::move(of)) {}

    std::size_t bytes;
    std::shared_ptr<const open_file> file;
    mutable std::atomic<bool> lost = false; ///< Some page was replaced by zeros.
  };
  using entries = std::map<const std::byte*, entry, std::less<>>;

  [[nodiscard]] entries::const_iterator holder(const_bytes range) const noexcept {
    const auto after = mappings_.upper_bound(range.data());
    if (range.empty() || after == mappings_.begin())
      return mappings_.end();
    const auto at = std::prev(after);
    const auto offset = static_cast<std::size_t>(range.data() - at->first);
    return offset + range.size() > at->second.bytes ? mappings_.end() : at;
  }

  mutable std::shared_mutex mutex_;
  entries mappings_;
};

mapping_table& mappings() {
  static mapping_table table;
  return table;
}

struct ::sigaction handled_before;

void on_bus_error(int signal, siginfo_t* about, void* context) {
  const auto interrupted = errno;
  const auto is_access = about->si_code > 0; // Else somebody has sent it.
  const auto replaced = is_access && mappings().replace_page(about->si_addr);
  errno = interrupted;
  if (replaced)
    return;
  if ((handled_before.sa_flags & SA_SIGINFO) != 0)
    handled_before.sa_sigaction(signal, about, context);
  else if (handled_before.sa_handler != SIG_DFL && handled_before.sa_handler != SIG_IGN)
    handled_before.sa_handler(signal);
  else {
    ::sigaction(signal, &handled_before, nullptr);
    if (!is_access) // An access is tried again by itself.
      ::raise(signal);
  }
}

void survive_lost_pages() {
  static const bool done = [] {
    mappings();
    struct ::sigaction handler{};
    handler.sa_sigaction = on_bus_error;
    handler.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&handler.sa_mask);
    return ::sigaction(SIGBUS, &handler, &handled_before) == 0;
  }();
  static_cast<void>(done);
}

/// Maps a file where its large pages can be mapped as such. @return MAP_FAILED as `mmap`
void* map_aligned(int file, std::size_t size) noexcept {
  if (size < large_page)
    return ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
  const auto room_bytes = size + large_page;
  auto* const room = static_cast<std::byte*>(
      ::mmap(nullptr, room_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (room == MAP_FAILED)
    return MAP_FAILED;
  const auto before = (large_page - beyond_large_page(room)) % large_page;
  auto* const data = ::mmap(room + before, size, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0);
  const auto reason = errno;
  const auto mapped =
      data == MAP_FAILED ? 0 : (size + page_bytes() - 1) / page_bytes() * page_bytes();
  if (mapped == 0 || before != 0)
    ::munmap(room, mapped == 0 ? room_bytes : before);
  if (mapped != 0 && before + mapped < room_bytes)
    ::munmap(room + before + mapped, room_bytes - before - mapped);
  errno = reason;
  return data;
}

} // namespace

mapped_file::mapped_file(std::filesystem::path path, contents_at contents)
    : path_(std::move(path)) {
  auto file = std::make_shared<const open_file>(path_, std::move(contents));
  if (S_ISDIR(file->opened().st_mode))
    throw file_error(path_, "cannot map", EISDIR);
  if (file->opened().st_size == 0)
    return;

  const auto size = static_cast<std::size_t>(file->opened().st_size);
  auto* const data = map_aligned(file->number(), size);
  if (data == MAP_FAILED && errno == ENODEV)
    throw ferry_error({.code = errc::io_failure,
                       .detail = "cannot map '" + path_.string() +
                                 "': its file system does not map files; put it on another"});
  if (data == MAP_FAILED)
    throw file_error(path_, "cannot map", errno);
  bytes_ = const_bytes(static_cast<const std::byte*>(data), size);
  survive_lost_pages();
  mappings().add(bytes_, std::move(file));
}

mapped_file::~mapped_file() {
  if (bytes_.empty())
    return;
  mappings().remove(bytes_);
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

namespace {

/// Returns where the first number of `piece` is that is too large. @pre there is one
std::size_t first_overflow(conversion how, const_bytes piece) noexcept {
  std::size_t skipped = 0;
  for (auto count = piece.size() / source_element(how); count > 1;) {
    const auto half = count / 2 * source_element(how);
    const auto in_first = overflows(how, piece.subspan(skipped, half));
    skipped += in_first ? 0 : half;
    count = in_first ? count / 2 : count - count / 2;
  }
  return skipped;
}

void require_in_range(const open_file& file, conversion how, const_bytes piece,
                      std::uint64_t offset) {
  const auto narrows = target_element(how) < source_element(how);
  if (narrows && overflows(how, piece))
    throw ferry_error({.code = errc::invalid_checkpoint,
                       .detail = "'" + file.path().string() + "' has a number in " +
                                 file.contents_at(offset + first_overflow(how, piece)) +
                                 " that is too large to go from " + std::string(to_string(how)) +
                                 "; compute in f32"});
}

/// Returns whether the first page of `piece` and its last are known to be in the page cache.
bool is_cached(const open_file& file, const_bytes piece) noexcept {
  const auto there = [](const std::byte* at) {
    const auto page = reinterpret_cast<std::uintptr_t>(at) / page_bytes() * page_bytes();
    unsigned char said = 0;
    return ::mincore(reinterpret_cast<void*>(page), 1, &said) == 0 && (said & 1U) != 0;
  };
  return file.tells_what_is_cached() && there(&piece.front()) && there(&piece.back());
}

bool share_a_window(const_bytes one, const_bytes other) noexcept {
  const auto window = [](const_bytes of) {
    return reinterpret_cast<std::uintptr_t>(of.data()) / piece_bytes;
  };
  return window(one) == window(other);
}

} // namespace

const_bytes first_piece(const_bytes range, conversion how) noexcept {
  const auto element = source_element(how);
  const auto behind = reinterpret_cast<std::uintptr_t>(range.data()) % piece_bytes;
  const auto whole = (piece_bytes - behind + element - 1) / element * element;
  return range.first(std::min(range.size(), whole));
}

void mapped_reader::read(const_bytes source, mutable_bytes target, conversion how) {
  FERRY_ASSERT(target.size() == converted_bytes(how, source.size()));
  if (mappings().find(source).file == nullptr)
    return convert(how, source, target);
  while (!source.empty()) {
    const auto piece = first_piece(source, how);
    const auto made = converted_bytes(how, piece.size());
    read_piece(piece, target.first(made), how);
    source = source.subspan(piece.size());
    target = target.subspan(made);
  }
}

// What the page cache has is copied from it by the operating system, which needs no pages of this
// process for that. Conversions read the pages where they are, and what comes from the disk comes
// in large pages by being made resident.
void mapped_reader::read_piece(const_bytes piece, mutable_bytes target, conversion how) {
  const auto [file, offset] = mappings().find(piece);
  if (how == conversion::none && is_cached(*file, piece))
    return file->read(offset, target);
  enter(piece);
  require_in_range(*file, how, piece, offset);
  convert(how, piece, target);
  if (auto unchanged = check_unchanged(piece); !unchanged)
    throw ferry_error(std::move(unchanged.error()));
}

/// Makes `piece` resident. Small tensors that follow one another are in pages that already are.
void mapped_reader::enter(const_bytes piece) {
  const auto follows = share_a_window(resident_, piece) && resident_.data() <= piece.data() &&
                       mappings().find(resident_).file == mappings().find(piece).file;
  if (!follows)
    let_go();
  const auto* const begin = follows ? resident_.data() : piece.data();
  const auto* const end = std::max(&piece.back() + 1, begin + resident_.size());
  resident_ = {begin, end};
  populate_pages(piece);
}

void mapped_reader::let_go() noexcept {
  drop_resident_pages(std::exchange(resident_, {}));
}

void read_mapped(const_bytes source, mutable_bytes target, conversion how) {
  mapped_reader().read(source, target, how);
}

namespace {

/// Returns whether the kernel knows large pages. The wish is for whole ones, so that neighbours
/// which have wished as well are one range of addresses to it.
bool wish_for_large_pages(const open_file& file, std::size_t offset, const_bytes pages) noexcept {
  const auto before = std::min(offset, beyond_large_page(pages.data()));
  const auto size = static_cast<std::size_t>(file.opened().st_size);
  const auto after = (large_page - beyond_large_page(pages.data() + pages.size())) % large_page;
  const auto end = std::min(size - offset, pages.size() + after);
  return advise_pages({pages.data() - before, before + end}, MADV_HUGEPAGE) == 0;
}

} // namespace

void populate_pages(const_bytes pages) {
  const auto [file, offset] = mappings().find(pages);
  if (file == nullptr)
    return;
  if (!wish_for_large_pages(*file, offset, pages))
    static_cast<void>(advise_pages(pages, MADV_WILLNEED));
  const auto refused = advise_pages(pages, MADV_POPULATE_READ);
  file->require_unchanged();
  if (refused == EFAULT) // Which it says of a disk that cannot be read.
    throw file_error(file->path(), "cannot read", EIO);
  if (refused == EINVAL) // The kernel is too old for it: the pages are at least on their way.
    static_cast<void>(advise_pages(pages, MADV_WILLNEED));
  else if (refused != 0)
    throw file_error(file->path(), "cannot read", refused);
}

namespace {

/// Returns why what was read of `file` cannot be trusted.
std::optional<failure> change_of(const open_file& file) {
  try {
    file.require_unchanged();
  } catch (const ferry_error& changed) {
    return changed.reason();
  }
  return std::nullopt;
}

failure lost_page_of(const open_file& file) {
  return change_of(file).value_or(failure{
      .code = errc::io_failure, .detail = "cannot read a page of '" + file.path().string() + "'"});
}

} // namespace

result<void> check_unchanged(const_bytes range) {
  const auto file = mappings().find(range).file;
  if (file == nullptr)
    return {};
  if (mappings().has_lost(range))
    return tl::unexpected(lost_page_of(*file));
  if (auto changed = change_of(*file))
    return tl::unexpected(std::move(*changed));
  return {};
}

result<void> check_lost_pages() {
  if (const auto file = mappings().any_loser())
    return tl::unexpected(lost_page_of(*file));
  return {};
}

std::uint64_t bytes_read_from_disk() noexcept {
  constexpr std::uint64_t block_bytes = 512; // Whatever those of the file system are.
  ::rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return static_cast<std::uint64_t>(used.ru_inblock) * block_bytes;
}

// The kernel makes a large page resident as a whole, and forgets it as a whole. Mostly, files are
// read from their begin to their end, so that who comes later drops the one that two ranges share.
void drop_cached_pages(const_bytes range) noexcept {
  const auto [file, offset] = mappings().find(range);
  if (file == nullptr)
    return;
  const auto begin = offset / large_page * large_page;
  ::posix_fadvise(file->number(), static_cast<::off_t>(begin),
                  static_cast<::off_t>(offset + range.size() - begin), POSIX_FADV_DONTNEED);
}

void drop_resident_pages(const_bytes range) noexcept {
  mappings().drop_pages(range);
}

} // namespace ferry
