// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/log.hpp>

#include "placement.hpp"

#include <utility>

namespace ferry {

bool placement::is_leased(const weight_unit& unit) const {
  if (lease_ == nullptr)
    return false;
  const auto originals = unit.originals();
  for (std::size_t i = 0; i != originals.size(); ++i)
    if (unit.originals_kind(i) == memory_kind::mapped && lease_->weights().maps(originals[i]))
      return true;
  return false;
}

// Contract 11.3: only what one rank copies for itself is worth it, and only where it is wanted.
void placement::plan_pages() {
  if (lease_ == nullptr)
    return;
  // What is transformed becomes a copy of its own.
  auto any_gathered = false;
  const auto add = [&](const weight_unit& unit) {
    const auto originals = unit.originals();
    for (std::size_t i = 0; i != originals.size(); ++i)
      if (unit.originals_kind(i) == memory_kind::mapped && lease_->weights().maps(originals[i]))
        leased_sources_.push_back(originals[i]);
  };
  for (std::size_t i = 0; i != blocks_.size(); ++i)
    if (manifest_of(i) != nullptr)
      any_gathered = any_gathered || blocks_[i].leased;
    else if (blocks_[i].transforms.empty())
      add(*blocks_[i].unit);
  for (std::size_t i = 0; i != group_units_.size(); ++i)
    if (group_units_[i] != nullptr && group_transforms_[i].empty())
      add(*group_units_[i]);
  if (any_gathered)
    leave_pages({errc::unsupported, "ranks gather the leased blocks"});
  else if (leased_sources_.empty())
    leave_pages({errc::invalid_pipeline, "no block that is copied lies in a mapped region of the "
                                         "lease"});
  else if (!plan_.pinning.wanted)
    leave_pages({errc::unsupported, "pin_memory is false"});
  else if (const auto pages = plan_registration(lease_->weights().regions, plan_.most_registered);
           !pages)
    leave_pages(pages.error());
  else
    for (const auto& each : *pages)
      pages_wanted_ += each.size();
}

void placement::leave_pages(failure reason) {
  const auto asked_for = plan_.pinning.wanted && plan_.pinning.useful;
  log(asked_for ? log_level::warn : log_level::info, "ferry.actors",
      "leave pages unregistered reason=" + describe(reason));
  not_registered_ = std::move(reason);
  pages_wanted_ = 0;
}

void placement::register_pages(const std::shared_ptr<device>& owner) {
  if (pages_wanted_ == 0)
    return;
  for (const auto& each : retry_registrations(*owner))
    log(log_level::warn, "ferry.actors", "keep pages registered reason=" + describe(each));
  auto opened = host_registration::open(owner, lease_, leased_sources_, plan_.most_registered);
  if (opened) {
    registered_ = std::move(*opened);
    return;
  }
  if (opened.error().code == errc::incomplete) {
    pages_left_ = true;
    throw ferry_error{std::move(opened.error())};
  }
  leave_pages(std::move(opened.error()));
}

std::uint64_t placement::registered_bytes() const noexcept {
  return registered_ == nullptr ? 0 : registered_->bytes();
}

master_options placement::options_of(bool pin) const noexcept {
  return {.pin = pin, .registered = registered_.get()};
}

// A stager that could not be made has let go of its unit.
weight_unit& placement::unit_of_group(std::size_t index) {
  if (auto* const stager = groups_->groups()[index].stager.get())
    return *stager->store().unit;
  auto& unit = group_units_[index];
  if (unit == nullptr) {
    const auto& group = plan_.transfers.groups[index];
    unit = subject_->make_unit(group.path, group.layout);
  }
  return *unit;
}

// Nothing of the pipeline may be left in a lease that ends.
void placement::own_originals(weight_unit& unit) const {
  for (std::size_t i = 0; i != unit.layout().storages.size(); ++i)
    if (unit.originals_kind(i) == memory_kind::mapped &&
        lease_->weights().maps(unit.originals()[i]))
      static_cast<void>(unit.writable_original(i));
}

std::optional<failure> placement::unregister_pages() {
  if (registered_ == nullptr)
    return std::nullopt;
  const auto failed = registered_->close();
  for (const auto& each : failed) {
    log(log_level::error, "ferry.actors", "keep pages registered reason=" + describe(each));
    // A device that has failed for good gives nothing back any more. Nothing reads the pages.
    if (each.code != errc::device_poisoned)
      return each;
  }
  pages_left_ = !failed.empty();
  registered_.reset();
  return std::nullopt;
}

result<void> placement::end_lease() {
  const auto ended = std::exchange(lease_, nullptr);
  if (ended == nullptr || pages_left_ || !units_made_)
    return {};
  return ended->close();
}

} // namespace ferry
