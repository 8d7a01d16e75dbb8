// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/weight_rewrite.hpp"

#include <ferry/platform/conversion.hpp>
#include <ferry/platform/log.hpp>

#include <memory>
#include <utility>

namespace ferry {
namespace {

const packed_storage& range_of(const unit_store& store, const weight_place& place) {
  return store.unit->layout().storages[place.storage];
}

mutable_bytes writable(const unit_store& store, const weight_place& place) {
  const auto& range = range_of(store, place);
  auto& [unit, master] = store;
  if (const auto how = unit->originals_conversion(place.storage); how != conversion::none)
    throw ferry_error({errc::unsupported,
                       "tensor '" + place.name + "' is converted from " +
                           std::string(to_string(how)) +
                           " on its way to the device, and such weights are not replaced; load the "
                           "model in the type that its checkpoint has"});
  if (!master->whole().empty())
    return master->writable(range.offset, range.bytes);
  if (unit->originals_kind(place.storage) != memory_kind::mapped)
    return unit->writable_original(place.storage);
  master->expect_moves(1);
  const auto moved = unit->writable_original(place.storage);
  master->point_at(range.offset, moved);
  return moved;
}

} // namespace

weight_rewrite::weight_rewrite(device& owner, std::span<const unit_store> stores,
                               std::vector<weight_place> places)
    : owner_(&owner) {
  targets_.reserve(places.size());
  for (auto& place : places) {
    if (place.bytes() == 0)
      continue;
    auto storage = writable(stores[place.unit], place);
    std::vector<std::byte> before(place.bytes());
    gather(place, storage, before);
    targets_.push_back({std::move(place), storage, std::move(before)});
  }
}

void weight_rewrite::announce_writes() {
  for (const auto& each : targets_)
    owner_->host_write(each.storage, {.what = "replace weights"});
}

void weight_rewrite::write(std::span<const weight_value> values) {
  announce_writes();
  auto next = targets_.begin();
  for (const auto& value : values)
    if (!value.bytes.empty()) {
      scatter(value.bytes, next->place, next->storage);
      ++next;
    }
}

void weight_rewrite::write_back() noexcept {
  try {
    announce_writes();
  } catch (const ferry_error& failed) {
    log(log_level::error, "ferry.offload",
        std::string{"announce restored weights reason="} + failed.what());
  }
  for (const auto& each : targets_)
    scatter(each.before, each.place, each.storage);
}

std::vector<weight_value> read_weights(std::span<const unit_store> stores,
                                       std::span<const weight_place> places) {
  std::vector<weight_value> values;
  values.reserve(places.size());
  for (const auto& place : places) {
    auto bytes = std::make_shared<std::vector<std::byte>>(place.bytes());
    if (!bytes->empty()) {
      const auto& store = stores[place.unit];
      const auto& range = range_of(store, place);
      const auto kept = store.master->at(range.offset, range.bytes);
      const auto how = store.unit->originals_conversion(place.storage);
      std::vector<std::byte> made(how == conversion::none ? 0 : range.bytes);
      if (!made.empty())
        convert(how, kept, made);
      gather(place, made.empty() ? kept : const_bytes(made), *bytes);
    }
    const const_bytes seen{*bytes};
    values.push_back({.name = place.name,
                      .type = place.type,
                      .shape = place.shape,
                      .bytes = seen,
                      .owner = std::move(bytes)});
  }
  return values;
}

} // namespace ferry
