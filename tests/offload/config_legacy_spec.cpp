// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/config_legacy.hpp>

#include "support/catch.hpp"

#include <cmath>
#include <limits>
#include <string>
#include <tuple>

namespace ferry {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

constexpr auto layer_dit = R"({"mode":"layer","components":["dit"]})";
constexpr auto gathered_dit =
    R"({"mode":"layer","components":["dit"],"layer_options":{"dit":{"weight_transfer":"allgather"}}})";
constexpr auto gathered_encoder =
    R"({"mode":"layer","components":["text_encoder"],
        "layer_options":{"text_encoder":{"weight_transfer":"allgather"}}})";

config_resolution resolved(const legacy_options& options) {
  return resolve_config(std::nullopt, options).value();
}

failure refused(std::optional<std::string_view> json, const legacy_options& options) {
  const auto outcome = resolve_config(json, options);
  return outcome ? failure{.code = errc::internal, .detail = "accepted"} : outcome.error();
}

struct mesh {
  parallel_options parallel;
  int size;
};

struct refusal {
  std::optional<std::string_view> json;
  legacy_options options;
  std::string message;
};

TEST_CASE("without any option nothing is offloaded", "[offload][config]") {
  const auto config = resolved({}).config;

  CHECK(config.strategy == offload_strategy::none);
  CHECK_FALSE(config.is_explicit());
  CHECK(config.pin_memory);
  CHECK(config.group_size == 1);
  CHECK(config.chunk_bytes == std::size_t{64} << 20);
  CHECK_FALSE(config.pin_budget_bytes.has_value());
}

TEST_CASE("a compact configuration of null leaves the legacy flags in charge",
          "[offload][config]") {
  CHECK(resolve_config("null", {.enable_cpu_offload = true}).value().config ==
        resolved({.enable_cpu_offload = true}).config);
}

TEST_CASE(
    "distributed wins over layerwise and layerwise over model-level, and the losers are noted",
    "[offload][config]") {
  const auto [distributed, layerwise, cpu, strategy, notes] =
      GENERATE(table<bool, bool, bool, offload_strategy, std::size_t>({
          {false, false, false, offload_strategy::none, 0},
          {false, false, true, offload_strategy::model_level, 0},
          {false, true, false, offload_strategy::layer_wise, 0},
          {false, true, true, offload_strategy::layer_wise, 1},
          {true, false, false, offload_strategy::distributed_layer_wise, 0},
          {true, false, true, offload_strategy::distributed_layer_wise, 1},
          {true, true, false, offload_strategy::distributed_layer_wise, 1},
          {true, true, true, offload_strategy::distributed_layer_wise, 2},
      }));

  const auto outcome = resolved({.enable_cpu_offload = cpu,
                                 .enable_layerwise_offload = layerwise,
                                 .enable_distributed_layerwise_offload = distributed});

  CHECK(outcome.config.strategy == strategy);
  CHECK(outcome.notes.size() == notes);
}

TEST_CASE("a note names the ignored flag and the one that won", "[offload][config]") {
  const auto outcome = resolved({.enable_cpu_offload = true, .enable_layerwise_offload = true});

  CHECK(outcome.notes ==
        std::vector<std::string>{
            "enable_cpu_offload is ignored; enable_layerwise_offload takes priority"});
}

TEST_CASE("options that nothing reads are named in one note", "[offload][config]") {
  const auto [options, expected] = GENERATE(table<legacy_options, std::string>({
      {{.pin_cpu_memory = false, .dlo_pin_budget_gb = 1.0},
       "pin_cpu_memory, dlo_pin_budget_gb without effect; nothing is offloaded without "
       "enable_cpu_offload, "},
      {{.dlo_use_allgather = false, .dlo_resident_layers = 2, .dlo_chunk_size_mb = 16},
       "dlo_use_allgather, dlo_resident_layers, dlo_chunk_size_mb without effect; "},
      {{.dlo_pin_failure_policy = "whole_block_fallback", .dlo_transport_backend = "reference"},
       "dlo_pin_failure_policy, dlo_transport_backend without effect; "},
      {{.enable_cpu_offload = true, .dlo_resident_layers = 2, .dlo_pin_budget_gb = 1.0},
       "dlo_resident_layers without effect under model_level"},
      {{.enable_layerwise_offload = true,
        .dlo_use_allgather = false,
        .dlo_resident_layers = 2,
        .pin_cpu_memory = false},
       "dlo_use_allgather without effect under layer_wise"},
  }));

  const auto outcome = resolved(options);

  REQUIRE(outcome.notes.size() == 1);
  CHECK_THAT(outcome.notes.front(), StartsWith(expected));
}

TEST_CASE("options that the strategy reads are not noted", "[offload][config]") {
  CHECK(resolved({.enable_distributed_layerwise_offload = true,
                  .pin_cpu_memory = false,
                  .dlo_chunk_size_mb = 16,
                  .dlo_pin_budget_gb = 1.0,
                  .dlo_pin_failure_policy = "whole_block_fallback",
                  .dlo_transport_backend = "reference"})
            .notes.empty());
  CHECK(resolve_config(R"({"mode":"layer","components":["dit"]})", {.dlo_pin_budget_gb = 1.0})
            .value()
            .notes.empty());
}

TEST_CASE("resident layers are no reason to note that nothing is gathered", "[offload][config]") {
  CHECK(resolved({.enable_distributed_layerwise_offload = true,
                  .dlo_use_allgather = false,
                  .dlo_resident_layers = 2})
            .notes.empty());
}

TEST_CASE("a distributed run without collectives is noted", "[offload][config]") {
  const auto outcome =
      resolved({.enable_distributed_layerwise_offload = true, .dlo_use_allgather = false});

  REQUIRE(outcome.notes.size() == 1);
  CHECK_THAT(outcome.notes.front(), Contains("without collectives"));
}

TEST_CASE("legacy flags gather the denoisers at most", "[offload][config]") {
  const auto gathers = GENERATE(true, false);

  const auto config =
      resolved({.enable_distributed_layerwise_offload = true, .dlo_use_allgather = gathers}).config;

  CHECK(config.uses_allgather(component_name::dit) == gathers);
  CHECK(config.any_allgather() == gathers);
  CHECK_FALSE(config.uses_allgather(component_name::text_encoder));
  CHECK_FALSE(config.uses_allgather(component_name::vae));
  CHECK(config.transfers.size() == all_component_names.size());
}

TEST_CASE("legacy distributed settings carry over", "[offload][config]") {
  const auto config = resolved({.enable_distributed_layerwise_offload = true,
                                .dlo_use_allgather = false,
                                .dlo_resident_layers = 3,
                                .pin_cpu_memory = false,
                                .dlo_chunk_size_mb = 16,
                                .dlo_pin_budget_gb = 0.5,
                                .dlo_pin_failure_policy = "whole_block_fallback",
                                .dlo_transport_backend = "group_scatter_ag"})
                          .config;

  CHECK(config.resident == resident_options{.layers = 3, .which = residency::leading});
  CHECK_FALSE(config.pin_memory);
  CHECK(config.chunk_bytes == std::size_t{16} << 20);
  CHECK(config.pin_budget_bytes == std::size_t{512} << 20);
  CHECK(config.on_pin_failure == pin_failure_policy::whole_block_fallback);
  CHECK(config.transport == chunk_transport::group_scatter_ag);
}

TEST_CASE("the compact pin_memory wins over pin_cpu_memory", "[offload][config]") {
  const auto [json, legacy, pins] = GENERATE(table<std::string, bool, bool>({
      {R"({"mode":"layer","components":["dit"]})", true, true},
      {R"({"mode":"layer","components":["dit"]})", false, false},
      {R"({"mode":"layer","components":["dit"],"pin_memory":true})", false, true},
      {R"({"mode":"layer","components":["dit"],"pin_memory":false})", true, false},
  }));

  CHECK(resolve_config(json, {.pin_cpu_memory = legacy}).value().config.pin_memory == pins);
}

TEST_CASE("the group is data parallel, or the HSDP mesh, or sequence parallel",
          "[offload][config]") {
  const auto grouped = GENERATE(values<mesh>({
      {{}, 1},
      {{.data_parallel_size = 2}, 2},
      {{.sequence_parallel_size = 4}, 4},
      {{.data_parallel_size = 2, .sequence_parallel_size = 2, .tensor_parallel_size = 2}, 2},
      {{.sequence_parallel_size = 4, .tensor_parallel_size = 2}, 4},
      {{.tensor_parallel_size = 8}, 1},
      {{.use_hsdp = true, .hsdp_shard_size = 2}, 2},
      {{.data_parallel_size = 3, .use_hsdp = true, .hsdp_shard_size = 2, .hsdp_replicate_size = 4},
       8},
      {{.data_parallel_size = 3, .use_hsdp = true}, 3},
      {{.data_parallel_size = 3, .hsdp_shard_size = 2}, 3},
      {{.sequence_parallel_size = 4, .use_hsdp = true, .hsdp_shard_size = 1}, 4},
  }));

  CHECK(group_size(grouped.parallel) == grouped.size);
}

TEST_CASE("the group size does not depend on the transfer", "[offload][config]") {
  const auto gathers = GENERATE(true, false);

  const auto config = resolved({.enable_distributed_layerwise_offload = true,
                                .dlo_use_allgather = gathers,
                                .parallel_config = {.data_parallel_size = 2}})
                          .config;

  CHECK(config.group_size == 2);
}

TEST_CASE("an option out of its range is refused by name", "[offload][config]") {
  constexpr auto nan = std::numeric_limits<double>::quiet_NaN();
  constexpr auto infinite = std::numeric_limits<double>::infinity();
  const auto refusing = GENERATE_REF(values<refusal>({
      {{},
       {.dlo_resident_layers = -1},
       "dlo_resident_layers is -1; expected a non-negative integer"},
      {{}, {.dlo_host_registration_limit_gib = nan}, "dlo_host_registration_limit_gib is nan"},
      {{}, {.dlo_host_registration_limit_gib = infinite}, "dlo_host_registration_limit_gib is inf"},
      {{}, {.dlo_host_registration_limit_gib = -0.5}, "dlo_host_registration_limit_gib is -0.5"},
      {{},
       {.host_weight_runtime_mode = host_weight_runtime::preferred},
       "host_weight_runtime_root is blank"},
      {{},
       {.host_weight_runtime_mode = host_weight_runtime::required,
        .host_weight_runtime_root = " \t"},
       "host_weight_runtime_root is blank with host_weight_runtime_mode required"},
      {{}, {.dlo_chunk_size_mb = 0}, "dlo_chunk_size_mb is 0; expected an integer > 0"},
      {{}, {.dlo_chunk_size_mb = -5}, "dlo_chunk_size_mb is -5"},
      {{},
       {.dlo_chunk_size_mb = std::numeric_limits<std::int64_t>::max()},
       "dlo_chunk_size_mb is 9"},
      {{}, {.dlo_pin_budget_gb = -1.0}, "dlo_pin_budget_gb is -1.0"},
      {{}, {.dlo_pin_budget_gb = nan}, "dlo_pin_budget_gb is nan"},
      {{}, {.dlo_pin_budget_gb = 1e300}, "dlo_pin_budget_gb is 1e+300"},
      {{},
       {.dlo_pin_failure_policy = "ignore"},
       "dlo_pin_failure_policy is \"ignore\"; expected fail or whole_block_fallback"},
      {{},
       {.dlo_transport_backend = "smoke"},
       "dlo_transport_backend is \"smoke\"; expected auto, reference or group_scatter_ag"},
      {{}, {.dlo_transport_backend = "group_persistent"}, "group_persistent needs an NPU"},
      {{}, {.parallel_config = {.data_parallel_size = 0}}, "data_parallel_size is 0"},
      {{}, {.parallel_config = {.sequence_parallel_size = -2}}, "sequence_parallel_size is -2"},
      {{}, {.parallel_config = {.tensor_parallel_size = 0}}, "tensor_parallel_size is 0"},
      {{}, {.parallel_config = {.hsdp_replicate_size = 0}}, "hsdp_replicate_size is 0"},
      {{}, {.parallel_config = {.hsdp_shard_size = 0}}, "hsdp_shard_size is 0"},
      {{},
       {.parallel_config = {.hsdp_shard_size = 1 << 20, .hsdp_replicate_size = 2}},
       "hsdp_shard_size is 1048576"},
  }));

  const auto reason = refused(refusing.json, refusing.options);

  CHECK(reason.code == errc::invalid_config);
  CHECK_THAT(reason.detail, Contains(refusing.message));
}

TEST_CASE("a combination that cannot hold is refused with the options concerned",
          "[offload][config]") {
  const legacy_options distributed{.enable_distributed_layerwise_offload = true};
  const auto with = [&distributed](auto change) {
    auto options = distributed;
    change(options);
    return options;
  };
  const auto refusing = GENERATE_REF(values<refusal>({
      {layer_dit,
       {.host_weight_runtime_mode = host_weight_runtime::preferred,
        .host_weight_runtime_root = "/weights"},
       "the two are separate for now"},
      {layer_dit, {.dlo_use_allgather = false}, "dlo_use_allgather given beside a compact"},
      {layer_dit, {.dlo_resident_layers = 2}, "dlo_resident_layers given beside a compact"},
      {layer_dit,
       {.dlo_use_allgather = false, .dlo_resident_layers = 2, .dlo_host_registration_limit_gib = 1},
       "dlo_use_allgather, dlo_resident_layers, dlo_host_registration_limit_gib given"},
      {layer_dit,
       {.enable_cpu_offload = true},
       "enable_cpu_offload asks for model_level and the compact configuration for layer_wise"},
      {gathered_dit, {.enable_layerwise_offload = true}, "enable_layerwise_offload asks for"},
      {layer_dit,
       {.enable_cpu_offload = true, .enable_layerwise_offload = true},
       "enable_cpu_offload asks for"},
      {{},
       with([](auto& o) { o.dlo_resident_layers = 1; }),
       "dlo_resident_layers is 1 with dlo_use_allgather true"},
      {{},
       with([](auto& o) {
         o.parallel_config.data_parallel_size = 2;
         o.cache_backend = "cache_dit";
       }),
       "cache_backend is \"cache_dit\" with allgather and data_parallel_size 2"},
      {gathered_encoder,
       {.cache_backend = "tea_cache", .parallel_config = {.data_parallel_size = 2}},
       "cache_backend is \"tea_cache\""},
      {gathered_encoder,
       {.enable_prompt_embed_cache = true, .parallel_config = {.data_parallel_size = 2}},
       "enable_prompt_embed_cache is true with text_encoder.weight_transfer allgather"},
      {{},
       with([](auto& o) {
         o.parallel_config.use_hsdp = true;
         o.parallel_config.hsdp_shard_size = 2;
       }),
       "the weights would be sharded twice"},
      {gathered_dit, {.parallel_config = {.use_hsdp = true}}, "the weights would be sharded twice"},
      {{},
       {.enable_layerwise_offload = true, .dlo_host_registration_limit_gib = 1},
       "expected 0 unless enable_distributed_layerwise_offload is set"},
      {{},
       with([](auto& o) { o.dlo_host_registration_limit_gib = 1; }),
       "expected 0 unless dlo_use_allgather is false"},
      {{},
       with([](auto& o) {
         o.dlo_host_registration_limit_gib = 1;
         o.dlo_use_allgather = false;
       }),
       "expected 0 unless host_weight_runtime_mode is preferred or required"},
      {{},
       with([](auto& o) { o.pin_cpu_memory = false; }),
       "pin_memory is false with allgather and dlo_pin_failure_policy fail"},
  }));

  const auto reason = refused(refusing.json, refusing.options);

  CHECK(reason.code == errc::invalid_config);
  CHECK_THAT(reason.detail, Contains(refusing.message));
}

TEST_CASE("what only looks like a forbidden combination is accepted", "[offload][config]") {
  const legacy_options distributed{.enable_distributed_layerwise_offload = true};
  const auto with = [&distributed](auto change) {
    auto options = distributed;
    change(options);
    return options;
  };
  const auto accepted = GENERATE_REF(values<refusal>({
      {layer_dit, {.enable_layerwise_offload = true}, "a flag that names the same strategy"},
      {gathered_dit, distributed, "the same for the distributed strategy"},
      {{}, with([](auto& o) { o.cache_backend = "cache_dit"; }), "one rank decides for itself"},
      {{},
       with([](auto& o) {
         o.parallel_config.data_parallel_size = 2;
         o.cache_backend = std::nullopt;
       }),
       "no cache"},
      {{},
       with([](auto& o) {
         o.parallel_config.data_parallel_size = 2;
         o.cache_backend = "cache_dit";
         o.dlo_use_allgather = false;
       }),
       "no collective to skip"},
      {{},
       with([](auto& o) {
         o.parallel_config.data_parallel_size = 2;
         o.enable_prompt_embed_cache = true;
       }),
       "legacy flags never gather the encoder"},
      {{},
       with([](auto& o) {
         o.parallel_config.use_hsdp = true;
         o.dlo_use_allgather = false;
       }),
       "HSDP with rank-local transfers"},
      {{},
       with([](auto& o) {
         o.pin_cpu_memory = false;
         o.dlo_pin_failure_policy = "whole_block_fallback";
       }),
       "the fallback needs no pinned memory"},
      {{},
       with([](auto& o) {
         o.dlo_host_registration_limit_gib = 1;
         o.dlo_use_allgather = false;
         o.host_weight_runtime_mode = host_weight_runtime::preferred;
         o.host_weight_runtime_root = "/weights";
       }),
       "every precondition of the registration limit"},
  }));

  INFO(accepted.message);
  CHECK(resolve_config(accepted.json, accepted.options).has_value());
}

TEST_CASE("older readers see the flags that the resolution means", "[offload][config]") {
  const legacy_options contradictory{.enable_cpu_offload = true,
                                     .enable_layerwise_offload = true,
                                     .enable_distributed_layerwise_offload = true};
  const auto config =
      resolve_config(R"({"mode":"layer","components":["dit"],"pin_memory":false})", {})
          .value()
          .config;

  const auto consistent = consistent_with(config, contradictory);

  CHECK_FALSE(consistent.enable_cpu_offload);
  CHECK(consistent.enable_layerwise_offload);
  CHECK_FALSE(consistent.enable_distributed_layerwise_offload);
  CHECK_FALSE(consistent.pin_cpu_memory);
}

TEST_CASE("resolving the consistent picture again gives the same configuration",
          "[offload][config]") {
  const auto json = GENERATE(as<std::string>{}, "null", layer_dit, gathered_dit,
                             R"({"mode":"module","components":["dit"],"pin_memory":false})");
  const auto first = resolve_config(json, {}).value().config;

  const auto second = resolve_config(json, consistent_with(first, {})).value().config;

  CHECK(second == first);
}

} // namespace
} // namespace ferry
