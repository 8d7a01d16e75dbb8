// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/packing.hpp>
#include <ferry/platform/memory.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <random>
#include <utility>

namespace ferry {
namespace {

using numbers = std::vector<std::int64_t>;
using bytes_range = std::pair<std::size_t, std::size_t>;

/// A tensor object that nothing else is, over storage number `storage`.
tensor_info tensor(unsigned storage, dtype type, numbers shape, numbers strides,
                   std::int64_t offset = 0) {
  static std::uintptr_t last_identity = 1000;
  tensor_info made;
  made.type = type;
  made.shape = std::move(shape);
  made.strides = std::move(strides);
  made.storage_offset = offset;
  made.identity = object_id{++last_identity};
  made.storage = object_id{storage};
  return made;
}

TEST_CASE("the bytes a tensor uses follow from shape, strides and offset", "[offload][packing]") {
  CHECK(used_range(tensor(1, dtype::f32, {2, 3}, {3, 1})) == bytes_range{0, 24});
  CHECK(used_range(tensor(1, dtype::f32, {3, 2}, {1, 3}, 5)) == bytes_range{20, 44});
  CHECK(used_range(tensor(1, dtype::bf16, {2, 2}, {10, 1})) == bytes_range{0, 24});
  CHECK(used_range(tensor(1, dtype::i64, {4}, {-1}, 3)) == bytes_range{0, 32});
}

TEST_CASE("a copy moves what is converted as it is kept", "[offload][packing]") {
  auto widened = tensor(1, dtype::f32, {1000}, {1});
  widened.convert = conversion::bf16_to_f32;
  const std::vector tensors{widened, tensor(2, dtype::f32, {1000}, {1})};

  const auto layout = pack(tensors);

  CHECK(layout.bytes == align_up(4000) + align_up(4000));
  CHECK(layout.source_bytes == align_up(2000) + align_up(4000));
  CHECK(layout.converts);
  CHECK_FALSE(pack(std::span(tensors).subspan(1)).converts);
}

TEST_CASE("a 0-dimensional tensor uses one element", "[offload][packing]") {
  CHECK(used_range(tensor(1, dtype::f64, {}, {}, 2)) == bytes_range{16, 24});
}

TEST_CASE("an expanded dimension uses its element once", "[offload][packing]") {
  CHECK(used_range(tensor(1, dtype::f32, {1000, 3}, {0, 1})) == bytes_range{0, 12});
}

TEST_CASE("a tensor without elements or memory uses nothing and has no place",
          "[offload][packing]") {
  auto meta = tensor(0, dtype::f32, {4}, {1});
  meta.meta = true;
  auto empty_meta = tensor(1, dtype::f32, {0, 3}, {3, 1});
  empty_meta.meta = true;
  const std::vector tensors{empty_meta, meta, tensor(0, dtype::f32, {4}, {1})};

  const auto layout = pack(tensors);

  CHECK(layout.bytes == 0);
  CHECK(layout.meta_tensors == 1);
  REQUIRE(layout.tensors.size() == 3);
  for (const auto& packed : layout.tensors)
    CHECK(packed.storage == packed_tensor::no_storage);
}

TEST_CASE("every storage begins at a multiple of 256 bytes, in order of first appearance",
          "[offload][packing]") {
  const std::vector tensors{tensor(9, dtype::bf16, {3}, {1}),
                            tensor(2, dtype::f8_e4m3, {16, 16}, {16, 1}),
                            tensor(5, dtype::f32, {65}, {1})};

  const auto layout = pack(tensors);

  CHECK(layout.storages == std::vector<packed_storage>{{object_id{9}, 0, 6, 0},
                                                       {object_id{2}, 0, 256, 256},
                                                       {object_id{5}, 0, 260, 512}});
  CHECK(layout.bytes == 1024);
}

TEST_CASE("a view into the middle of a storage packs only what it uses, aligned",
          "[offload][packing]") {
  const std::vector tensors{tensor(1, dtype::f32, {10}, {1}, 1000)};

  const auto layout = pack(tensors);

  CHECK(layout.storages == std::vector<packed_storage>{{object_id{1}, 4000, 40, 0}});
}

TEST_CASE("views that overlap, directly or through others, share one range", "[offload][packing]") {
  const std::vector tensors{tensor(1, dtype::f32, {10}, {1}, 20), tensor(1, dtype::f32, {4}, {1}),
                            tensor(1, dtype::f32, {10}, {1}, 36),
                            tensor(1, dtype::f32, {10}, {1}, 28)};

  const auto layout = pack(tensors);

  CHECK(layout.storages ==
        std::vector<packed_storage>{{object_id{1}, 80, 104, 0}, {object_id{1}, 0, 16, 256}});
  CHECK(layout.tensors[0].storage == 0);
  CHECK(layout.tensors[1].storage == 1);
  CHECK(layout.tensors[2].storage == 0);
  CHECK(layout.tensors[3].storage == 0);
}

TEST_CASE("neighbours that only touch stay apart", "[offload][packing]") {
  const std::vector tensors{tensor(1, dtype::f32, {4}, {1}), tensor(1, dtype::f32, {4}, {1}, 4)};

  CHECK(pack(tensors).storages.size() == 2);
}

TEST_CASE("views of several element types keep every one of them aligned", "[offload][packing]") {
  const std::vector tensors{tensor(1, dtype::bf16, {9}, {1}, 1),
                            tensor(1, dtype::f64, {1}, {1}, 1)};

  const auto layout = pack(tensors);

  CHECK(layout.storages == std::vector<packed_storage>{{object_id{1}, 0, 20, 0}});
}

TEST_CASE("a tensor object under two names is packed once", "[offload][packing]") {
  const auto weight = tensor(1, dtype::f32, {4}, {1});
  const std::vector tensors{weight, tensor(2, dtype::f32, {4}, {1}), weight};

  const auto layout = pack(tensors);

  REQUIRE(layout.tensors.size() == 2);
  CHECK(layout.tensors[0].identity == weight.identity);
  CHECK(layout.storages.size() == 2);
}

TEST_CASE("packed ranges hold every tensor, never overlap, and are no larger than needed",
          "[offload][packing]") {
  const auto seed = GENERATE(range(0u, 50u));
  INFO("seed " << seed);
  std::mt19937 random(seed);
  std::vector<tensor_info> tensors;
  for (unsigned i = 0; i < 30; ++i)
    tensors.push_back(tensor(1 + static_cast<unsigned>(random() % 3), dtype::bf16,
                             {1 + static_cast<std::int64_t>(random() % 9)},
                             {static_cast<std::int64_t>(random() % 3)},
                             static_cast<std::int64_t>(random() % 300)));

  const auto layout = pack(tensors);

  std::size_t end = 0;
  for (const auto& storage : layout.storages) {
    CHECK(storage.offset == align_up(end));
    end = storage.offset + storage.bytes;
  }
  CHECK(layout.bytes == align_up(end));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto [begin, past] = used_range(tensors[i]);
    const auto& place = layout.storages.at(layout.tensors[i].storage);
    CHECK(place.storage == tensors[i].storage);
    CHECK(place.begin <= begin);
    CHECK(past <= place.begin + place.bytes);
  }
  for (const auto& place : layout.storages)
    for (auto byte = place.begin; byte < place.begin + place.bytes; byte += 2)
      CHECK(std::ranges::any_of(tensors, [&](const tensor_info& t) {
        const auto [begin, past] = used_range(t);
        return t.storage == place.storage && begin <= byte && byte < past;
      }));
}

} // namespace
} // namespace ferry
