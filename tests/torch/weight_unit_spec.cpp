// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/conversion.hpp>
#include <ferry/platform/error.hpp>
#include <ferry/torch/component_interfaces.hpp>
#include <ferry/torch/mapped_tensor.hpp>

#include "torch/allocation_watch.hpp"
#include "torch/catch.hpp"
#include "torch/gate.hpp"
#include "torch/unit_bench.hpp"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/InferenceMode.h>
#include <sys/mman.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ferry {
namespace {

using namespace test;
using torch::nn::Module;

const std::string path = "transformer.blocks.7";
const std::string parked = "block 'transformer.blocks.7' is not on the device";

TEST_CASE("every kind of tensor keeps what it is in a slot and back", "[torch][unit]") {
  const auto& kind = GENERATE(from_range(every_kind));
  CAPTURE(kind.name);
  const bool inference = GENERATE(false, true);
  const bool dropped = GENERATE(false, true);
  c10::InferenceMode mode(inference);
  bench b({kind.make()});
  const auto& tensor = b.tensors[0];
  const auto expected = tensor.clone();
  const auto* impl = tensor.unsafeGetTensorImpl();
  const auto strides = tensor.strides().vec();
  const auto offset = tensor.storage_offset();
  const bool requires_grad = tensor.requires_grad();

  b.unit->park();
  if (dropped)
    b.unit->drop_originals();
  b.bind();
  CHECK(at::equal(tensor, expected));
  CHECK(tensor.strides() == strides);

  b.unit->park();
  CHECK(tensor.sizes() == expected.sizes());
  b.unit->restore(b.slot.bytes());

  CHECK(at::equal(tensor, expected));
  CHECK(tensor.strides() == strides);
  CHECK(tensor.storage_offset() == offset);
  CHECK(tensor.unsafeGetTensorImpl() == impl);
  CHECK(tensor.requires_grad() == requires_grad);
}

TEST_CASE("a parked tensor fails with the unit's name and keeps its shape", "[torch][unit]") {
  bench b({counted({3, 4}).t().to(at::kBFloat16)});

  b.unit->park();

  CHECK_THROWS_WITH(b.tensors[0].sum(), Catch::Contains(parked));
  CHECK_THROWS_WITH(b.tensors[0].t().clone(), Catch::Contains(parked));
  CHECK(b.tensors[0].numel() == 12);
  CHECK(b.tensors[0].scalar_type() == at::kBFloat16);
  CHECK(b.tensors[0].device() == at::Device(at::kCPU));
}

TEST_CASE("bound tensors read the slot, at aligned addresses", "[torch][unit]") {
  bench b({at::ones({3}), at::ones({5}, at::kFloat8_e4m3fn), counted({8, 4}).narrow(0, 5, 2)});
  packed_bytes zeros(b.unit->layout().bytes, std::byte{0});

  b.unit->park();
  b.unit->bind(zeros.data());

  CHECK(b.tensors[0].sum().item<float>() == 0.F);
  CHECK(reinterpret_cast<std::uintptr_t>(b.tensors[0].data_ptr()) % memory_alignment == 0);
  CHECK(reinterpret_cast<std::uintptr_t>(b.tensors[1].data_ptr()) % memory_alignment == 0);
  CHECK(reinterpret_cast<std::uintptr_t>(b.tensors[2].data_ptr()) % memory_alignment == 0);
}

TEST_CASE("a bound unit follows to another slot without being parked", "[torch][unit]") {
  bench b({at::ones({3})});
  packed_bytes zeros(b.unit->layout().bytes, std::byte{0});

  b.bind();
  b.unit->bind(zeros.data());

  CHECK(b.tensors[0].sum().item<float>() == 0.F);
}

TEST_CASE("tensors that share memory share it in the slot and afterwards", "[torch][unit]") {
  auto base = counted({4});
  bench b({base, base.view({2, 2}), base.narrow(0, 1, 2)});
  const bool dropped = GENERATE(false, true);
  CHECK(b.unit->layout().storages.size() == 1);

  b.unit->park();
  if (dropped)
    b.unit->drop_originals();
  b.bind();
  b.tensors[0][1] = 9;
  CHECK(b.tensors[1][0][1].item<float>() == 9.F);
  CHECK(b.tensors[2][0].item<float>() == 9.F);
  b.unit->restore(b.slot.bytes());
  b.tensors[2][0] = 8;

  CHECK(b.tensors[0][1].item<float>() == 8.F);
  CHECK(b.tensors[1][0][1].item<float>() == 8.F);
}

TEST_CASE("kept originals are the memory that a restored unit is on", "[torch][unit]") {
  bench b({counted({4})});
  const auto* before = b.tensors[0].data_ptr();

  b.bind();
  b.tensors[0].zero_();
  b.unit->restore({});

  CHECK(b.tensors[0].data_ptr() == before);
  CHECK(b.tensors[0].sum().item<float>() == 6.F);
}

TEST_CASE("dropped originals give their memory back", "[torch][unit]") {
  auto freed = std::make_shared<bool>(false);
  auto tensor = at::from_blob(new float[4]{}, {4}, [freed](void* data) {
    delete[] static_cast<float*>(data);
    *freed = true;
  });
  bench b({std::move(tensor)});

  b.unit->park();
  CHECK_FALSE(*freed);
  b.unit->drop_originals();

  CHECK(*freed);
}

TEST_CASE("restoring dropped originals needs all of the master", "[torch][unit]") {
  bench b({counted({4})});
  b.unit->park();
  b.unit->drop_originals();

  CHECK_THROWS_AS(b.unit->restore({}), ferry_error);

  CHECK_THROWS_WITH(b.tensors[0].sum(), Catch::Contains(parked));
  b.unit->restore(b.slot.bytes());
  CHECK(b.tensors[0].sum().item<float>() == 6.F);
}

TEST_CASE("a restored tensor is as resizable as any other", "[torch][unit]") {
  bench b({counted({4})});
  b.unit->park();
  b.unit->drop_originals();
  b.unit->restore(b.slot.bytes());

  b.tensors[0].resize_({400}).zero_();

  CHECK(b.tensors[0].sum().item<float>() == 0.F);
}

TEST_CASE("a view that outlives its call fails instead of reading another block", "[torch][unit]") {
  bench b({counted({2, 2})});
  b.bind();
  auto escaped = b.tensors[0].t();

  b.unit->park();
  CHECK_THROWS_WITH(escaped.sum(), Catch::Contains(parked));
  b.bind();

  CHECK_THROWS_WITH(escaped.sum(), Catch::Contains(parked));
  CHECK(b.tensors[0].sum().item<float>() == 6.F);
}

TEST_CASE("binding and parking allocate nothing", "[torch][unit]") {
  bench b({counted({4}), counted({2, 2}).t(), at::scalar_tensor(1)});
  b.unit->park();

  allocation_watch watch;
  b.bind();
  b.unit->park();
  const auto allocations = watch.count();

  CHECK(allocations == 0);
}

TEST_CASE("parking that fails leaves every tensor where it was", "[torch][unit]") {
  bench b({counted({4}), counted({2, 2})});
  b.bind();
  auto escaped = b.tensors[1].t();
  bool threw = false;

  for (std::size_t n = 0; n != 2; ++n) {
    allocation_watch failing(n);
    try {
      b.unit->park();
    } catch (const std::bad_alloc&) {
      threw = true;
      break;
    }
  }

  CHECK(threw);
  CHECK(b.tensors[0].sum().item<float>() == 6.F);
  CHECK(b.tensors[1].sum().item<float>() == 6.F);
  b.unit->park();
  CHECK_THROWS_WITH(escaped.sum(), Catch::Contains(parked));
}

TEST_CASE("making a unit fails at any allocation without touching a tensor", "[torch][unit]") {
  bench b({counted({4}), counted({2, 2})});
  const auto layout = b.unit->layout();
  std::size_t n = 0;
  bool done = false;

  while (!done) {
    auto given = layout;
    std::string name = path;
    allocation_watch failing(n++);
    try {
      static_cast<void>(b.pipeline->make_unit(std::move(name), std::move(given)));
    } catch (const std::bad_alloc&) {
    }
    done = !failing.failed();
  }

  CHECK(n > 3);
  CHECK(b.tensors[0].sum().item<float>() == 6.F);
}

/// Refuses the n-th allocation of tensor memory.
struct failing_allocator final : at::Allocator {
  explicit failing_allocator(std::size_t fail_at)
      : remaining(fail_at), inner(c10::GetCPUAllocator()) {
    c10::SetCPUAllocator(this, 1);
  }
  ~failing_allocator() override { c10::SetCPUAllocator(inner, 1); }
  at::DataPtr allocate(std::size_t bytes) override {
    if (remaining-- == 0)
      throw std::bad_alloc();
    return inner->allocate(bytes);
  }
  at::DeleterFnPtr raw_deleter() const override { return inner->raw_deleter(); }
  void copy_data(void* target, const void* source, std::size_t bytes) const override {
    std::memcpy(target, source, bytes);
  }
  std::size_t remaining;
  at::Allocator* inner;
};

TEST_CASE("restoring that fails at any tensor leaves the unit parked, to be tried again",
          "[torch][unit]") {
  bench b({counted({4}), counted({2, 2}), counted({3})});
  b.unit->park();
  b.unit->drop_originals();
  const auto n = GENERATE(0U, 1U, 2U);

  {
    failing_allocator failing(n);
    CHECK_THROWS_AS(b.unit->restore(b.slot.bytes()), std::bad_alloc);
  }

  CHECK_THROWS_WITH(b.tensors[0].sum(), Catch::Contains(parked));
  CHECK_THROWS_WITH(b.tensors[2].sum(), Catch::Contains(parked));
  b.unit->restore(b.slot.bytes());
  CHECK(b.tensors[0].sum().item<float>() == 6.F);
  CHECK(b.tensors[2].sum().item<float>() == 3.F);
}

TEST_CASE("cycles of park, bind and restore reproduce every bit", "[torch][unit]") {
  bench b({counted({4}), counted({6, 4}).t()});
  const auto expected = b.tensors[1].clone();

  b.unit->park();
  b.unit->drop_originals();
  b.unit->restore(b.slot.bytes());
  b.unit->park();
  b.bind();
  b.unit->restore({});

  CHECK(at::equal(b.tensors[1], expected));
  CHECK(b.tensors[1].strides() == expected.t().contiguous().t().strides());
}

TEST_CASE("a unit's part of a shared storage is all that a restore allocates", "[torch][unit]") {
  auto base = at::zeros({1 << 20});
  bench b({base.narrow(0, (1 << 20) - 4, 4)});
  b.unit->park();
  b.unit->drop_originals();
  b.unit->restore(b.slot.bytes());

  CHECK(b.unit->originals().at(0).size() == 16);
  CHECK(b.tensors[0].sum().item<float>() == 0.F);
}

TEST_CASE("what a unit remembers of a tensor is less than 512 bytes", "[torch][unit]") {
  constexpr std::size_t tensors = 1000;
  auto module = std::make_shared<Module>();
  for (std::size_t i = 0; i != tensors; ++i)
    module->register_parameter("weight" + std::to_string(i), at::empty({1}));
  torch_pipeline pipeline({.type_name = "test", .components = {{"transformer", module}}});
  auto layout = pack_node(*node_at(pipeline, "transformer"));

  allocation_watch watch;
  auto copy = layout;
  const auto unit = pipeline.make_unit(path, std::move(copy));
  const auto bytes = watch.bytes();

  CHECK(bytes > tensors);
  CHECK(bytes / tensors < 512);
}

struct read_only_page {
  read_only_page() {
    memory = static_cast<std::byte*>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    auto* values = reinterpret_cast<float*>(memory);
    for (int i = 0; i != 16; ++i)
      values[i] = static_cast<float>(i);
    mprotect(memory, 4096, PROT_READ);
  }
  ~read_only_page() { munmap(memory, 4096); }
  const_bytes bytes(std::size_t from, std::size_t size) const { return {memory + from, size}; }
  std::byte* memory;
};

TEST_CASE("a mapped tensor is read-only memory that lives as long as the tensor", "[torch][unit]") {
  auto page = std::make_shared<read_only_page>();
  std::weak_ptr<read_only_page> mapped = page;
  auto tensor = tensor_over(page, page->bytes(16, 16), dtype::f32, {2, 2});
  page.reset();

  CHECK(tensor.sum().item<float>() == 22.F);
  CHECK(tensor.is_contiguous());
  CHECK(is_mapped(tensor.storage()));
  CHECK_FALSE(mapped.expired());
  tensor = at::Tensor();
  CHECK(mapped.expired());
}

TEST_CASE("a unit over mapped memory never writes to it and knows it by its kind",
          "[torch][unit]") {
  auto page = std::make_shared<read_only_page>();
  bench b({tensor_over(page, page->bytes(0, 16), dtype::f32, {4}), counted({3})});

  b.unit->park();
  b.bind();
  CHECK(b.tensors[0].sum().item<float>() == 6.F);
  b.unit->restore({});

  CHECK(b.unit->originals_kind(0) == memory_kind::mapped);
  CHECK(b.unit->originals_kind(1) == memory_kind::pageable);
  CHECK(b.tensors[0].data_ptr() == page->memory);
}

TEST_CASE("a mapped original is copied before it can be written, and ties see the copy",
          "[torch][unit]") {
  auto page = std::make_shared<read_only_page>();
  const auto mapped = tensor_over(page, page->bytes(0, 16), dtype::f32, {4});
  bench b({mapped.narrow(0, 1, 3), mapped.narrow(0, 2, 2), counted({3})});
  const auto parked_first = GENERATE(true, false);
  if (parked_first)
    b.unit->park();

  const auto bytes = b.unit->writable_original(0);
  REQUIRE(bytes.size() == 12);
  CHECK(std::memcmp(bytes.data(), page->memory + 4, 12) == 0);
  std::memset(bytes.data() + 4, 0, 4);
  b.unit->restore({});

  CHECK(b.unit->originals_kind(0) == memory_kind::pageable);
  CHECK(at::equal(b.tensors[0], at::tensor({1.F, 0.F, 3.F})));
  CHECK(at::equal(b.tensors[1], at::tensor({0.F, 3.F})));
  CHECK(b.tensors[0].data_ptr<float>() + 1 == b.tensors[1].data_ptr<float>());
  CHECK(mapped.sum().item<float>() == 6.F);
}

TEST_CASE("an ordinary original is written where it is", "[torch][unit]") {
  bench b({counted({3})});
  const auto* at = b.tensors[0].const_data_ptr();

  const auto bytes = b.unit->writable_original(0);

  CHECK(bytes.data() == at);
  CHECK(b.tensors[0].const_data_ptr() == at);
}

TEST_CASE("bytes that do not lie where their type needs them are copied", "[torch][unit]") {
  auto page = std::make_shared<read_only_page>();

  auto tensor = tensor_over(page, page->bytes(2, 4), dtype::f32, {1});

  CHECK_FALSE(is_mapped(tensor.storage()));
  CHECK(std::memcmp(tensor.data_ptr(), page->memory + 2, 4) == 0);
}

TEST_CASE("bytes that do not fit type and shape are refused", "[torch][unit]") {
  auto page = std::make_shared<read_only_page>();

  CHECK_THROWS_AS(tensor_over(page, page->bytes(0, 16), dtype::f32, {3}), ferry_error);
  CHECK_THROWS_AS(tensor_over(page, page->bytes(0, 16), dtype::f32, {-4}), ferry_error);
  CHECK_THROWS_AS(tensor_over(page, page->bytes(0, 0), dtype::f64, {1LL << 62}), ferry_error);
  CHECK(tensor_over(page, page->bytes(0, 4), dtype::f32, {}).dim() == 0);
}

TEST_CASE("element types translate both ways", "[torch][unit]") {
  const auto type =
      GENERATE(dtype::boolean, dtype::u8, dtype::i8, dtype::i16, dtype::i32, dtype::i64,
               dtype::f8_e4m3, dtype::f8_e5m2, dtype::f16, dtype::bf16, dtype::f32, dtype::f64);

  CHECK(dtype_of(scalar_type_of(type)) == type);
  CHECK(c10::elementSize(scalar_type_of(type)) == element_size(type));
}

TEST_CASE("a tensor whose memory is not the host's is refused", "[torch][unit]") {
  bench b({at::empty({4}, at::device(at::kMeta))});
  auto tensor = b.unit->layout().tensors.at(0);
  tensor.storage = 0;
  const packed_layout claimed{
      .storages = {{object_id{1}, 0, 16, 0}}, .tensors = {tensor}, .bytes = 256};

  CHECK_THROWS_WITH(b.pipeline->make_unit(path, claimed), Catch::Contains("is on meta"));
}

TEST_CASE("a unit finds its tensors in whatever order its layout names them", "[torch][unit]") {
  bench b({counted({4}), counted({2})});
  auto layout = b.unit->layout();
  std::ranges::reverse(layout.tensors);

  const auto unit = b.pipeline->make_unit(path, layout);

  for (std::size_t i = 0; i != 2; ++i)
    CHECK(static_cast<const void*>(unit->originals()[i].data()) == b.tensors[i].data_ptr());
}

TEST_CASE("a unit of a tensor that the pipeline lost is refused", "[torch][unit]") {
  bench b({counted({4})});
  const auto layout = b.unit->layout();
  b.unit.reset();
  b.module->members.clear();
  b.tensors.clear();

  CHECK_THROWS_AS(b.pipeline->make_unit(path, layout), ferry_error);
}

/// A tensor of f32 that is kept as bf16 in ordinary memory, and what it is once it is converted.
struct kept_as_bf16 {
  at::Tensor stored = (at::arange(12, at::kFloat) * 1.37 - 5).to(at::kBFloat16).view({3, 4});
  at::Tensor expected = stored.to(at::kFloat);
  std::shared_ptr<at::Tensor> owner = std::make_shared<at::Tensor>(stored);

  [[nodiscard]] at::Tensor make(dtype type = dtype::f32) const {
    return converted_tensor_over(
        owner, {static_cast<const std::byte*>(stored.const_data_ptr()), stored.nbytes()},
        dtype::bf16, type, stored.sizes(), "blocks.7.weight");
  }
};

TEST_CASE("a tensor that is kept in another type has the model's, and no memory until it is bound",
          "[torch][unit][conversion]") {
  const kept_as_bf16 kept;
  auto tensor = kept.make();

  CHECK(tensor.scalar_type() == at::kFloat);
  CHECK(tensor.sizes() == kept.stored.sizes());
  CHECK(tensor.is_contiguous());
  CHECK(is_mapped(tensor.storage()));
  CHECK(conversion_of(tensor.storage()) == conversion::bf16_to_f32);
  CHECK_THROWS_WITH(tensor.sum(),
                    Catch::Contains("tensor 'blocks.7.weight' is kept as BF16 and has no "
                                    "memory as F32 until"));
  CHECK(kept.owner.use_count() == 2);
  tensor = at::Tensor();
  CHECK(kept.owner.use_count() == 1);
}

TEST_CASE("a unit converts what is kept in another type on its way, views and ties included",
          "[torch][unit][conversion]") {
  const kept_as_bf16 kept;
  const auto whole = kept.make();
  bench b({whole.t(), whole.narrow(0, 1, 2), whole, counted({3})});

  CHECK(b.unit->layout().storages.front().bytes == kept.expected.nbytes());
  CHECK(b.unit->originals().front().size() == kept.stored.nbytes());
  CHECK(b.unit->originals_conversion(0) == conversion::bf16_to_f32);
  CHECK(b.unit->originals_conversion(1) == conversion::none);
  for (int i = 0; i != 2; ++i) {
    b.unit->park();
    b.bind();
    CHECK(at::equal(b.tensors[0], kept.expected.t()));
    CHECK(at::equal(b.tensors[1], kept.expected.narrow(0, 1, 2)));
    CHECK(at::equal(b.tensors[2], kept.expected));
    CHECK(at::equal(b.tensors[3], counted({3})));
    b.unit->park();
    b.unit->restore({});
    CHECK_THROWS_WITH(b.tensors[2].sum(), Catch::Contains("is kept as BF16"));
    CHECK(at::equal(b.tensors[3], counted({3})));
  }
}

TEST_CASE("a tensor whose two types are one is the file's own memory",
          "[torch][unit][conversion]") {
  const kept_as_bf16 kept;
  const auto tensor = kept.make(dtype::bf16);
  CHECK(tensor.data_ptr() == kept.stored.data_ptr());
  CHECK(conversion_of(tensor.storage()) == conversion::none);
}

TEST_CASE("a type that nothing converts to, and a value beyond its range, are refused by name",
          "[torch][unit][conversion]") {
  const kept_as_bf16 kept;
  CHECK_THROWS_WITH(kept.make(dtype::i32), Catch::Contains("'blocks.7.weight' is BF16") &&
                                               Catch::Contains("nothing converts that to I32"));
  const auto make_f16 = [](const at::Tensor& stored) {
    return converted_tensor_over(
        nullptr, {static_cast<const std::byte*>(stored.const_data_ptr()), stored.nbytes()},
        dtype::f32, dtype::f16, stored.sizes(), "blocks.7.weight");
  };
  CHECK(make_f16(at::full({5}, 65504.F)).scalar_type() == at::kHalf);
  CHECK_THROWS_WITH(make_f16(at::tensor({1.F, 70000.F, 2.F})),
                    Catch::Contains("'blocks.7.weight' has values beyond the range of F16"));
}

TEST_CASE("torch converts to the same bits", "[torch][unit][conversion]") {
  const auto every_half = at::arange(0x10000, at::kInt).to(at::kShort);
  const auto numbers = (at::randn({20000}, at::kFloat) * 100).contiguous();
  const auto same = [](conversion how, const at::Tensor& from, const at::Tensor& to) {
    auto made = at::empty_like(to);
    convert(how, {static_cast<const std::byte*>(from.const_data_ptr()), from.nbytes()},
            {static_cast<std::byte*>(made.mutable_data_ptr()), made.nbytes()});
    const auto bits = to.element_size() == 2 ? at::kShort : at::kInt;
    const auto number = to.to(at::kFloat).isnan().logical_not();
    return at::equal(made.view(bits).masked_select(number), to.view(bits).masked_select(number)) &&
           at::equal(made.to(at::kFloat).isnan(), number.logical_not());
  };
  const auto bf16 = every_half.view(at::kBFloat16);
  const auto f16 = every_half.view(at::kHalf);
  CHECK(same(conversion::bf16_to_f32, bf16, bf16.to(at::kFloat)));
  CHECK(same(conversion::f16_to_f32, f16, f16.to(at::kFloat)));
  CHECK(same(conversion::f16_to_bf16, f16, f16.to(at::kFloat).to(at::kBFloat16)));
  CHECK(same(conversion::f32_to_bf16, numbers, numbers.to(at::kBFloat16)));
  CHECK(same(conversion::f32_to_f16, numbers, numbers.to(at::kHalf)));
}

} // namespace
} // namespace ferry
