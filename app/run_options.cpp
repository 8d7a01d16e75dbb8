// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "run_options.hpp"

#include "models/request.hpp"
#include "open_ranks.hpp"
#include "option_checks.hpp"

#include <CLI/CLI.hpp>

namespace ferry {

namespace {

constexpr std::int64_t longest_join_patience = 86400;

void add_configuration(CLI::App& command, run_options& options) {
  auto* group = command.add_option_group("Configuration");
  group
      ->add_option("--config", options.config,
                   "What to offload and how: JSON, @FILE (@-: standard input), or auto, which "
                   "takes the best that ferry plan finds. Without it nothing is offloaded")
      ->type_name("JSON");
  auto& legacy = options.legacy;
  group->add_flag("--enable-cpu-offload", legacy.enable_cpu_offload, "Legacy: whole components");
  group->add_flag("--enable-layerwise-offload", legacy.enable_layerwise_offload,
                  "Legacy: the denoisers block by block");
  group->add_flag("--enable-distributed-layerwise-offload",
                  legacy.enable_distributed_layerwise_offload,
                  "Legacy: the denoisers block by block, shared by ranks");
  group->add_flag_callback(
      "--dlo-no-use-allgather", [&legacy] { legacy.dlo_use_allgather = false; },
      "Legacy: every rank streams whole blocks");
  group
      ->add_option("--dlo-resident-layers", legacy.dlo_resident_layers,
                   "Legacy: so many leading blocks stay on the device (0)")
      ->type_name("N")
      ->check(check_integer);
  group
      ->add_option("--dlo-chunk-size-mb", legacy.dlo_chunk_size_mb,
                   "Legacy: chunk of a gathered or staged block in MiB (64)")
      ->type_name("N")
      ->check(check_integer);
  group
      ->add_option("--dlo-pin-budget-gb", legacy.dlo_pin_budget_gb,
                   "Legacy: most pinned host memory in GiB (no limit)")
      ->type_name("X");
  group
      ->add_option("--dlo-pin-failure-policy", legacy.dlo_pin_failure_policy,
                   "Legacy: fail, or whole_block_fallback, where that is too little (fail)")
      ->type_name("P");
  group->add_flag_callback(
      "--no-pin-memory", [&legacy] { legacy.pin_cpu_memory = false; }, "Do not pin host weights");
}

void add_device(CLI::App& command, run_options& options) {
  auto* group = command.add_option_group("Device");
  group
      ->add_option("--device", options.device,
                   "sim, host or cuda[:N] (cuda where a GPU can be opened, else host)")
      ->type_name("NAME")
      ->check(check_device_name);
  group
      ->add_option(
          "--device-memory", options.device_memory,
          "Most device memory that weights may take, such as 64MiB or 20GB (what the device has)")
      ->type_name("SIZE");
  group
      ->add_option("--sim", options.sim_model,
                   "Model of the simulated device, such as link=25GB/s,compute=2ms,jitter=0")
      ->type_name("MODEL");
  group
      ->add_option("--ranks", options.ranks,
                   "Ranks that share the weights, 1 to 64, as threads of this process; under "
                   "torchrun, srun or mpirun the launcher decides (1)")
      ->type_name("N")
      ->check(integer_between(1, most_ranks));
  group
      ->add_option("--join-patience", options.join_patience,
                   "Under a launcher: most seconds that ranks wait for one another to come (60)")
      ->type_name("N")
      ->check(integer_between(1, longest_join_patience));
  add_compute_dtype_option(*group, options.compute_dtype);
}

void add_request(CLI::App& command, run_options& options) {
  auto* group = command.add_option_group("Request");
  group
      ->add_option("--requests", options.requests,
                   "Several requests, one JSON object a line, one after another")
      ->type_name("FILE");
  group
      ->add_option("--passes-per-fetch", options.passes_per_fetch,
                   "Most passes of a step that use a block while it is on the device, 1 to 64; "
                   "with --requests, those of several requests (the passes of one request)")
      ->type_name("N")
      ->check(integer_between(1, most_passes_per_fetch));
  group->add_option("--prompt-ids", options.prompt_ids, "Token ids (5,17,9,33)")->type_name("IDS");
  group
      ->add_option("--second-prompt-ids", options.second_prompt_ids,
                   "Token ids for flux's T5 encoder (those of --prompt-ids)")
      ->type_name("IDS");
  group->add_option("--negative-prompt-ids", options.negative_prompt_ids, "Token ids, wan only (1)")
      ->type_name("IDS");
  group->add_option("--seed", options.seed, "Of the initial latents (0)")
      ->type_name("N")
      ->check(check_seed);
  group->add_option("--steps", options.steps, "Denoising steps, 1 to 1000 (4)")
      ->type_name("N")
      ->check(integer_between(1, max_steps));
  group
      ->add_option("--guidance", options.guidance,
                   "wan: classifier-free guidance, 1 or less turns it off (4); flux: what the "
                   "denoiser is told (3.5)")
      ->type_name("X");
  group->add_option("--size", options.size, "Width and height in pixels (96x64)")->type_name("WxH");
  group
      ->add_option("--frames", options.frames,
                   "wan: frames, one more than a multiple of 4 (9); flux: 1")
      ->type_name("N")
      ->check(check_integer);
}

void add_results(CLI::App& command, run_options& options) {
  auto* group = command.add_option_group("Results");
  group
      ->add_option("--reference", options.reference,
                   "Take the inputs from a reference file and compare every stage with it")
      ->type_name("FILE");
  group->add_flag("--compare-resident", options.compare_resident,
                  "Run once more with everything on the device and compare bytes");
  group
      ->add_option("--output", options.output,
                   "Write latents.safetensors and the pictures (PNG) there; of --requests, each "
                   "into its request-NNN")
      ->type_name("DIRECTORY");
  group->add_option("--trace", options.trace, "Write the trace as Chrome/Perfetto JSON")
      ->type_name("FILE");
  group->add_option("--report", options.report, "Write the report as JSON; - is standard output")
      ->type_name("FILE");
}

} // namespace

void add_compute_dtype_option(CLI::App& command, std::optional<std::string>& asked) {
  command
      .add_option("--compute-dtype", asked,
                  "What weights are on the device: bf16, f32, or auto, which takes f32 where that "
                  "is faster (as in the checkpoint)")
      ->type_name("TYPE");
}

void add_run_options(CLI::App& command, run_options& options) {
  command
      .add_option("CHECKPOINT", options.checkpoint,
                  "Directory of the pipeline, in the layout that diffusers saves")
      ->required()
      ->type_name("");
  add_configuration(command, options);
  add_device(command, options);
  add_request(command, options);
  add_results(command, options);
}

} // namespace ferry
