// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "leased_stack.hpp"

#include <ferry/offload/config_legacy.hpp>
#include <ferry/offload/host_lease.hpp>

#include "bare_stack.hpp"

#include <string>
#include <utility>
#include <vector>

namespace ferry::bench {

namespace {

/// Beyond it registration is refused, so that what is leased is staged.
constexpr double a_byte_in_gib = 1.0 / (1 << 30);

std::shared_ptr<test::fake_pipeline> model_in(const mapped_file& file, std::size_t blocks) {
  const auto bytes = file.bytes().size() / blocks;
  std::vector<test::fake_node> made;
  for (std::size_t i = 0; i != blocks; ++i)
    made.push_back(test::node("block")->parameter(
        "weight", test::mapped_tensor(file.bytes().subspan(i * bytes, bytes),
                                      {static_cast<std::int64_t>(bytes / sizeof(float))})));
  auto model = std::make_shared<test::fake_pipeline>(test::node("root")->child(
      "transformer", test::node("dit")->child("blocks", test::list(std::move(made)))));
  model->declare({.dits = {"transformer"}}).plan({.block_attrs = {{"transformer", {"blocks"}}}});
  return model;
}

/// Returns a lease that keeps the file mapped until it is closed.
std::shared_ptr<host_lease> lease_of(std::shared_ptr<const mapped_file> file) {
  leased_weights weights;
  weights.regions.push_back(
      {.file = file->path().filename().string(), .bytes = file->bytes(), .read_only = true});
  return checked(host_lease::open(std::move(weights), {},
                                  {.closers = {[kept = std::move(file)] { /* Lets go. */ }}}));
}

legacy_options options_for(page_access how) {
  legacy_options options{.enable_distributed_layerwise_offload = true, .dlo_use_allgather = false};
  if (how == page_access::staged)
    options.dlo_host_registration_limit_gib = a_byte_in_gib;
  options.host_weight_runtime_mode = host_weight_runtime::preferred;
  options.host_weight_runtime_root = "/";
  return options;
}

} // namespace

leased_stack::leased_stack(std::shared_ptr<device> target, std::shared_ptr<const mapped_file> file,
                           std::size_t blocks, page_access how, runtime_options options)
    : blocks_(blocks), model_(model_in(*file, blocks)),
      runtime_(std::move(target), std::move(options)) {
  checked(runtime_.start());
  const auto config = checked(resolve_config(std::nullopt, options_for(how))).config;
  checked(runtime_.enable(model_, config, lease_of(std::move(file))));
  const auto state = checked(runtime_.state());
  const auto registers = how == page_access::registered;
  if ((state.registered_bytes > 0) != registers || (state.staged_stores == blocks) == registers)
    throw ferry_error({.code = errc::unsupported,
                       .detail = "the pages of the file are not accessed as they are to be: " +
                                 state.not_registered});
}

void leased_stack::request(std::size_t steps) {
  checked(runtime_.begin_request({.steps = static_cast<std::uint32_t>(steps)}));
  for (std::size_t step = 0; step != steps; ++step)
    for (std::size_t i = 0; i != blocks_; ++i)
      model_->call("transformer.blocks." + std::to_string(i), [](test::fake_module&) {});
  checked(runtime_.end_request());
}

} // namespace ferry::bench
