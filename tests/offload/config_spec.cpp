// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/config_compact.hpp>
#include <ferry/offload/config_legacy.hpp>

#include "support/catch.hpp"

#include <string>
#include <tuple>

namespace ferry {
namespace {

using Catch::Matchers::Contains;

compact_config parsed(std::string_view json) {
  return parse_compact_config(json).value().value();
}

failure refused(std::string_view json) {
  const auto outcome = parse_compact_config(json);
  return outcome ? failure{.code = errc::internal, .detail = "accepted"} : outcome.error();
}

/// Completes `{"mode": "layer", "components": ["dit", "text_encoder"]` with more members.
std::string layer_with(std::string_view members) {
  return R"({"mode":"layer","components":["dit","text_encoder"],)" + std::string{members} + "}";
}

offload_config resolved(std::string_view json) {
  return resolve_config(json, {}).value().config;
}

TEST_CASE("a null compact configuration is no compact configuration", "[offload][config]") {
  CHECK_FALSE(parse_compact_config("null").value().has_value());
}

TEST_CASE("what is not written down has its default", "[offload][config]") {
  const auto config = parsed(R"({"mode":"layer","components":["dit","text_encoder"]})");

  CHECK(config.transfer_of(component_name::dit) == weight_transfer::rank_local);
  CHECK(config.transfer_of(component_name::text_encoder) == weight_transfer::rank_local);
  CHECK(config.resident.layers == 0);
  CHECK_FALSE(config.pin_memory.has_value());
}

TEST_CASE("every option of the compact configuration is read", "[offload][config]") {
  const auto config = parsed(R"({
    "mode": "layer",
    "components": ["text_encoder", "dit"],
    "layer_options": {"dit": {"weight_transfer": "rank-local", "resident_layers": 3},
                      "text_encoder": {"weight_transfer": "allgather", "resident_layers": 0}},
    "pin_memory": false})");

  CHECK(config.mode == offload_mode::layer);
  CHECK(config.components == std::set{component_name::dit, component_name::text_encoder});
  CHECK(config.transfer_of(component_name::dit) == weight_transfer::rank_local);
  CHECK(config.transfer_of(component_name::text_encoder) == weight_transfer::allgather);
  CHECK(config.resident.layers == 3);
  CHECK(config.pin_memory == false);
}

TEST_CASE("residents are given by number, in bytes, or one by one", "[offload][config]") {
  const auto residents = [](const std::string& options) {
    return parsed(layer_with(R"("layer_options":{"dit":{)" + options + "}}")).resident;
  };

  CHECK(residents(R"("resident_layers":2,"residency":"strided")") ==
        resident_options{.layers = 2, .which = residency::strided});
  CHECK(residents(R"("resident_bytes":1000)") == resident_options{.bytes = 1000});
  CHECK(residents(R"("resident_bytes":"2.4GB")") == resident_options{.bytes = 2'400'000'000});
  CHECK(residents(R"("resident_blocks":[5,0,2])") == resident_options{.blocks = {0, 2, 5}});
}

TEST_CASE("slots are a number, or added by need", "[offload][config]") {
  CHECK(parsed(layer_with(R"("slots":3)")).slots == 3U);
  CHECK_FALSE(parsed(layer_with(R"("slots":3)")).more_slots);
  CHECK(parsed(layer_with(R"("slots":"auto")")).more_slots);
  CHECK_FALSE(parsed(layer_with(R"("slots":"auto")")).slots.has_value());
}

TEST_CASE("a pin_memory of null counts as not given", "[offload][config]") {
  CHECK_FALSE(parsed(layer_with(R"("pin_memory":null)")).pin_memory.has_value());
}

TEST_CASE("the mode module selects the vae as well", "[offload][config]") {
  CHECK(parsed(R"({"mode":"module","components":["vae"]})").components ==
        std::set{component_name::vae});
}

TEST_CASE("a value of the wrong type is named with its type error", "[offload][config]") {
  const auto [json, message] = GENERATE(table<std::string, std::string>({
      {R"([])", "the offload configuration is []; expected an object"},
      {R"("dit")", R"(the offload configuration is "dit"; expected an object)"},
      {R"(7)", "the offload configuration is 7; expected an object"},
      {R"({"mode":3,"components":["dit"]})", "mode is 3; expected the string"},
      {R"({"mode":null,"components":["dit"]})", "mode is null; expected the string"},
      {R"({"mode":"layer","components":"dit"})", R"(components is "dit"; expected a list)"},
      {R"({"mode":"layer","components":{"dit":{}}})",
       "components is {\"dit\":{}}; expected a list"},
      {R"({"mode":"layer","components":null})", "components is null; expected a list"},
      {R"({"mode":"layer","components":4})", "components is 4; expected a list"},
      {R"({"mode":"layer","components":["dit",3]})",
       "an entry of components is 3; expected a string"},
      {layer_with(R"("layer_options":[])"), "layer_options is []; expected an object"},
      {layer_with(R"("layer_options":null)"), "layer_options is null; expected an object"},
      {layer_with(R"("layer_options":{"dit":3})"), "layer_options.dit is 3; expected an object"},
      {layer_with(R"("layer_options":{"dit":{"weight_transfer":1}})"),
       "dit.weight_transfer is 1; expected the string"},
      {layer_with(R"("layer_options":{"dit":{"weight_transfer":null}})"),
       "dit.weight_transfer is null; expected the string"},
      {layer_with(R"("layer_options":{"dit":{"resident_layers":true}})"),
       "dit.resident_layers is true; expected an integer >= 0"},
      {layer_with(R"("layer_options":{"dit":{"resident_layers":1.0}})"),
       "dit.resident_layers is 1.0; expected an integer >= 0"},
      {layer_with(R"("slots":2.0)"), "slots is 2.0; expected an integer from 1 to 64, or auto"},
      {layer_with(R"("layer_options":{"dit":{"resident_bytes":1.5}})"),
       "dit.resident_bytes is 1.5; expected an integer >= 0, or a size such as 2.4GB"},
      {layer_with(R"("layer_options":{"dit":{"resident_blocks":3}})"),
       "dit.resident_blocks is 3; expected a list of block numbers, integers >= 0"},
      {layer_with(R"("layer_options":{"dit":{"resident_blocks":[1,"2"]}})"),
       "dit.resident_blocks is [1,\"2\"]; expected a list of block numbers"},
      {layer_with(R"("layer_options":{"dit":{"residency":1}})"),
       "dit.residency is 1; expected spread, leading or strided"},
      {layer_with(R"("layer_options":{"dit":{"resident_layers":"2"}})"),
       "dit.resident_layers is \"2\"; expected an integer >= 0"},
      {layer_with(R"("pin_memory":1)"), "pin_memory is 1; expected true or false"},
      {layer_with(R"("pin_memory":"true")"), "pin_memory is \"true\"; expected true or false"},
  }));

  const auto reason = refused(json);

  CHECK(reason.code == errc::invalid_type);
  CHECK_THAT(reason.detail, Contains(message));
}

TEST_CASE("a value that the grammar does not know is named with the choices", "[offload][config]") {
  const auto [json, message] = GENERATE(table<std::string, std::string>({
      {R"({"mode":"layer","components":["dit"],"extra":1,"more":2})",
       R"(contains "extra", "more"; expected only mode, components, layer_options, slots and pin_memory)"},
      {R"({})", "lacks mode"},
      {R"({"components":["dit"]})", "lacks mode"},
      {R"({"mode":"layer"})", "lacks components"},
      {R"({"mode":"block","components":["dit"]})", "mode is \"block\"; expected module or layer"},
      {R"({"mode":"layer","components":[]})", "components is []; expected at least one"},
      {R"({"mode":"layer","components":["DiT"]})", R"(is "DiT"; expected dit or text_encoder)"},
      {R"({"mode":"layer","components":["dit "]})", R"(is "dit "; expected dit or text_encoder)"},
      {R"({"mode":"layer","components":["text-encoder"]})", R"(is "text-encoder"; expected dit)"},
      {R"({"mode":"layer","components":["image_encoder"]})", R"(is "image_encoder"; expected dit)"},
      {R"({"mode":"layer","components":["scheduler"]})", R"(is "scheduler"; expected dit)"},
      {R"({"mode":"layer","components":["vae"]})", "vae, which mode layer does not stream"},
      {R"({"mode":"layer","components":["dit"],"layer_options":{"text_encoder":{}}})",
       R"(layer_options names "text_encoder"; expected a component that components selects)"},
      {R"({"mode":"layer","components":["dit"],"layer_options":{"decoder":{}}})",
       R"(layer_options names "decoder")"},
      {layer_with(R"("layer_options":{"dit":{"depth":2}})"),
       R"(layer_options.dit contains "depth"; expected weight_transfer, resident_layers, resident_bytes, resident_blocks or residency)"},
      {layer_with(R"("layer_options":{"dit":{"weight_transfer":"rank_local"}})"),
       R"(dit.weight_transfer is "rank_local"; expected allgather or rank-local)"},
      {layer_with(R"("layer_options":{"dit":{"resident_layers":-1}})"),
       "dit.resident_layers is -1; expected an integer >= 0"},
      {layer_with(R"("slots":0)"), "slots is 0; expected an integer from 1 to 64, or auto"},
      {layer_with(R"("slots":65)"), "slots is 65; expected an integer from 1 to 64, or auto"},
      {layer_with(R"("slots":"many")"), "slots is \"many\"; expected an integer from 1"},
      {R"({"mode":"module","components":["dit"],"slots":2})",
       "slots is 2 with mode module; expected no slots"},
      {layer_with(R"("layer_options":{"dit":{"resident_bytes":-1}})"),
       "dit.resident_bytes is -1; expected an integer >= 0, or a size such as 2.4GB"},
      {layer_with(R"("layer_options":{"dit":{"resident_bytes":"2 GB"}})"),
       "dit.resident_bytes is \"2 GB\"; expected an integer >= 0, or a size such as 2.4GB"},
      {layer_with(R"("layer_options":{"dit":{"resident_blocks":[-1]}})"),
       "dit.resident_blocks is [-1]; expected a list of block numbers, integers >= 0"},
      {layer_with(R"("layer_options":{"dit":{"resident_blocks":[4,2,4]}})"),
       "dit.resident_blocks is [4,2,4]; expected each block once"},
      {layer_with(R"("layer_options":{"dit":{"residency":"first"}})"),
       "dit.residency is \"first\"; expected spread, leading or strided"},
      {layer_with(R"("layer_options":{"text_encoder":{"resident_blocks":[1]}})"),
       "text_encoder.resident_blocks is [1]; expected none; only dit keeps blocks"},
      {layer_with(R"("layer_options":{"dit":{"resident_layers":1,"resident_bytes":"2MB"}})"),
       "dit.resident_layers is 1 and dit.resident_bytes is \"2MB\"; expected one of them"},
      {layer_with(R"("layer_options":{"dit":{"resident_blocks":[1],"residency":"leading"}})"),
       "dit.resident_blocks is [1] and dit.residency is \"leading\"; expected residency with"},
      {layer_with(R"("layer_options":{"dit":{"resident_bytes":1,"weight_transfer":"allgather"}})"),
       "dit.resident_bytes is 1 and dit.weight_transfer is allgather; expected 0 resident layers"},
      {layer_with(R"("layer_options":{"text_encoder":{"resident_layers":1}})"),
       "text_encoder.resident_layers is 1; expected 0"},
      {R"({"mode":"module","components":["dit"],"layer_options":{"dit":{"resident_layers":0}}})",
       "layer_options gives dit.resident_layers with mode module"},
      {R"({"mode":"module","components":["dit","text_encoder"],"layer_options":
           {"dit":{"weight_transfer":"allgather"},"text_encoder":{"weight_transfer":"rank-local"}}})",
       "layer_options gives dit.weight_transfer, text_encoder.weight_transfer with mode module"},
      {layer_with(R"("layer_options":{"dit":{"resident_layers":1,"weight_transfer":"allgather"}})"),
       "dit.resident_layers is 1 and dit.weight_transfer is allgather"},
  }));

  const auto reason = refused(json);

  CHECK(reason.code == errc::invalid_config);
  CHECK_THAT(reason.detail, Contains(message));
}

TEST_CASE("of several faults the first in the documented order is reported", "[offload][config]") {
  const auto [json, message] = GENERATE(table<std::string, std::string>({
      {R"({"extra":1})", "contains \"extra\""},
      {R"({"mode":3})", "lacks components"},
      {R"({"mode":3,"components":"dit"})", "mode is 3"},
      {R"({"mode":"layer","components":["nobody",3]})", "is 3; expected a string"},
      {R"({"mode":"layer","components":["vae","nobody"]})", "is \"nobody\""},
      {R"({"mode":"layer","components":["vae"],"layer_options":3})", "vae, which mode layer"},
      {layer_with(R"("layer_options":{"a":1,"dit":{"depth":1}})"), "layer_options names \"a\""},
      {layer_with(R"("layer_options":{"dit":{"depth":1},"text_encoder":3})"),
       "layer_options.text_encoder is 3"},
      {layer_with(R"("layer_options":{"dit":{"weight_transfer":1},"text_encoder":{"depth":1}})"),
       "contains \"depth\""},
      {layer_with(R"("layer_options":{"dit":{"resident_layers":-1,"weight_transfer":1}})"),
       "dit.weight_transfer is 1"},
      {layer_with(R"("pin_memory":3,"layer_options":{"text_encoder":{"resident_layers":2}})"),
       "text_encoder.resident_layers is 2"},
      {R"({"mode":"module","components":["dit"],"pin_memory":3,"layer_options":{"dit":{}}})",
       "pin_memory is 3"},
  }));

  CHECK_THAT(refused(json).detail, Contains(message));
}

TEST_CASE("text that is no JSON is refused with its place", "[offload][config]") {
  const auto json = GENERATE(as<std::string>{}, "", "{", R"({"mode":"layer",)", "{'mode':1}",
                             R"({"mode":"layer"} trailing)", "nul", "// comment\n{}", "\xff",
                             R"({"mode":"layer","components":[1e999]})");

  const auto reason = refused(json);

  CHECK(reason.code == errc::invalid_config);
  CHECK_THAT(reason.detail, Contains("byte") || Contains("too large"));
}

TEST_CASE("a key that is written twice is refused at every level", "[offload][config]") {
  const auto [json, key] = GENERATE(table<std::string, std::string>({
      {R"({"mode":"layer","mode":"module","components":["dit"]})", "mode"},
      {layer_with(R"("layer_options":{"dit":{},"dit":{}})"), "dit"},
      {layer_with(R"("layer_options":{"dit":{"resident_layers":1,"resident_layers":2}})"),
       "resident_layers"},
      {R"({"mode":"layer","m\u006fde":"layer","components":["dit"]})", "mode"},
  }));

  const auto reason = refused(json);

  CHECK(reason.code == errc::invalid_config);
  CHECK_THAT(reason.detail, Contains("the key \"" + key + "\" twice"));
}

TEST_CASE("nesting of any depth is refused and not followed", "[offload][config]") {
  const auto open = GENERATE(as<std::string>{}, "[", R"({"a":)");
  const auto levels = GENERATE(9, 1'000'000);
  std::string json;
  for (auto i = 0; i != levels; ++i) {
    json += open;
  }

  const auto reason = refused(json);

  CHECK(reason.code == errc::invalid_config);
  CHECK_THAT(reason.detail, Contains("nested deeper than 8 levels"));
}

TEST_CASE("a message stays one short line whatever the value is", "[offload][config]") {
  const auto reason =
      refused(R"({"mode":"a\nb\u001b)" + std::string(10'000, 'x') + R"(","components":["dit"]})");

  CHECK(reason.detail.size() < 200);
  CHECK(reason.detail.find('\n') == std::string::npos);
  CHECK(reason.detail.find('\x1b') == std::string::npos);
}

TEST_CASE("mode, transfers and resident layers decide the strategy", "[offload][config]") {
  const auto [json, strategy] = GENERATE(table<std::string, offload_strategy>({
      {R"({"mode":"module","components":["dit"]})", offload_strategy::model_level},
      {R"({"mode":"layer","components":["dit"]})", offload_strategy::layer_wise},
      {layer_with(R"("layer_options":{"dit":{"weight_transfer":"rank-local"}})"),
       offload_strategy::layer_wise},
      {layer_with(R"("layer_options":{"dit":{"weight_transfer":"allgather"}})"),
       offload_strategy::distributed_layer_wise},
      {layer_with(R"("layer_options":{"text_encoder":{"weight_transfer":"allgather"}})"),
       offload_strategy::distributed_layer_wise},
      {layer_with(R"("layer_options":{"dit":{"resident_layers":1}})"),
       offload_strategy::distributed_layer_wise},
      {layer_with(R"("layer_options":{"dit":{"resident_layers":0}})"),
       offload_strategy::layer_wise},
      {layer_with(R"("layer_options":{"dit":{"resident_bytes":1}})"),
       offload_strategy::distributed_layer_wise},
      {layer_with(R"("layer_options":{"dit":{"resident_blocks":[3]}})"),
       offload_strategy::distributed_layer_wise},
      {layer_with(R"("layer_options":{"dit":{"resident_bytes":0,"residency":"leading"}})"),
       offload_strategy::layer_wise},
  }));

  CHECK(resolved(json).strategy == strategy);
}

TEST_CASE("layer mode selects components without backend jargon", "[offload][config]") {
  const auto config = resolved(R"({"mode":"layer","components":["dit","text_encoder"]})");

  CHECK(config.strategy == offload_strategy::layer_wise);
  CHECK(config.offloads(component_name::dit));
  CHECK(config.offloads(component_name::text_encoder));
  CHECK_FALSE(config.offloads(component_name::vae));
  CHECK_FALSE(config.any_allgather());
}

TEST_CASE("each component can choose its transfer", "[offload][config]") {
  const auto config =
      resolved(layer_with(R"("layer_options":{"text_encoder":{"weight_transfer":"allgather"}})"));

  CHECK_FALSE(config.uses_allgather(component_name::dit));
  CHECK(config.uses_allgather(component_name::text_encoder));
  CHECK(config.any_allgather());
}

TEST_CASE("the transfer of a component that is not selected cannot be asked for",
          "[offload][config]") {
  const auto config = resolved(R"({"mode":"layer","components":["text_encoder"]})");

  CHECK(config.transfer_for(component_name::text_encoder).value() == weight_transfer::rank_local);
  CHECK(config.transfer_for(component_name::dit).error().code == errc::invalid_argument);
  CHECK_THAT(config.transfer_for(component_name::dit).error().detail,
             Contains("dit is not selected"));
}

TEST_CASE("an explicit selection of the denoisers differs from the legacy one",
          "[offload][config]") {
  const auto explicitly = resolved(R"({"mode":"layer","components":["dit"]})");
  const auto legacy =
      resolve_config(std::nullopt, {.enable_layerwise_offload = true}).value().config;

  CHECK(explicitly.is_explicit());
  CHECK_FALSE(legacy.is_explicit());
  CHECK(legacy.offloads(component_name::dit));
  CHECK_FALSE(legacy.offloads(component_name::text_encoder));
}

TEST_CASE("a resolved configuration survives the trip through JSON", "[offload][config]") {
  const auto config = GENERATE(
      resolved(R"({"mode":"module","components":["dit","vae"],"pin_memory":false})"),
      resolved(layer_with(R"("layer_options":{"dit":{"resident_layers":7}})")),
      resolved(layer_with(R"("layer_options":{"dit":{"resident_bytes":7,"residency":"strided"}})")),
      resolved(layer_with(R"("layer_options":{"dit":{"resident_blocks":[7,2]}})")),
      resolved(layer_with(R"("slots":4)")), resolved(layer_with(R"("slots":"auto")")),
      resolve_config(std::nullopt, {}).value().config,
      resolve_config(std::nullopt, {.enable_distributed_layerwise_offload = true,
                                    .parallel_config = {.data_parallel_size = 4},
                                    .dlo_chunk_size_mb = 8,
                                    .dlo_pin_budget_gb = 1.5,
                                    .dlo_pin_failure_policy = "whole_block_fallback",
                                    .dlo_transport_backend = "reference"})
          .value()
          .config);

  CHECK(offload_config_from_json(to_json(config)).value() == config);
}

TEST_CASE("a resolved configuration that is damaged is refused by the member at fault",
          "[offload][config]") {
  const auto [from, to, code,
              message] = GENERATE(table<std::string, std::string, errc, std::string>({
      {R"("vae":"rank-local")", R"("dit2":"rank-local")", errc::invalid_config,
       "a key of transfers is \"dit2\""},
      {R"(,"vae":"rank-local")", "", errc::invalid_config,
       "transfers lacks vae; transfers must contain every component"},
      {R"("vae":"rank-local")", R"("vae":"rank_local")", errc::invalid_config, "transfers.vae is"},
      {R"("vae":"rank-local")", R"("vae":1)", errc::invalid_type, "transfers.vae is 1"},
      {R"("group_size":1)", R"("group_size":0)", errc::invalid_config, "group_size is 0"},
      {R"("group_size":1)", R"("group_size":1.5)", errc::invalid_type, "group_size is 1.5"},
      {R"("group_size":1)", R"("group_sizes":1)", errc::invalid_config,
       "unknown member \"group_sizes\""},
      {R"("group_size":1,)", "", errc::invalid_config, "lacks group_size"},
      {R"("pin_memory":true)", R"("pin_memory":null)", errc::invalid_type, "pin_memory is null"},
      {R"("chunk_bytes":67108864)", R"("chunk_bytes":-1)", errc::invalid_config,
       "chunk_bytes is -1"},
      {R"("registration_limit_gib":0.0)", R"("registration_limit_gib":-0.5)", errc::invalid_config,
       "registration_limit_gib is -0.5"},
      {R"("registration_limit_gib":0.0)", R"("registration_limit_gib":"1")", errc::invalid_type,
       "registration_limit_gib is \"1\""},
      {R"("components":["dit"])", R"("components":"dit")", errc::invalid_type,
       "components is \"dit\""},
      {R"("resident_blocks":[])", R"("resident_blocks":[3,3])", errc::invalid_config,
       "an entry of resident_blocks is 3; expected an integer from 4"},
      {R"("residency":"spread")", R"("residency":"any")", errc::invalid_config,
       "residency is \"any\""},
      {R"("strategy":"layer_wise")", R"("strategy":"sequential")", errc::invalid_config,
       "strategy is \"sequential\""},
  }));
  auto json = to_json(resolved(R"({"mode":"layer","components":["dit"]})"));
  json.replace(json.find(from), from.size(), to);

  const auto outcome = offload_config_from_json(json);

  REQUIRE_FALSE(outcome.has_value());
  CHECK(outcome.error().code == code);
  CHECK_THAT(outcome.error().detail, Contains(message));
}

} // namespace
} // namespace ferry
