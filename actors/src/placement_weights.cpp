// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "placement.hpp"

#include <algorithm>
#include <utility>

namespace ferry {

/// Blocks, residents, groups: the order in which places number them.
std::vector<unit_store> placement::stores() {
  std::vector<unit_store> all;
  for (auto* units : {&blocks_, &residents_})
    for (auto& each : *units)
      all.push_back({each.unit.get(), &*each.master});
  for (const auto& each : groups_->groups())
    if (each.stager != nullptr)
      all.push_back(each.stager->store());
  return all;
}

result<weight_places> placement::places_in(const std::string& component) {
  if (subject_ == nullptr)
    return tl::unexpected(
        failure{errc::unsupported, "the weights belong to no pipeline and have no names"});
  if (!plan_.components.contains(component))
    return tl::unexpected(
        failure{errc::not_found, "'" + component + "' is no component of the pipeline"});
  std::vector<const packed_layout*> layouts;
  for (const auto& each : stores())
    layouts.push_back(&each.unit->layout());
  return weight_places{subject_->root(), layouts};
}

result<std::vector<weight_place>> placement::check(const weight_update& update) {
  return places_in(update.component).and_then([&](const weight_places& places) {
    return places.check(update);
  });
}

result<weight_snapshot> placement::read(const std::string& component,
                                        const std::vector<std::string>& names) {
  return places_in(component)
      .and_then([&](const weight_places& places) { return places.find(component, names); })
      .and_then([&](std::vector<weight_place> found) -> result<std::vector<weight_place>> {
        for (const auto& each : found)
          if (each.unit < blocks_.size() && !blocks_[each.unit].transforms.empty())
            return tl::unexpected(
                failure{errc::unsupported,
                        component + ": tensor '" + each.name +
                            "' is on this rank only as it is stored; read it after a disable"});
        return found;
      })
      .map([&](const std::vector<weight_place>& found) {
        return weight_snapshot{read_weights(stores(), found),
                               plan_.components.at(component).version};
      });
}

std::unique_ptr<weight_rewrite> placement::rewrite(std::vector<weight_place> places) {
  struct repoint {
    placement& of;
    ~repoint() { of.point_sources(); }
  } const moved{*this};
  return std::make_unique<weight_rewrite>(*owner_, stores(), std::move(places));
}

void placement::point_sources() noexcept {
  for (std::size_t i = 0; i != blocks_.size(); ++i)
    through_->add_sources(plan_.transfers.blocks[i].id, blocks_[i].master->segments(),
                          binds_originals(blocks_[i]));
  for (std::size_t i = 0; i != residents_.size(); ++i)
    through_->point_resident(i, residents_[i].master->segments());
}

bool placement::touches_residents(std::span<const weight_place> places) const noexcept {
  return std::ranges::any_of(places, [&](const weight_place& each) {
    return each.unit >= blocks_.size() && each.unit < blocks_.size() + residents_.size();
  });
}

weight_version placement::updated(const std::string& component) {
  auto& version = plan_.components.at(component).version;
  return version = weight_version{static_cast<std::uint64_t>(version) + 1};
}

} // namespace ferry
