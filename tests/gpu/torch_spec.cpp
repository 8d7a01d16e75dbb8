// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/runtime.hpp>
#include <ferry/offload/config_legacy.hpp>
#include <ferry/offload/resident_weights.hpp>
#include <ferry/torch/torch_allocator_cache.hpp>
#include <ferry/torch/torch_cuda.hpp>
#include <ferry/torch/torch_pipeline.hpp>

#include "field_cases/torch/toy.hpp"
#include "gpu/kernels.hpp"
#include "gpu/rig.hpp"
#include "gpu/slow_gpu.hpp"
#include "models/load_model.hpp"
#include "torch/catch.hpp"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using test::first_gpu;
using test::slow_gpu;
using test::slowness;
using test::toy;

offload_config compact(std::string_view json) {
  return resolve_config(json, {}).value().config;
}

bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  const auto left = a.cpu().contiguous();
  const auto right = b.cpu().contiguous();
  return left.sizes() == right.sizes() && left.scalar_type() == right.scalar_type() &&
         std::memcmp(left.const_data_ptr(), right.const_data_ptr(), left.nbytes()) == 0;
}

/// Makes a stream of libtorch's current on this thread, as a caller with streams of its own does.
class on_torch_stream {
public:
  explicit on_torch_stream(const device& gpu)
      : before_(cuda_.exchangeStream(cuda_.getStreamFromGlobalPool(torch_device_of(gpu)))) {}
  on_torch_stream(const on_torch_stream&) = delete;
  on_torch_stream& operator=(const on_torch_stream&) = delete;
  ~on_torch_stream() { cuda_.exchangeStream(before_); }

  [[nodiscard]] void* native() const { return cuda_.getStream(before_.device()).native_handle(); }

private:
  c10::impl::VirtualGuardImpl cuda_{at::kCUDA};
  c10::Stream before_;
};

/// A toy under a runtime over the first GPU.
struct gpu_toy {
  explicit gpu_toy(std::string_view config, slowness how = {}, std::size_t slots = 2)
      : gpu(std::make_shared<slow_gpu>(first_gpu(), how)), callers(streams_of_callers(gpu).value()),
        subject(gpu, {.slots = slots, .callers = callers, .acquire_deadline = 10s}) {
    model.compute_device = torch_device_of(*gpu);
    pipeline = std::make_shared<torch_pipeline>(model.description());
    {
      const resident_weights everything{*pipeline, *gpu};
      resident = model.generate().cpu();
    }
    REQUIRE(subject.start());
    REQUIRE(subject.enable(pipeline, compact(config)));
  }

  [[nodiscard]] at::Tensor request() {
    REQUIRE(subject.begin_request());
    auto made = model.generate().cpu();
    REQUIRE(subject.end_request());
    return made;
  }

  toy model;
  std::shared_ptr<slow_gpu> gpu;
  std::shared_ptr<caller_streams> callers;
  std::shared_ptr<torch_pipeline> pipeline;
  at::Tensor resident;
  runtime subject;
};

constexpr auto dit_and_encoder = R"({"mode":"layer","components":["dit","text_encoder"]})";
constexpr auto unpinned =
    R"({"mode":"layer","components":["dit","text_encoder"],"pin_memory":false})";
constexpr auto whole = R"({"mode":"module","components":["dit","text_encoder"]})";

TEST_CASE("on a GPU a model computes the bytes of the resident run, whatever is slow and however "
          "its weights come",
          "[gpu][B05][B06][B09]") {
  const std::string config = GENERATE(dit_and_encoder, unpinned, whole);
  const auto how = GENERATE(slowness{}, slowness{.copy = 2ms}, slowness{.compute = 2ms});
  CAPTURE(config);
  gpu_toy run{config, how};

  CHECK(same_bytes(run.request(), run.resident));
  CHECK(same_bytes(run.request(), run.resident));

  REQUIRE(run.subject.disable());
  CHECK(run.gpu->counters().device_bytes == 0);
  for (const auto& component : run.model.description().components)
    for (const auto& each : component.module->parameters())
      CHECK(each.is_cpu());
}

TEST_CASE("on a GPU a model may compute on any stream of libtorch, and change it between requests",
          "[gpu][B02]") {
  gpu_toy run{dit_and_encoder, {.compute = 1ms}};
  for (int i = 0; i != 4; ++i) {
    const on_torch_stream here{*run.gpu};

    CHECK(same_bytes(run.request(), run.resident));
  }
}

TEST_CASE("on a GPU a thread's current stream is its own", "[gpu][B110]") {
  const auto gpu = std::shared_ptr<cuda_device>(first_gpu());
  torch_streams streams{gpu};
  const on_torch_stream here{*gpu};
  const auto own = streams.current();
  stream_id elsewhere{};

  std::thread([&] { elsewhere = streams.current(); }).join();

  CHECK(own != elsewhere);
  CHECK(gpu->native_stream(own) == here.native());
  CHECK(streams.current() == own);
}

TEST_CASE("a block is refused while its stream is being captured, and runs afterwards",
          "[gpu][capture]") {
  gpu_toy run{dit_and_encoder};
  const on_torch_stream here{*run.gpu};
  REQUIRE(same_bytes(run.request(), run.resident));

  const auto input = test::values({test::tokens, test::width}, 1).to(torch_device_of(*run.gpu));

  test::begin_capture(here.native());
  CHECK_THROWS_WITH(call(*(*run.model.transformer->lists.front())[0], input),
                    Catch::Contains("captured into a CUDA graph"));
  test::end_capture(here.native());

  CHECK(same_bytes(run.request(), run.resident));
}

TEST_CASE("what libtorch's allocator keeps on a GPU is told, and given back", "[gpu]") {
  const auto gpu = first_gpu();
  REQUIRE(load_torch_cuda());
  const auto where = torch_device_of(*gpu);
  torch_allocator_cache cache{find_device_allocator(where), where.index()};
  constexpr std::int64_t mebibyte = std::int64_t{1} << 20;
  static_cast<void>(at::empty({64 * mebibyte}, at::TensorOptions(at::kByte).device(where)));

  const auto kept = cache.telemetry().value();
  cache.release();
  const auto given_back = cache.telemetry().value();

  CHECK(kept.reserved >= kept.allocated + 64 * mebibyte);
  CHECK(given_back.reserved < kept.reserved);
  CHECK(kept.total > kept.free);
}

TEST_CASE("on a GPU the golden pipelines put out the bytes of the resident run", "[gpu][golden]") {
  const std::string checkpoint = GENERATE("wan-tiny", "wan-dual-tiny", "flux-tiny");
  const std::string config = GENERATE(dit_and_encoder, whole,
                                      R"({"mode":"layer","components":["dit"],)"
                                      R"("layer_options":{"dit":{"resident_layers":1}}})");
  const auto how = GENERATE(slowness{}, slowness{.copy = 500us});
  CAPTURE(checkpoint, config);
  const auto gpu = std::make_shared<slow_gpu>(first_gpu(), how);
  const auto directory = std::filesystem::path(FERRY_TEST_DATA) / checkpoint;
  const auto model = std::move(load_model(directory).value());
  model->compute_on(torch_device_of(*gpu));
  const auto reference = reference_run::open(directory / "reference.safetensors").value();
  const auto asked = model->inputs_of(reference).value();
  const auto callers = streams_of_callers(gpu).value();
  const auto pipeline = std::make_shared<torch_pipeline>(model->description());
  const auto resident = [&] {
    const resident_weights everything{*pipeline, *gpu};
    return model->run(asked, {}).value();
  }();

  runtime subject{gpu, {.callers = callers, .acquire_deadline = 10s}};
  REQUIRE(subject.start());
  const auto enabled = subject.enable(pipeline, compact(config));
  REQUIRE(enabled);
  REQUIRE(subject.begin_request({.steps = static_cast<std::uint32_t>(asked.steps)}));
  const auto made = model->run(asked, {}).value();
  REQUIRE(subject.end_request());

  CHECK(same_bytes(made.latents, resident.latents));
  if (resident.pictures.defined())
    CHECK(same_bytes(made.pictures, resident.pictures));
  CHECK(subject.disable());
}

} // namespace
} // namespace ferry
