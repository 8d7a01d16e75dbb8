// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "sim/race_report.hpp"

#include <algorithm>
#include <string>

namespace ferry {
namespace sim {
namespace {

std::string quoted(const std::string& name) {
  return "'" + name + "'";
}

race_access facts_of(const access_record& access) {
  return {.kind = access.kind,
          .tag = access.tag,
          .where = access.where->name,
          .issued_by = access.issued_by->name,
          .on_stream = access.where->is_stream,
          .writes = access.writes,
          .number = access.number,
          .address = access.begin,
          .bytes = access.end - access.begin};
}

// On a stream the clock steps with the operations, from wherever its component's last user left it.
std::uint64_t known_operations(const access_record& first, const vector_clock& known) {
  if (!first.where->is_stream)
    return 0;
  auto before_stream = first.when.count - first.number;
  return std::max(known.at(first.when.who), before_stream) - before_stream;
}

std::string missing_edge(const race_access& first, const race_access& second) {
  auto number = std::to_string(first.number);
  if (first.on_stream && second.on_stream)
    return quoted(second.where) + " must wait for an event recorded on " + quoted(first.where) +
           " after operation " + number;
  if (first.on_stream)
    return "host thread " + quoted(second.where) + " must synchronize with " + quoted(first.where) +
           " after operation " + number + ", or be told by one that has";
  return "host thread " + quoted(second.issued_by) + " must be told by " + quoted(first.where) +
         ", by a message sent after its access " + number;
}

} // namespace

race make_race(const conflict& found, const access_record& second, const vector_clock& known,
               const block_table& blocks, std::uint64_t seed) {
  auto begin = std::max(found.begin, second.begin);
  auto end = std::min(found.end, second.end);
  race made{.first = facts_of(*found.earlier),
            .second = facts_of(second),
            .address = begin,
            .bytes = end - begin,
            .known = known_operations(*found.earlier, known),
            .place = blocks.describe(begin, end),
            .missing_edge = {},
            .seed = seed};
  made.missing_edge = missing_edge(made.first, made.second);
  return made;
}

} // namespace sim

namespace {

std::string describe(const race_access& access) {
  auto text = access.kind;
  if (*access.tag.what != '\0')
    text += " '" + std::string(access.tag.what) + "'";
  if (access.tag.block != operation_tag::no_block)
    text += " of block " + std::to_string(access.tag.block);
  if (access.tag.ticket != 0)
    text += " for ticket " + std::to_string(access.tag.ticket);
  text += access.writes ? ", writing " : ", reading ";
  text += std::to_string(access.bytes) + " bytes, ";
  if (access.on_stream)
    return text + "operation " + std::to_string(access.number) + " on stream '" + access.where +
           "', issued by '" + access.issued_by + "'";
  return text + "access " + std::to_string(access.number) + " of host thread '" + access.where +
         "'";
}

} // namespace

std::string describe(const race& r) {
  auto known = r.first.on_stream
                   ? "\n  known of '" + r.first.where + "': " +
                         (r.known == 0 ? "nothing" : "operations up to " + std::to_string(r.known))
                   : std::string();
  return "race on " + r.place + ":\n  first:  " + describe(r.first) +
         "\n  second: " + describe(r.second) + "\n  missing: " + r.missing_edge + known +
         "\n  seed " + std::to_string(r.seed);
}

} // namespace ferry
