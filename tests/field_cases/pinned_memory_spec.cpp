// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/runtime.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/catch.hpp"
#include "support/fake_pipeline.hpp"
#include "support/leased_model.hpp"
#include "support/resolution.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ferry {
namespace {

using Catch::Contains;
using test::fake_module;
using test::fake_pipeline;

constexpr std::size_t block_count = 5;

/// Notes the most host memory that weights take: what lies in originals, and what is pinned.
struct high_water {
  explicit high_water(const sim_device& on) : gpu(&on) {}
  void sample() { peak = std::max(peak, originals + gpu->counters().pinned_bytes); }

  const sim_device* gpu;
  std::uint64_t originals = 0;
  std::uint64_t peak = 0;
};

class watched_unit final : public weight_unit {
public:
  watched_unit(std::unique_ptr<weight_unit> unit, high_water& water)
      : unit_(std::move(unit)), water_(&water) {}

  const packed_layout& layout() const override { return unit_->layout(); }
  std::vector<const_bytes> originals() const override { return unit_->originals(); }
  memory_kind originals_kind(std::size_t i) const override { return unit_->originals_kind(i); }
  mutable_bytes writable_original(std::size_t i) override { return unit_->writable_original(i); }
  void park() override {
    water_->sample();
    unit_->park();
  }
  void bind(std::byte* base) noexcept override { unit_->bind(base); }
  void bind_originals() noexcept override { unit_->bind_originals(); }
  void drop_originals() noexcept override {
    unit_->drop_originals();
    water_->originals -= layout().bytes;
    dropped_ = true;
  }
  void restore(const_bytes master) override {
    unit_->restore(master);
    if (std::exchange(dropped_, false))
      water_->originals += layout().bytes;
    water_->sample();
  }

private:
  std::unique_ptr<weight_unit> unit_;
  high_water* water_;
  bool dropped_ = false;
};

/// A fake pipeline whose units are watched.
class watched_pipeline final : public pipeline {
public:
  watched_pipeline(std::shared_ptr<fake_pipeline> model, high_water& water)
      : model_(std::move(model)), water_(&water) {}

  std::string_view type_name() const override { return model_->type_name(); }
  std::shared_ptr<const module_node> root() const override { return model_->root(); }
  std::optional<component_roles> declared_components() const override {
    return model_->declared_components();
  }
  std::optional<offload_plan> declared_plan() const override { return model_->declared_plan(); }
  model_offload* custom_model_offload() const override { return nullptr; }
  std::unique_ptr<weight_unit> make_unit(std::string path, packed_layout layout) override {
    return std::make_unique<watched_unit>(model_->make_unit(std::move(path), std::move(layout)),
                                          *water_);
  }
  void install_block_hook(object_id block, block_id id, weight_unit& unit,
                          std::shared_ptr<block_gate> gate) override {
    model_->install_block_hook(block, id, unit, std::move(gate));
  }
  void remove_block_hook(object_id block) override { model_->remove_block_hook(block); }
  void install_group_hook(object_id module, group_id group,
                          std::shared_ptr<group_gate> gate) override {
    model_->install_group_hook(module, group, std::move(gate));
  }
  void remove_group_hook(object_id module) override { model_->remove_group_hook(module); }

private:
  std::shared_ptr<fake_pipeline> model_;
  high_water* water_;
};

/// A denoiser of equal blocks, each with an empty parameter beside its weight, on a simulated
/// device.
class pinning_run {
public:
  explicit pinning_run(std::int64_t elements = 16, std::optional<std::uint64_t> budget = {})
      : subject_(gpu_, {.pinned_memory = budget}) {
    auto list = test::node("test.list")->as_list();
    for (std::size_t i = 0; i != block_count; ++i)
      list->child(std::to_string(i), test::block(elements, static_cast<unsigned char>(i + 1))
                                         ->parameter("empty", test::tensor({0, 16})));
    model_ = std::make_shared<fake_pipeline>(
        test::node("test.root")
            ->child("transformer", test::node("test.dit")->child("blocks", std::move(list))));
    model_->declare({.dits = {"transformer"}}).plan({.block_attrs = {{"transformer", {"blocks"}}}});
    REQUIRE(subject_.start());
  }

  [[nodiscard]] result<void> enable(const offload_config& config) {
    return subject_.enable(model_, config);
  }
  [[nodiscard]] result<void> enable() { return enable(test::compact(test::dit_only)); }

  /// Runs all blocks twice. Returns whether each saw its bytes.
  [[nodiscard]] bool right() {
    auto all = true;
    for (std::size_t i = 0; i != 2 * block_count; ++i) {
      const auto path = "transformer.blocks." + std::to_string(i % block_count);
      model_->call(path, [&](fake_module& block) {
        const auto seen = block.own_tensors().at("weight")->bytes();
        all = all && std::ranges::all_of(seen, [&](std::byte each) {
                return each == static_cast<std::byte>(i % block_count + 1);
              });
      });
    }
    return all;
  }

  [[nodiscard]] offload_state state() const { return subject_.state().value(); }
  [[nodiscard]] runtime& subject() noexcept { return subject_; }
  [[nodiscard]] sim_device& gpu() noexcept { return *gpu_; }
  [[nodiscard]] const std::shared_ptr<fake_pipeline>& model() const noexcept { return model_; }

private:
  std::shared_ptr<sim_device> gpu_ = std::make_shared<sim_device>(sim_options{});
  std::shared_ptr<fake_pipeline> model_;
  runtime subject_;
};

offload_config with_budget(std::uint64_t bytes, pin_failure_policy policy) {
  auto config = test::compact(test::dit_only);
  config.pin_budget_bytes = bytes;
  config.on_pin_failure = policy;
  return config;
}

TEST_CASE("blocks of an awkward size are pinned at that size", "[field_cases][B66]") {
  constexpr std::int64_t elements = 300'000; // 1.2 MB a block.
  pinning_run run{elements};

  REQUIRE(run.enable());

  const auto weights = block_count * elements * 4;
  CHECK(run.gpu().counters().pinned_bytes == run.state().pinned_bytes);
  CHECK(static_cast<double>(run.state().pinned_bytes) <= 1.05 * static_cast<double>(weights));
}

TEST_CASE("enabling and disabling hold the model and one block of it, not the model twice",
          "[field_cases][B67]") {
  pinning_run run{64};
  constexpr std::uint64_t block_bytes = 64 * 4;
  high_water water{run.gpu()};
  water.originals = block_count * block_bytes;
  const auto watched = std::make_shared<watched_pipeline>(run.model(), water);

  REQUIRE(run.subject().enable(watched, test::compact(test::dit_only)));
  CHECK(water.originals == 0);
  CHECK(water.peak == (block_count + 1) * block_bytes);
  water.peak = 0;
  REQUIRE(run.subject().disable());

  CHECK(water.originals == block_count * block_bytes);
  CHECK(water.peak == (block_count + 1) * block_bytes);
}

TEST_CASE("a pin that fails leaves that store pageable, is reported, and the run goes on",
          "[field_cases][B70]") {
  const auto policy = GENERATE(pin_failure_policy::fail, pin_failure_policy::whole_block_fallback);
  pinning_run run;
  auto config = test::compact(test::dit_only);
  config.on_pin_failure = policy;
  run.gpu().inject({.call = device_call::allocate, .after = 3, .error = errc::out_of_host_memory});

  REQUIRE(run.enable(config));

  CHECK(run.right());
  CHECK(run.state().pageable_stores == 1);
  CHECK(run.state().pinned_bytes == (block_count - 1) * 256);
  CHECK(run.subject().disable());
  CHECK(run.gpu().race_count() == 0);
}

TEST_CASE("a budget of four blocks pins two and streams the others through two buffers",
          "[field_cases][B70]") {
  pinning_run run;

  REQUIRE(run.enable(with_budget(4 * 256, pin_failure_policy::whole_block_fallback)));

  CHECK(run.state().pinned_bytes == 4 * 256);
  CHECK(run.state().pageable_stores == block_count - 2);
  CHECK(run.state().staged_stores == block_count - 2);
  CHECK(run.right());
  CHECK(run.gpu().counters().peak_pinned_bytes == 4 * 256);
  CHECK(run.gpu().race_count() == 0);
}

TEST_CASE("a budget without room for the buffers pins what fits and streams from where it is",
          "[field_cases][B70]") {
  pinning_run run;

  REQUIRE(run.enable(with_budget(256, pin_failure_policy::whole_block_fallback)));

  CHECK(run.state().pinned_bytes == 256);
  CHECK(run.state().pageable_stores == block_count - 1);
  CHECK(run.state().staged_stores == 0);
  CHECK(run.right());
}

TEST_CASE("a budget that is too small under policy fail is refused before anything is touched",
          "[field_cases][B70]") {
  pinning_run run;

  const auto refused = run.enable(with_budget(2 * 256, pin_failure_policy::fail));

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::out_of_host_memory);
  CHECK_THAT(refused.error().detail, Contains("takes 1280 bytes") && Contains("allows 512") &&
                                         Contains("0 are pinned already"));
  CHECK(run.model()->mutations().empty());
  CHECK(run.gpu().counters().allocations == 0);
  CHECK(run.enable());
}

TEST_CASE("pinned memory is given back by every disable and every failed enable",
          "[field_cases][B71]") {
  pinning_run run{16, block_count * 256};

  for (int i = 0; i != 20; ++i) {
    REQUIRE(run.enable());
    REQUIRE(run.subject().disable());
    run.gpu().inject({.call = device_call::record});
    REQUIRE_FALSE(run.enable());
  }

  REQUIRE(run.enable());
  CHECK(run.right());
  CHECK(run.gpu().counters().pinned_bytes == block_count * 256);
}

TEST_CASE("registered pages are given back by every disable before they are unmapped",
          "[field_cases][B71]") {
  const auto gpu = std::make_shared<sim_device>(sim_options{});
  runtime subject{gpu, {}};
  REQUIRE(subject.start());
  auto right = 0;

  for (int i = 0; i != 20; ++i) {
    test::leased_model model{gpu};
    const auto enabled =
        subject.enable(model.pipeline(), test::legacy(test::distributed), model.take_lease());
    const auto registered = gpu->counters().registered_bytes;
    right += enabled && registered == test::leased_model::pages * page_bytes() &&
                     model.run_step() && subject.disable() && model.closed() &&
                     model.registered_at_close() == 0 && model.is_whole()
                 ? 1
                 : 0;
  }

  CHECK(right == 20);
  CHECK(gpu->counters().registered_bytes == 0);
  CHECK(gpu->race_count() == 0);
}

TEST_CASE("empty tensors are neither pinned nor copied, and their blocks are right",
          "[field_cases][B73]") {
  pinning_run run;

  REQUIRE(run.enable());

  CHECK(run.right());
  CHECK(run.state().pinned_bytes == block_count * 256);
  CHECK(run.state().pageable_stores == 0);
}

TEST_CASE("without pin_memory no block is pinned, whatever the strategy", "[field_cases][B88]") {
  auto config = GENERATE(test::compact(test::dit_only), test::legacy(test::distributed));
  config.pin_memory = false;
  pinning_run run;

  REQUIRE(run.enable(config));

  CHECK(run.state().enabled);
  CHECK(run.right());
  CHECK(run.gpu().counters().peak_pinned_bytes == 0);
  CHECK(run.state().pageable_stores == 0);
}

TEST_CASE("without pin_memory no whole component is pinned", "[field_cases][B88]") {
  auto config = GENERATE(test::compact(R"({"mode":"module","components":["dit","text_encoder"]})"),
                         test::legacy(test::model_level));
  config.pin_memory = false;
  const auto gpu = std::make_shared<sim_device>(sim_options{});
  const auto model = std::make_shared<fake_pipeline>(
      test::node("test.root")
          ->child("transformer", test::node("test.dit")->parameter("weight", {4}))
          ->child("text_encoder", test::node("test.encoder")->parameter("weight", {4})));
  model->declare({.dits = {"transformer"}, .encoders = {"text_encoder"}});
  runtime subject{gpu, {}};
  REQUIRE(subject.start());

  REQUIRE(subject.enable(model, config));

  for (const auto* path : {"text_encoder", "transformer"}) {
    const auto* weight = &model->tree()->at(path)->own_tensors().at("weight")->storage->bytes;
    const auto original = *weight;
    model->call(path, [&](fake_module& component) {
      const auto seen = component.own_tensors().at("weight")->bytes();
      CHECK(std::ranges::equal(seen, original));
    });
    CHECK(subject.state()->components.at(path).on_device);
  }
  CHECK(gpu->counters().peak_pinned_bytes == 0);
  CHECK(subject.state()->pageable_stores == 0);
}

TEST_CASE("what is copied is the pinned copy: the originals are gone", "[field_cases][B89]") {
  pinning_run run;

  REQUIRE(run.enable());

  for (std::size_t i = 0; i != block_count; ++i) {
    const auto path = "transformer.blocks." + std::to_string(i);
    const auto& original = run.model()->tree()->at(path)->own_tensors().at("weight")->storage;
    CHECK(original->bytes.front() == std::byte{0xff});
  }
  CHECK(run.right());
}

} // namespace
} // namespace ferry
