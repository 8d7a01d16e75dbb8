// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "collective_words.hpp"

namespace ferry {
namespace {

std::string in_words(const described_collective& seen) {
  auto text = "'" + std::string(seen.what) + "'";
  if (seen.block != operation_tag::no_block)
    text += " of block " + std::to_string(seen.block);
  return text + " with shards of " + std::to_string(seen.shard_bytes) + " bytes on rank " +
         std::to_string(seen.rank);
}

} // namespace

std::string disagreement(std::uint64_t number, const described_collective& one,
                         const described_collective& other) {
  return "collective " + std::to_string(number) + " is " + in_words(one) + " and " +
         in_words(other) + "; all ranks must issue the same collectives in the same order";
}

std::string left_before(int rank, std::uint64_t number) {
  return "rank " + std::to_string(rank) + " left before collective " + std::to_string(number);
}

std::string ended(int rank) {
  return "the process of rank " + std::to_string(rank) + " has ended";
}

std::string ended_in(int rank, std::uint64_t number) {
  return ended(rank) + " before the end of collective " + std::to_string(number);
}

std::string not_arrived(std::string_view ranks, std::uint64_t number) {
  return std::string(ranks) + " did not arrive at collective " + std::to_string(number) +
         " in time";
}

} // namespace ferry
