// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/host_registration.hpp"

#include <ferry/platform/log.hpp>
#include <ferry/platform/memory.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace ferry {
namespace {

/// Addresses from `begin` to `end`.
struct page_range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

failure refused(const mapped_region& region, const std::string& why) {
  return {errc::invalid_argument, "the mapped region of " + region.file + " " + why};
}

result<page_range> pages_of(const mapped_region& region) {
  const auto page = page_bytes();
  const auto begin = reinterpret_cast<std::uintptr_t>(region.bytes.data());
  if (begin == 0)
    return tl::unexpected(refused(region, "has no address; expected where it is mapped"));
  if (region.bytes.size() > std::numeric_limits<std::uintptr_t>::max() - page - begin)
    return tl::unexpected(refused(region, "is " + std::to_string(region.bytes.size()) +
                                              " bytes long, past all addresses"));
  return page_range{begin / page * page, (begin + region.bytes.size() + page - 1) / page * page};
}

void join_touching(std::vector<page_range>& ranges) {
  std::ranges::sort(ranges, {}, &page_range::begin);
  std::vector<page_range> joined;
  for (const auto& each : ranges)
    if (!joined.empty() && each.begin <= joined.back().end)
      joined.back().end = std::max(joined.back().end, each.end);
    else
      joined.push_back(each);
  ranges = std::move(joined);
}

bool holds(const_bytes pages, const_bytes range) noexcept {
  return range.data() >= pages.data() && range.data() + range.size() <= pages.data() + pages.size();
}

std::string text_of(const std::vector<failure>& all) {
  std::string text;
  for (const auto& each : all)
    text += (text.empty() ? "" : "; ") + describe(each);
  return text;
}

void note(const char* what, const_bytes pages) {
  log(log_level::info, "ferry.offload",
      std::string{what} + " pages bytes=" + std::to_string(pages.size()));
}

} // namespace

result<std::vector<const_bytes>> plan_registration(std::span<const mapped_region> regions,
                                                   std::optional<std::uint64_t> ceiling) {
  for (const auto& each : regions)
    if (!each.read_only)
      return tl::unexpected(refused(each, "may be written; expected a read-only mapping"));
  std::map<std::string, std::vector<page_range>> by_file;
  for (const auto& each : regions) {
    if (each.bytes.empty())
      continue;
    const auto pages = pages_of(each);
    if (!pages)
      return tl::unexpected(pages.error());
    by_file[each.file].push_back(*pages);
  }
  std::vector<const_bytes> all;
  std::uint64_t total = 0;
  for (auto& [file, ranges] : by_file) {
    join_touching(ranges);
    for (const auto& each : ranges) {
      all.emplace_back(reinterpret_cast<const std::byte*>(each.begin), each.end - each.begin);
      total += each.end - each.begin;
    }
  }
  if (ceiling && total > *ceiling)
    return tl::unexpected(failure{errc::out_of_host_memory,
                                  "the mapped weights take " + std::to_string(total) +
                                      " bytes of pages; at most " + std::to_string(*ceiling) +
                                      " may be registered, raise "
                                      "dlo_host_registration_limit_gib"});
  if (all.empty())
    return tl::unexpected(
        failure{errc::invalid_argument, "the lease has no mapped region to register"});
  return all;
}

/// What is registered, and what that keeps alive.
class host_registration::held {
public:
  held(std::shared_ptr<device> owner, std::shared_ptr<host_lease> lease)
      : owner_(std::move(owner)), lease_(std::move(lease)) {}

  [[nodiscard]] const device* owner() const noexcept { return owner_.get(); }
  [[nodiscard]] const std::vector<const_bytes>& pages() const noexcept { return pages_; }

  void add(std::span<const const_bytes> ranges) {
    pages_.reserve(ranges.size());
    for (const auto& each : ranges) {
      note("register", each);
      owner_->register_pages(each);
      pages_.push_back(each);
      note("registered", each);
    }
  }

  void check(std::span<const const_bytes> sources) {
    for (const auto& each : sources)
      if (!each.empty() && !owner_->pages_registered(each))
        throw device_error(errc::device_failure, "register pages",
                           "weights of " + std::to_string(each.size()) +
                               " bytes are not registered, although their pages were");
  }

  std::vector<failure> close() {
    std::vector<failure> failed;
    std::vector<const_bytes> left;
    for (; !pages_.empty(); pages_.pop_back())
      try {
        note("unregister", pages_.back());
        owner_->unregister_pages(pages_.back());
        note("unregistered", pages_.back());
      } catch (const ferry_error& refusal) {
        failed.push_back(refusal.reason());
        left.push_back(pages_.back());
      }
    pages_.assign(left.rbegin(), left.rend());
    return failed;
  }

private:
  std::shared_ptr<device> owner_;
  std::shared_ptr<host_lease> lease_;
  std::vector<const_bytes> pages_; ///< In the order in which they were registered.
};

namespace {

using held_pages = host_registration::held;

/// Everything that is registered in this process. Never destroyed: at the end of the process the
/// operating system unmaps what is left.
class all_registrations {
public:
  static all_registrations& here() {
    static auto& all = *new all_registrations;
    return all;
  }

  void add(std::shared_ptr<held_pages> what) {
    const std::lock_guard lock{mutex_};
    list_.push_back(std::move(what));
  }

  void remove(const std::shared_ptr<held_pages>& what) {
    const std::lock_guard lock{mutex_};
    std::erase(list_, what);
  }

  /// Takes out what is only here.
  [[nodiscard]] std::vector<std::shared_ptr<held_pages>> take_abandoned(const device& owner) {
    const std::lock_guard lock{mutex_};
    std::vector<std::shared_ptr<held_pages>> taken;
    std::erase_if(list_, [&](auto& each) {
      if (!is_abandoned(each, owner))
        return false;
      taken.push_back(std::move(each));
      return true;
    });
    return taken;
  }

  [[nodiscard]] std::size_t count_abandoned(const device& owner) noexcept {
    const std::lock_guard lock{mutex_};
    return static_cast<std::size_t>(
        std::ranges::count_if(list_, [&](const auto& each) { return is_abandoned(each, owner); }));
  }

private:
  [[nodiscard]] static bool is_abandoned(const std::shared_ptr<held_pages>& each,
                                         const device& owner) {
    return each->owner() == &owner && each.use_count() == 1;
  }

  std::mutex mutex_;
  std::vector<std::shared_ptr<held_pages>> list_;
};

} // namespace

host_registration::host_registration(std::shared_ptr<held> what) : held_(std::move(what)) {}

result<std::unique_ptr<host_registration>>
host_registration::open(std::shared_ptr<device> owner, std::shared_ptr<host_lease> lease,
                        std::span<const const_bytes> sources,
                        std::optional<std::uint64_t> ceiling) {
  const auto pages = plan_registration(lease->weights().regions, ceiling);
  if (!pages)
    return tl::unexpected(pages.error());
  if (!owner->traits().registers_pages)
    return tl::unexpected(failure{errc::unsupported, "device " + owner->traits().name +
                                                         " registers no read-only pages"});
  auto what = std::make_shared<held>(std::move(owner), std::move(lease));
  std::unique_ptr<host_registration> made{new host_registration{what}};
  all_registrations::here().add(what);
  try {
    what->add(*pages);
    what->check(sources);
  } catch (const ferry_error& refusal) {
    auto reason = refusal.reason();
    if (const auto kept = made->close(); !kept.empty())
      return tl::unexpected(
          failure{errc::incomplete, "registering mapped weights failed: " + describe(reason) +
                                        "; and pages could not be given back: " + text_of(kept) +
                                        "; they stay mapped"});
    return tl::unexpected(std::move(reason));
  }
  return made;
}

host_registration::~host_registration() = default;

std::uint64_t host_registration::bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& each : held_->pages())
    sum += each.size();
  return sum;
}

bool host_registration::covers(const_bytes range) const noexcept {
  return std::ranges::any_of(held_->pages(), [&](const_bytes each) { return holds(each, range); });
}

std::vector<failure> host_registration::close() {
  auto failed = held_->close();
  if (failed.empty())
    all_registrations::here().remove(held_);
  return failed;
}

std::vector<failure> retry_registrations(const device& owner) {
  std::vector<failure> failed;
  auto& all = all_registrations::here();
  for (auto& each : all.take_abandoned(owner)) {
    auto kept = each->close();
    if (kept.empty())
      continue;
    failed.insert(failed.end(), kept.begin(), kept.end());
    all.add(std::move(each));
  }
  return failed;
}

std::size_t abandoned_registrations(const device& owner) noexcept {
  return all_registrations::here().count_abandoned(owner);
}

} // namespace ferry
