// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// Serves a queue of requests for several pipelines that share the memory of one device. Shows how a
// scheduler that is an actor drives Ferry: the actors of each pipeline live in the program's own
// actor system, the scheduler talks to their offloaders, and the model computes on a thread of its
// own.
//
// Each pipeline is asked for the same again and again, in turns, so what it makes has to be the
// same every time. The last request is cancelled while it waits.

#include <ferry/actors/crew.hpp>
#include <ferry/messages/ask.hpp>
#include <ferry/messages/errc.hpp>
#include <ferry/offload/config_legacy.hpp>
#include <ferry/offload/sha256.hpp>
#include <ferry/platform/open_device.hpp>
#include <ferry/platform/quantity.hpp>

#include "models/load_model.hpp"
#include "scheduler.hpp"

#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ferry::example {
namespace {

using namespace std::chrono_literals;

struct arguments {
  std::vector<std::string> checkpoints;
  std::string memory = "64MiB";
  std::string config = R"({"mode":"layer","components":["dit","text_encoder"]})";
  std::size_t requests = 6;
};

class system_config final : public caf::actor_system_config {
public:
  system_config() {
    add_types<caf::id_block::ferry_messages, caf::id_block::scheduler_example>(*this);
    ferry::add_error_category(*this);
    use_workers(*this, 1);
  }
};

template <class T>
T checked(result<T> outcome) {
  if (!outcome)
    throw ferry_error{outcome.error()};
  if constexpr (!std::is_void_v<T>)
    return std::move(*outcome);
}

/// What the main thread waits for an answer: requests may take long.
constexpr auto patience = 24h;

model_actor::behavior_type model_thread(std::shared_ptr<device> target) {
  return {[target = std::move(target)](const run_model& m) -> caf::result<model_ran> {
    try {
      target->observe(m.stamp);
      auto made = m.model->run(m.asked, {});
      if (!made)
        return to_error(made.error());
      return model_ran{std::move(*made), target->stamp()};
    } catch (const ferry_error& e) {
      return to_error(e.reason());
    } catch (const std::exception& e) {
      return to_error({errc::internal, e.what()});
    }
  }};
}

served_pipeline open_pipeline(caf::actor_system& system, const std::shared_ptr<device>& target,
                              const std::string& checkpoint) {
  served_pipeline opened{.name = checkpoint,
                         .model = checked(load_model(checkpoint)),
                         .subject = nullptr,
                         .actors = nullptr};
  opened.subject = std::make_shared<torch_pipeline>(opened.model->description());
  opened.actors = spawn_crew(system, target, {});
  checked(ask<void>(system, opened.actors->supervisor, patience, start_children{}));
  return opened;
}

void close_pipeline(caf::actor_system& system, const served_pipeline& pipeline) {
  const auto end =
      checked(ask<stopped>(system, pipeline.actors->supervisor, patience, stop_children{10s}));
  for (const auto& late : end.late)
    std::fprintf(stderr, "late to stop: %s\n", late.c_str());
  kill(pipeline.actors->supervisor);
}

/// Sends all requests, cancels the last one and returns what became of each.
std::vector<result<generated>> serve_queue(caf::actor_system& system,
                                           const scheduler_actor& serving,
                                           const std::vector<generate>& queue) {
  std::vector<result<generated>> outcomes;
  {
    caf::scoped_actor client{system};
    const auto send = [&](auto message) {
      return inquire(client.ptr(), serving, patience, std::move(message));
    };
    std::vector<decltype(send(queue.front()))> answers;
    for (const auto& asked : queue)
      answers.push_back(send(asked));
    send(cancel_request{queue.back().id}).receive([] {}, [](const caf::error&) {});
    for (auto& answer : answers)
      answer.receive([&](generated& made) { outcomes.emplace_back(std::move(made)); },
                     [&](const caf::error& reason) {
                       outcomes.emplace_back(tl::unexpected(to_failure(reason)));
                     });
  }
  forget_system();
  return outcomes;
}

std::string digest(const generated& made) {
  const auto latents = made.latents.contiguous();
  return sha256({static_cast<const std::byte*>(latents.const_data_ptr()), latents.nbytes()});
}

/// Prints what became of each request. Returns whether it is what it should be: the last one was
/// cancelled, the others ran, and those of one pipeline made the same.
bool tell(const std::vector<served_pipeline>& pipelines, const std::vector<generate>& queue,
          const std::vector<result<generated>>& outcomes) {
  bool good = !outcomes.back() && outcomes.back().error().code == errc::cancelled;
  std::map<std::size_t, std::string> made_before;
  for (std::size_t i = 0; i != queue.size(); ++i) {
    const auto which = queue[i].pipeline;
    const auto said = outcomes[i] ? digest(*outcomes[i]) : describe(outcomes[i].error());
    std::printf("request %zu, %s: %s\n", i, pipelines[which].name.c_str(), said.c_str());
    if (i + 1 != queue.size())
      good = good && outcomes[i] && made_before.try_emplace(which, said).first->second == said;
  }
  return good;
}

/// Returns whether all went as it should.
bool serve(const arguments& given) {
  const std::shared_ptr<device> target =
      checked(open_device("host", {.memory = checked(parse_bytes(given.memory))}));
  const auto offloading = checked(resolve_config(given.config, {})).config;
  system_config config;
  caf::actor_system system{config};
  std::vector<served_pipeline> pipelines;
  for (const auto& checkpoint : given.checkpoints)
    pipelines.push_back(open_pipeline(system, target, checkpoint));
  const auto thread = system.spawn<caf::detached>(model_thread, target);
  const auto serving = system.spawn<scheduler>(pipelines, offloading, thread);
  std::uint64_t last_id = 0;

  for (std::size_t i = 0; i != pipelines.size(); ++i)
    if (const auto warm_up = pipelines[i].model->warm_up_request())
      checked(
          ask<generated>(system, serving, patience, generate{request_id{++last_id}, i, *warm_up}));

  std::vector<generate> queue;
  for (std::size_t i = 0; i != given.requests; ++i) {
    const auto which = i % pipelines.size();
    queue.push_back({request_id{++last_id}, which, pipelines[which].model->defaults()});
  }
  bool good = tell(pipelines, queue, serve_queue(system, serving, queue));

  const auto swaps = checked(ask<std::uint64_t>(system, serving, patience, query_swaps{}));
  std::printf("swaps: %llu\n", static_cast<unsigned long long>(swaps));
  for (const auto& pipeline : pipelines) {
    const auto state =
        checked(ask<offload_state>(system, pipeline.actors->offloader, patience, query_offload{}));
    std::printf("%s: %s, %u copies in flight\n", pipeline.name.c_str(),
                state.enabled ? "enabled" : "disabled", state.tickets_in_flight);
    good = good && !state.in_request && state.tickets_in_flight == 0;
  }
  kill(serving);
  kill(thread);
  for (const auto& pipeline : pipelines)
    close_pipeline(system, pipeline);
  return good;
}

} // namespace
} // namespace ferry::example

int main(int argc, char** argv) {
  ferry::example::arguments given;
  CLI::App program{"Serves requests for pipelines that share one device's memory"};
  program.add_option("CHECKPOINT", given.checkpoints, "Pipelines, served in turns")->required();
  program.add_option("--device-memory", given.memory, "Of all pipelines together")
      ->capture_default_str();
  program.add_option("--config", given.config, "How each is offloaded")->capture_default_str();
  program.add_option("--requests", given.requests, "How many to queue")
      ->check(CLI::Range(2, 1000))
      ->capture_default_str();
  CLI11_PARSE(program, argc, argv);
  try {
    return ferry::example::serve(given) ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "scheduler: %s\n", e.what());
    return 2;
  }
}
