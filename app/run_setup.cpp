// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "run_setup.hpp"

#include <ferry/offload/pipeline_directory.hpp>
#include <ferry/offload/sha256.hpp>
#include <ferry/platform/quantity.hpp>
#include <ferry/platform/rendezvous.hpp>
#include <ferry/torch/torch_cuda.hpp>

#include "caught.hpp"
#include "choose_config.hpp"
#include "config_option.hpp"
#include "launched_ranks.hpp"
#include "models/compute_threads.hpp"
#include "models/load_model.hpp"
#include "open_ranks.hpp"
#include "request_terms.hpp"
#include "request_text.hpp"
#include "result_paths.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace ferry {

namespace {

tl::unexpected<failure> refuse(std::string detail) {
  return tl::unexpected(failure{.code = errc::invalid_argument, .detail = std::move(detail)});
}

/// Refuses options that contradict what a launcher says, or whether there is one.
result<void> check_launcher(const run_options& options) {
  const auto launched = this_launched_rank();
  if (!launched)
    return tl::unexpected(launched.error());
  const auto size = *launched ? (*launched)->size : 1;
  const auto started =
      " and the launcher started " + std::to_string(size) + (size == 1 ? " process" : " processes");
  if (*launched && options.ranks && *options.ranks != size)
    return refuse("--ranks is " + std::to_string(*options.ranks) + started +
                  ", each of which is a rank; leave --ranks out");
  if (options.join_patience && size == 1)
    return refuse("--join-patience is " + std::to_string(*options.join_patience) + " and no " +
                  "launcher started other processes to wait for; leave it out");
  if (size > 1 && options.device.starts_with("cuda:"))
    return refuse("--device is " + options.device + started +
                  "; expected cuda, which is the GPU of each one's local rank");
  if (*launched)
    if (auto beyond = beyond_world(**launched))
      return tl::unexpected(std::move(*beyond));
  return {};
}

/// Refuses `--sim` where nothing would follow the model.
result<void> check_sim(const run_options& options, const offload_config& config) {
  if (!options.sim_model)
    return {};
  if (options.device != "sim")
    return refuse("--sim is '" + *options.sim_model +
                  "' and the device is another; expected --device sim");
  if (config.strategy == offload_strategy::none && options.config != automatic_config)
    return refuse("--sim is '" + *options.sim_model +
                  "' and nothing is offloaded, so that nothing runs on the model; add --config, "
                  "or leave --sim out");
  return {};
}

bool describes_request(const run_options& options) {
  return options.prompt_ids || options.second_prompt_ids || options.negative_prompt_ids ||
         options.seed || options.steps || options.guidance || options.size || options.frames;
}

/// Refuses two sources of requests.
result<void> check_sources(const run_options& options) {
  if (options.requests && options.reference)
    return refuse("--requests and --reference both bring requests along; leave one of them out");
  if ((options.requests || options.reference) && describes_request(options))
    return refuse(std::string(options.requests ? "--requests" : "--reference") +
                  " brings the request along; leave --prompt-ids, --second-prompt-ids, "
                  "--negative-prompt-ids, --seed, --steps, --guidance, --size and --frames out");
  return {};
}

result<request> read_request(const run_options& options, const diffusion_model& model) {
  auto asked = model.defaults();
  const auto take_ids = [](const char* name, const std::optional<std::string>& text,
                           std::vector<std::int64_t>& ids) -> result<void> {
    if (!text)
      return {};
    auto read = read_ids(name, *text);
    if (!read)
      return tl::unexpected(read.error());
    ids = std::move(*read);
    return {};
  };
  if (auto taken = take_ids("--prompt-ids", options.prompt_ids, asked.positive.ids); !taken)
    return tl::unexpected(taken.error());
  if (auto taken = take_ids("--second-prompt-ids", options.second_prompt_ids, asked.second.ids);
      !taken)
    return tl::unexpected(taken.error());
  if (auto taken =
          take_ids("--negative-prompt-ids", options.negative_prompt_ids, asked.negative.ids);
      !taken)
    return tl::unexpected(taken.error());
  asked.seed = options.seed.value_or(asked.seed);
  asked.steps = options.steps.value_or(asked.steps);
  asked.guidance = options.guidance.value_or(asked.guidance);
  asked.frames = options.frames.value_or(asked.frames);
  if (options.size) {
    const auto size = read_size("--size", *options.size);
    if (!size)
      return tl::unexpected(size.error());
    asked.width = size->width;
    asked.height = size->height;
  }
  return asked;
}

result<std::vector<asked_request>> read_asked(const run_options& options,
                                              const diffusion_model& model,
                                              const std::optional<reference_run>& reference) {
  if (options.requests)
    return read_requests(*options.requests, model);
  auto asked = reference ? model.inputs_of(*reference) : read_request(options, model);
  if (!asked)
    return tl::unexpected(asked.error());
  if (auto valid = model.check(*asked); !valid)
    return tl::unexpected(valid.error());
  return std::vector{asked_request{.what = std::move(*asked)}};
}

result<std::optional<std::uint64_t>> read_device_memory(const run_options& options) {
  if (!options.device_memory)
    return std::nullopt;
  auto bytes = parse_bytes(*options.device_memory);
  if (!bytes)
    return refuse("--device-memory: " + bytes.error().detail);
  return *bytes;
}

/// Loads the checkpoint once more: ranks have tensors of their own over the same mapped file.
result<void> load_for(rank_setup& rank, const run_options& options, std::optional<dtype> computes) {
  auto model = load_model(options.checkpoint, computes);
  if (!model)
    return tl::unexpected(model.error());
  rank.model = std::move(*model);
  if (!options.reference)
    return {};
  auto reference = reference_run::open(*options.reference);
  if (!reference)
    return tl::unexpected(reference.error());
  rank.reference = std::move(*reference);
  return {};
}

/// Lets the model of a rank compute on the rank's device, and the runtime know on which stream.
result<void> compute_there(rank_setup& rank) {
  auto callers = streams_of_callers(rank.target);
  if (!callers)
    return tl::unexpected(callers.error());
  rank.callers = std::move(*callers);
  rank.model->compute_on(torch_device_of(*rank.target));
  return {};
}

/// Refuses `--config auto` where something beside it would choose as well.
result<void> check_automatic(const run_options& options) {
  const auto launched = rank_of_several();
  if (!launched)
    return tl::unexpected(launched.error());
  if (*launched) {
    const auto size = std::to_string((*launched)->size);
    return refuse("--config is auto and the launcher started " + size +
                  " processes, each of which might choose something else; run ferry plan --ranks " +
                  size + " once and give all of them the --config that it prints");
  }
  return check_beside_automatic(options.legacy);
}

/// Refuses that ranks gather what is converted.
result<void> check_gathered(const compute_dtype& computes, int ranks,
                            const offload_config& config) {
  if (ranks == 1 || !config.any_allgather() ||
      computes.type.value_or(computes.stored) == computes.stored)
    return {};
  return tl::unexpected(
      failure{.code = errc::unsupported,
              .detail = "--compute-dtype is " + to_string(computes) +
                        ", and ranks gather weights as they are stored, here in " +
                        to_string({.type = {}, .stored = computes.stored, .reason = {}}) +
                        "; leave it out, or take the weight_transfer rank-local"});
}

/// What a rank can refuse without the others.
result<run_setup> check(const run_options& options) {
  if (auto fits = check_launcher(options); !fits)
    return tl::unexpected(fits.error());
  if (auto known = check_compute_dtype(options.compute_dtype); !known)
    return tl::unexpected(known.error());
  const bool plans = options.config == automatic_config;
  if (plans)
    if (auto alone = check_automatic(options); !alone)
      return tl::unexpected(alone.error());
  auto config = plans ? result<offload_config>{} : read_config(options.config, options.legacy);
  if (!config)
    return tl::unexpected(config.error());
  auto memory = read_device_memory(options);
  if (!memory)
    return tl::unexpected(memory.error());
  if (auto fits = check_sim(options, *config); !fits)
    return tl::unexpected(fits.error());
  if (auto clear = check_sources(options); !clear)
    return tl::unexpected(clear.error());

  std::optional<reference_run> reference;
  if (options.reference) {
    auto opened = reference_run::open(*options.reference);
    if (!opened)
      return tl::unexpected(opened.error());
    reference = std::move(*opened);
  }
  auto model = load_model(options.checkpoint);
  if (!model)
    return tl::unexpected(model.error());
  auto asked = read_asked(options, **model, reference);
  if (!asked)
    return tl::unexpected(asked.error());

  if (auto clear = check_result_paths(options); !clear)
    return tl::unexpected(clear.error());

  auto ranks = open_ranks(options, *memory);
  if (!ranks)
    return tl::unexpected(ranks.error());
  auto chosen_dtype =
      choose_compute_dtype(options.compute_dtype, ranks->here.front().target->traits(),
                           stored_dtype(torch_pipeline((*model)->description())));
  if (!chosen_dtype)
    return tl::unexpected(chosen_dtype.error());
  auto& computes = *chosen_dtype;
  if (options.compute_dtype == "auto" && ranks->size > 1 && config->any_allgather())
    computes = {
        .type = {}, .stored = computes.stored, .reason = "ranks gather weights as they are stored"};
  if (computes.type) {
    model = load_model(options.checkpoint, computes.type);
    if (!model)
      return tl::unexpected(model.error());
  }
  std::optional<planned_configuration> chosen;
  auto passes_per_fetch = options.passes_per_fetch;
  if (plans) {
    auto best = choose_config(options, **model, *asked, *memory, computes,
                              *ranks->here.front().target, ranks->here.size());
    if (!best)
      return tl::unexpected(best.error());
    config = best->config;
    if (passes_per_fetch || best->passes_per_fetch != best->passes_of_step)
      passes_per_fetch = best->passes_per_fetch;
    chosen = std::move(*best);
  }
  if (auto gathered = check_gathered(computes, ranks->size, *config); !gathered)
    return tl::unexpected(gathered.error());
  run_setup made{.config = std::move(*config),
                 .chosen = std::move(chosen),
                 .asked = std::move(*asked),
                 .device_memory = *memory,
                 .passes_per_fetch = passes_per_fetch,
                 .computes = std::move(computes),
                 .ranks = ranks->size,
                 .here = {}};
  for (auto& each : ranks->here)
    made.here.push_back({.number = each.number,
                         .target = std::move(each.target),
                         .group = std::move(each.group),
                         .model = nullptr,
                         .reference = std::nullopt,
                         .callers = nullptr});
  made.here.front().model = std::move(*model);
  made.here.front().reference = std::move(reference);
  for (std::size_t i = 1; i < made.here.size(); ++i)
    if (auto loaded = load_for(made.here[i], options, made.computes.type); !loaded)
      return tl::unexpected(loaded.error());
  for (auto& each : made.here)
    if (auto there = compute_there(each); !there)
      return tl::unexpected(there.error());
  return made;
}

/// Returns what a rank says of each of its requests: of many only a digest, as a meeting carries
/// little.
nlohmann::json in_brief(nlohmann::json list) {
  constexpr std::size_t most_listed = 1000;
  if (list.size() == 1)
    return list[0];
  if (list.size() > most_listed)
    return "sha256 " + sha256(as_contribution(list.dump()));
  return list;
}

/// Returns what the checkpoints of ranks that share weights must have in common before the weights
/// are compared: what else differs would follow from that.
std::string shared_by_checkpoints(const run_options& options, const run_setup& setup) {
  if (setup.config.strategy == offload_strategy::none)
    return "{}";
  const auto directory = read_pipeline_directory(options.checkpoint);
  return nlohmann::json{{"pipeline", directory ? directory->class_name : ""}}.dump();
}

/// Returns what the requests of ranks that share weights must have in common: all run the same
/// blocks in the same order.
std::string shared_by_requests(const run_options& options, const run_setup& setup) {
  if (setup.config.strategy == offload_strategy::none)
    return "{}";
  const auto& model = *setup.here.front().model;
  nlohmann::json steps;
  nlohmann::json passes;
  for (const auto& each : setup.asked) {
    const auto terms = terms_of(model, each.what);
    steps.push_back(*terms.steps);
    passes.push_back(terms.passes);
  }
  return nlohmann::json{{"count", setup.asked.size()},
                        {"warms_up", options.requests.has_value()},
                        {"compute_dtype", to_string(setup.computes)},
                        {"steps", in_brief(std::move(steps))},
                        {"passes_per_step", in_brief(std::move(passes))},
                        {"passes_per_fetch", setup.passes_per_fetch
                                                 ? nlohmann::json(*setup.passes_per_fetch)
                                                 : nlohmann::json("of one request")}}
      .dump();
}

/// The other ranks, which may be processes, refuse what one refuses.
result<run_setup> check_or_tell(const run_options& options, launched_ranks& others) {
  try {
    auto made = check(options);
    if (!made)
      return tl::unexpected(others.refuse(std::move(made.error())));
    return made;
  } catch (const std::exception&) {
    static_cast<void>(others.refuse(caught()));
    throw;
  }
}

} // namespace

std::string run_setup::own_file(const std::string& name) const {
  const auto number = here.front().number;
  if (here.size() > 1 || number == 0 || name == "-")
    return name;
  auto path = std::filesystem::path(name);
  const auto ending = path.extension().string();
  return path.replace_extension(".rank" + std::to_string(number) + ending).string();
}

result<run_setup> set_up(const run_options& options, launched_ranks& others) {
  limit_compute_threads();
  auto made = check_or_tell(options, others);
  if (!made)
    return made;
  auto& first = made->here.front();
  auto joined = others.join(*first.target, made->config, shared_by_checkpoints(options, *made),
                            shared_by_requests(options, *made));
  if (!joined)
    return tl::unexpected(joined.error());
  if (*joined)
    first.group = std::move(*joined);
  return made;
}

} // namespace ferry
