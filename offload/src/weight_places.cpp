// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/weight_places.hpp"

#include "subtree.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace ferry {
namespace {

std::size_t elements_of(std::span<const std::int64_t> shape) noexcept {
  std::size_t count = 1;
  for (const auto extent : shape)
    count *= static_cast<std::size_t>(extent);
  return count;
}

std::string form(dtype type, std::span<const std::int64_t> shape) {
  std::string text{to_string(type)};
  text += " [";
  for (std::size_t d = 0; d != shape.size(); ++d)
    text += (d == 0 ? "" : ", ") + std::to_string(shape[d]);
  return text + "]";
}

/// Calls `visit(bytes from the begin, bytes)` for each run of elements without gaps, in order.
template <class Visit>
void for_each_run(const weight_place& place, const Visit& visit) {
  const auto size = static_cast<std::int64_t>(element_size(place.type));
  auto run = size;
  auto outer = place.shape.size();
  while (outer != 0 && (place.shape[outer - 1] == 1 || place.strides[outer - 1] * size == run))
    run *= place.shape[--outer];
  if (run == 0 || elements_of(place.shape) == 0)
    return;
  std::vector<std::int64_t> at(outer, 0);
  auto offset = static_cast<std::int64_t>(place.first);
  for (;;) {
    visit(static_cast<std::size_t>(offset), static_cast<std::size_t>(run));
    auto d = outer;
    for (; d != 0; --d) {
      offset += place.strides[d - 1] * size;
      if (++at[d - 1] != place.shape[d - 1])
        break;
      offset -= place.strides[d - 1] * size * place.shape[d - 1];
      at[d - 1] = 0;
    }
    if (d == 0)
      return;
  }
}

/// An element that several indices share cannot be given several values.
bool is_expanded(const weight_place& place) noexcept {
  for (std::size_t d = 0; d != place.shape.size(); ++d)
    if (place.strides[d] == 0 && place.shape[d] > 1)
      return true;
  return false;
}

bool same_place(const weight_place& a, const weight_place& b) noexcept {
  return a.unit == b.unit && a.storage == b.storage && a.first == b.first && a.shape == b.shape &&
         a.strides == b.strides && a.type == b.type;
}

/// Everything that is wrong, as one failure with the code of the first.
class complaints {
public:
  void add(failure next) {
    if (!first_)
      first_ = std::move(next);
    else
      first_->detail += "; " + next.detail;
  }
  [[nodiscard]] bool any() const noexcept { return first_.has_value(); }
  [[nodiscard]] failure take() { return std::move(*first_); }

private:
  std::optional<failure> first_;
};

failure about_tensor(errc code, const std::string& name, const std::string& what) {
  return {code, "tensor '" + name + "' " + what};
}

} // namespace

std::size_t weight_place::bytes() const noexcept {
  return elements_of(shape) * element_size(type);
}

weight_places::weight_places(std::shared_ptr<const module_node> root,
                             std::span<const packed_layout* const> units)
    : root_(std::move(root)) {
  for (std::size_t unit = 0; unit != units.size(); ++unit)
    for (const auto& tensor : units[unit]->tensors) {
      const auto none = tensor.storage == packed_tensor::no_storage;
      const auto begin = none ? 0 : units[unit]->storages[tensor.storage].begin;
      seats_.try_emplace(tensor.identity, seat{unit, tensor.storage, begin});
    }
}

result<weight_place> weight_places::place(std::string name, const tensor_info& tensor) const {
  if (tensor.meta)
    return tl::unexpected(
        about_tensor(errc::unsupported, name, "has no memory yet; load the component first"));
  const auto found = seats_.find(tensor.identity);
  if (found == seats_.end())
    return tl::unexpected(about_tensor(errc::unsupported, name,
                                       "is not offloaded: it came after enable, or its component "
                                       "stages itself; write it where it is"));
  weight_place at{.name = std::move(name),
                  .type = tensor.type,
                  .shape = tensor.shape,
                  .strides = tensor.strides,
                  .unit = found->second.unit,
                  .storage = found->second.storage};
  if (at.storage != packed_tensor::no_storage)
    at.first = static_cast<std::size_t>(tensor.storage_offset) * element_size(tensor.type) -
               found->second.begin;
  return at;
}

result<weight_place> weight_places::find(const std::shared_ptr<const module_node>& component,
                                         const std::string& name) const {
  const auto dot = name.rfind('.');
  const auto holder =
      dot == std::string::npos ? component : find_node(component, name.substr(0, dot));
  const auto leaf = dot == std::string::npos ? name : name.substr(dot + 1);
  if (holder != nullptr)
    for (const auto& each : holder->tensors())
      if (each.name == leaf)
        return place(name, each);
  return tl::unexpected(about_tensor(errc::not_found, name, "does not exist"));
}

result<std::vector<weight_place>> weight_places::find(const std::string& component,
                                                      std::span<const std::string> names) const {
  const auto node = find_node(root_, component);
  if (node == nullptr)
    return tl::unexpected(
        failure{errc::not_found, "'" + component + "' is no component of the pipeline"});
  std::vector<weight_place> places;
  complaints wrong;
  const auto add = [&](result<weight_place> found) {
    if (found)
      places.push_back(std::move(*found));
    else
      wrong.add(std::move(found.error()));
  };
  for (const auto& name : names)
    add(find(node, name));
  if (names.empty()) {
    node_ids visited;
    visit_subtree("", node, visited, [&](const std::string& path, const module_node& each) {
      for (const auto& tensor : each.tensors())
        add(place(path.empty() ? tensor.name : path + "." + tensor.name, tensor));
    });
  }
  if (!wrong.any())
    return places;
  auto all = wrong.take();
  all.detail = component + ": " + all.detail;
  return tl::unexpected(std::move(all));
}

result<std::vector<weight_place>> weight_places::check(const weight_update& update) const {
  if (update.values.empty())
    return tl::unexpected(failure{errc::invalid_argument, update.component +
                                                              ": an update names no tensor; "
                                                              "expected at least one"});
  std::vector<std::string> names;
  for (const auto& each : update.values)
    names.push_back(each.name);
  auto places = find(update.component, names);
  if (!places)
    return places;
  complaints wrong;
  for (std::size_t i = 0; i != places->size(); ++i) {
    const auto& at = (*places)[i];
    const auto& value = update.values[i];
    if (value.type != at.type || value.shape != at.shape)
      wrong.add(about_tensor(errc::invalid_argument, at.name,
                             "is " + form(at.type, at.shape) + "; the update has " +
                                 form(value.type, value.shape)));
    else if (value.bytes.size() != at.bytes())
      wrong.add(about_tensor(errc::invalid_argument, at.name,
                             "has " + std::to_string(at.bytes()) + " bytes; the update has " +
                                 std::to_string(value.bytes.size())));
    else if (is_expanded(at))
      wrong.add(about_tensor(errc::unsupported, at.name,
                             "repeats elements in memory; update the tensor it is a view of"));
    for (std::size_t j = 0; j != i; ++j)
      if (same_place((*places)[j], at) && !std::ranges::equal(update.values[j].bytes, value.bytes))
        wrong.add(about_tensor(errc::invalid_argument, at.name,
                               "is the same as '" + names[j] + "' and has other contents"));
  }
  if (!wrong.any())
    return places;
  auto all = wrong.take();
  all.detail = update.component + ": " + all.detail;
  return tl::unexpected(std::move(all));
}

void gather(const weight_place& from, const_bytes storage, mutable_bytes to) {
  auto* next = to.data();
  for_each_run(from, [&](std::size_t offset, std::size_t bytes) {
    std::memcpy(next, storage.data() + offset, bytes);
    next += bytes;
  });
}

void scatter(const_bytes from, const weight_place& to, mutable_bytes storage) {
  const auto* next = from.data();
  for_each_run(to, [&](std::size_t offset, std::size_t bytes) {
    std::memcpy(storage.data() + offset, next, bytes);
    next += bytes;
  });
}

} // namespace ferry
