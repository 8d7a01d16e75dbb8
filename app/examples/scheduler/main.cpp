// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// Serves a queue of requests for several pipelines that share the memory of one device. Shows how a
// scheduler that is an actor drives Ferry: the actors of each pipeline live in the program's own
// actor system, the scheduler talks to their offloaders, and the model computes on a thread of its
// own.
//
// Each pipeline is asked for the same again and again, in turns, so what it makes has to be the
// same every time. The last request is cancelled while it waits. At the end it prints what a
// serving process would answer to Prometheus.

#include <ferry/actors/crew.hpp>
#include <ferry/messages/ask.hpp>
#include <ferry/messages/errc.hpp>
#include <ferry/offload/prometheus.hpp>
#include <ferry/offload/request_meter.hpp>
#include <ferry/offload/sha256.hpp>
#include <ferry/platform/open_device.hpp>
#include <ferry/platform/quantity.hpp>

#include "caught.hpp"
#include "config_option.hpp"
#include "exit_code.hpp"
#include "models/load_model.hpp"
#include "option_checks.hpp"
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

constexpr const char* name = "ferry_scheduler";

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

/// Measures what a device does for the requests. The device outlives it.
class measured_requests {
public:
  explicit measured_requests(std::shared_ptr<device> target) : target_(std::move(target)) {
    target_->attach(meter);
  }
  measured_requests(const measured_requests&) = delete;
  measured_requests& operator=(const measured_requests&) = delete;
  ~measured_requests() { target_->detach(meter); }

  request_meter meter;

private:
  std::shared_ptr<device> target_;
};

model_actor::behavior_type model_thread(std::shared_ptr<device> target, request_meter* meter) {
  return {[target = std::move(target), meter](const run_model& m) -> caf::result<model_ran> {
    try {
      target->observe(m.stamp);
      meter->begin();
      auto made = m.model->run(m.asked, {});
      meter->end();
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

/// The actors of this program. Ends them when it goes, whatever has failed: the actor system waits
/// for every one of them.
class cast {
public:
  /// @param meter of requests; outlives it
  cast(caf::actor_system& system, request_meter& meter) : system_(system), meter_(&meter) {}
  cast(const cast&) = delete;
  cast& operator=(const cast&) = delete;
  ~cast() { stop(); }

  [[nodiscard]] const std::vector<served_pipeline>& pipelines() const { return pipelines_; }
  [[nodiscard]] const scheduler_actor& serving() const { return serving_; }

  void open(const std::shared_ptr<device>& target, const std::string& checkpoint) {
    auto model = checked(load_model(checkpoint));
    auto subject = std::make_shared<torch_pipeline>(model->description());
    pipelines_.push_back(
        {checkpoint, std::move(model), std::move(subject), spawn_crew(system_, target, {})});
    checked(ask<void>(system_, pipelines_.back().actors->supervisor, patience, start_children{}));
  }

  void start_serving(const std::shared_ptr<device>& target, const offload_config& offloading) {
    thread_ = system_.spawn<caf::detached>(model_thread, target, meter_);
    serving_ = system_.spawn<scheduler>(pipelines_, offloading, thread_);
  }

  /// Returns whether all stopped in time. May be called again.
  bool stop() {
    bool in_time = true;
    if (serving_)
      kill(serving_);
    if (thread_)
      kill(thread_);
    for (const auto& each : pipelines_) {
      in_time = stop(*each.actors) && in_time;
      kill(each.actors->supervisor);
    }
    serving_ = nullptr;
    thread_ = nullptr;
    pipelines_.clear();
    return in_time;
  }

private:
  bool stop(const crew& actors) {
    const auto end = ask<stopped>(system_, actors.supervisor, patience, stop_children{10s});
    if (!end)
      std::fprintf(stderr, "%s: %s\n", name, describe(end.error()).c_str());
    else
      for (const auto& late : end->late)
        std::fprintf(stderr, "%s: late to stop: %s\n", name, late.c_str());
    return end && end->late.empty();
  }

  caf::actor_system& system_;
  request_meter* meter_;
  std::vector<served_pipeline> pipelines_;
  model_actor thread_;
  scheduler_actor serving_;
};

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

/// Runs the request that each model wants to have run first.
exit_code warm_up(caf::actor_system& system, const cast& actors, std::uint64_t& last_id) {
  const auto& pipelines = actors.pipelines();
  bool has_run = false;
  for (std::size_t i = 0; i != pipelines.size(); ++i) {
    const auto asked = pipelines[i].model->warm_up_request();
    if (!asked)
      continue;
    auto made = ask<generated>(system, actors.serving(), patience,
                               generate{request_id{++last_id}, i, *asked});
    if (!made) {
      made.error().detail = pipelines[i].name + ": " + made.error().detail;
      return report(made.error(), has_run ? exit_code::failed : exit_code_of(made.error()), name);
    }
    has_run = true;
  }
  return exit_code::done;
}

/// Prints what is left of the requests, and the metrics of the pipeline that the device holds.
/// Returns whether nothing is left.
bool tell_state(caf::actor_system& system, const cast& actors, const request_sums& requests) {
  const auto swaps = checked(ask<std::uint64_t>(system, actors.serving(), patience, query_swaps{}));
  std::printf("swaps: %llu\n", static_cast<unsigned long long>(swaps));
  bool idle = true;
  std::string metrics;
  for (const auto& pipeline : actors.pipelines()) {
    const auto state =
        checked(ask<offload_state>(system, pipeline.actors->offloader, patience, query_offload{}));
    std::printf("%s: %s, %u copies in flight\n", pipeline.name.c_str(),
                state.enabled ? "enabled" : "disabled", state.tickets_in_flight);
    idle = idle && !state.in_request && state.tickets_in_flight == 0;
    if (state.enabled)
      metrics = prometheus_text(state, requests);
  }
  std::fputs(metrics.c_str(), stdout);
  return idle;
}

exit_code serve(const arguments& given) {
  const auto offloading = checked(read_config(given.config, {}));
  if (offloading.strategy == offload_strategy::none)
    throw ferry_error{{errc::invalid_config, "--config is '" + given.config +
                                                 "', which offloads nothing; expected a "
                                                 "configuration with mode and components"}};
  const auto memory = parse_bytes(given.memory);
  if (!memory)
    throw ferry_error{{memory.error().code, "--device-memory: " + memory.error().detail}};
  const std::shared_ptr<device> target = checked(open_device("host", {.memory = *memory}));
  system_config config;
  caf::actor_system system{config};
  measured_requests measured{target};
  cast actors{system, measured.meter};
  for (const auto& checkpoint : given.checkpoints)
    actors.open(target, checkpoint);
  actors.start_serving(target, offloading);

  std::uint64_t last_id = 0;
  if (const auto outcome = warm_up(system, actors, last_id); outcome != exit_code::done)
    return outcome;

  std::vector<generate> queue;
  for (std::size_t i = 0; i != given.requests; ++i) {
    const auto which = i % actors.pipelines().size();
    queue.push_back({request_id{++last_id}, which, actors.pipelines()[which].model->defaults()});
  }
  bool good = tell(actors.pipelines(), queue, serve_queue(system, actors.serving(), queue));
  good = tell_state(system, actors, measured.meter.sums()) && good;
  good = actors.stop() && good;
  return good ? exit_code::done : exit_code::failed;
}

exit_code run(int argc, char** argv) {
  arguments given;
  CLI::App program{"Serves requests for pipelines that share one device's memory", name};
  program.add_option("CHECKPOINT", given.checkpoints, "Pipelines, served in turns")
      ->required()
      ->type_name("");
  program.add_option("--device-memory", given.memory, "Of all pipelines together (64MiB)")
      ->type_name("SIZE");
  program
      .add_option("--config", given.config,
                  "How each is offloaded: JSON, or @FILE (layer, dit and text_encoder)")
      ->type_name("JSON");
  program.add_option("--requests", given.requests, "How many to queue, 2 to 1000 (6)")
      ->type_name("N")
      ->check(integer_between(2, 1000));
  try {
    program.parse(argc, argv);
    return serve(given);
  } catch (const CLI::Success& asked) {
    program.exit(asked);
    return exit_code::done;
  } catch (const CLI::ParseError& wrong) {
    return report({errc::invalid_argument, std::string(wrong.what()) + "; see " + name + " --help"},
                  exit_code::rejected, name);
  } catch (const std::exception&) {
    const auto reason = caught();
    return report(reason, exit_code_of(reason), name);
  }
}

} // namespace
} // namespace ferry::example

int main(int argc, char** argv) {
  return static_cast<int>(ferry::example::run(argc, argv));
}
