// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/weight_rewrite.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/catch.hpp"
#include "support/fake_pipeline.hpp"
#include "support/staging.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

namespace ferry {
namespace {

using test::contents;

/// Says that the first storage of a unit is pages of a file, and gives it away at the first write.
class half_mapped final : public weight_unit {
public:
  explicit half_mapped(std::unique_ptr<weight_unit> unit) : unit_(std::move(unit)) {
    const auto first = unit_->originals().front();
    file_.assign(first.begin(), first.end());
  }

  const packed_layout& layout() const override { return unit_->layout(); }
  std::vector<const_bytes> originals() const override {
    auto all = unit_->originals();
    if (mapped_)
      all.front() = file_;
    return all;
  }
  memory_kind originals_kind(std::size_t i) const override {
    return mapped_ && i == 0 ? memory_kind::mapped : memory_kind::pageable;
  }
  mutable_bytes writable_original(std::size_t i) override {
    mapped_ = mapped_ && i != 0;
    return unit_->writable_original(i);
  }
  void park() override { unit_->park(); }
  void bind(std::byte* base) noexcept override { unit_->bind(base); }
  void bind_originals() noexcept override { unit_->bind_originals(); }
  void drop_originals() noexcept override { unit_->drop_originals(); }
  void restore(const_bytes master) override { unit_->restore(master); }

  [[nodiscard]] const contents& file() const noexcept { return file_; }

private:
  std::unique_ptr<weight_unit> unit_;
  contents file_;
  bool mapped_ = true;
};

/// Two matrices of a component and their master.
struct stored {
  explicit stored(bool pin)
      : unit(model.make_unit("blocks", pack(test::tensors_below(*model.tree())))),
        master(make_master(gpu, unit, {.pin = pin})), store{&unit, &master} {
    const std::array<const packed_layout*, 1> units{&unit.layout()};
    const weight_places all(model.tree(), units);
    places =
        all.find("blocks", std::array{std::string{"0.weight"}, std::string{"1.weight"}}).value();
    if (pin) {
      unit.park();
      unit.drop_originals();
    }
  }

  [[nodiscard]] contents bytes() const {
    contents all;
    for (const auto& each : read_weights(std::span{&store, 1}, places))
      all.insert(all.end(), each.bytes.begin(), each.bytes.end());
    return all;
  }

  sim_device gpu{sim_options{}};
  test::fake_pipeline model{test::node("test.root")->child("blocks", test::blocks(2, 100))};
  half_mapped unit;
  host_master master;
  unit_store store;
  std::vector<weight_place> places;
};

std::vector<weight_value> filled(unsigned char fill) {
  static std::map<unsigned char, contents> kept;
  const auto& bytes = kept.try_emplace(fill, 400, std::byte{fill}).first->second;
  return {{"0.weight", dtype::f32, {100}, bytes, nullptr},
          {"1.weight", dtype::f32, {100}, bytes, nullptr}};
}

TEST_CASE("a rewrite changes the master, wherever it is, and goes back exactly",
          "[offload][weights]") {
  const auto pin = GENERATE(true, false);
  CAPTURE(pin);
  stored at(pin);
  const auto before = at.bytes();

  weight_rewrite rewrite(at.gpu, std::span{&at.store, 1}, at.places);
  CHECK(at.bytes() == before);
  rewrite.write(filled(9));
  CHECK(at.bytes() == contents(800, std::byte{9}));
  at.unit.park();
  rewrite.write_back();

  CHECK(at.bytes() == before);
  at.unit.restore(at.master.whole());
  CHECK(test::everything(*at.model.tree()) == before);
}

TEST_CASE("bytes of a mapped file are replaced, not written", "[offload][weights]") {
  stored at(false);
  REQUIRE(at.master.segments().front().kind == memory_kind::mapped);
  const auto file = at.unit.file();

  weight_rewrite(at.gpu, std::span{&at.store, 1}, at.places).write(filled(9));

  CHECK(at.unit.file() == file);
  CHECK(std::ranges::all_of(at.master.segments(), [](const auto& each) {
    return each.kind == memory_kind::pageable && each.source.front() == std::byte{9};
  }));
}

} // namespace
} // namespace ferry
