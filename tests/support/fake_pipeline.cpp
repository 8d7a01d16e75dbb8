// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/fake_pipeline.hpp"

#include <ferry/platform/conversion.hpp>
#include <ferry/platform/error.hpp>

#include <algorithm>
#include <cstring>
#include <set>
#include <stdexcept>
#include <utility>

namespace ferry::test {
namespace {

std::size_t elements_of(const std::vector<std::int64_t>& shape) {
  std::size_t count = 1;
  for (const auto extent : shape) {
    count *= static_cast<std::size_t>(extent);
  }
  return count;
}

std::vector<std::int64_t> contiguous(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (auto i = shape.size(); i > 1; --i) {
    strides[i - 2] = strides[i - 1] * std::max<std::int64_t>(shape[i - 1], 1);
  }
  return strides;
}

object_id id_of(const void* object) {
  return object_id{reinterpret_cast<std::uintptr_t>(object)};
}

template <class Visit>
void walk(const fake_node& from, std::set<const fake_module*>& seen, const Visit& visit) {
  if (!seen.insert(from.get()).second) {
    return;
  }
  visit(*from);
  for (const auto& [name, below] : from->own_children()) {
    walk(below, seen, visit);
  }
}

class fake_unit final : public weight_unit {
public:
  fake_unit(std::string path, packed_layout layout,
            std::vector<std::shared_ptr<fake_storage>> parts,
            std::shared_ptr<std::vector<std::string>> log,
            std::shared_ptr<std::optional<std::size_t>> failing_restore)
      : path_(std::move(path)), layout_(std::move(layout)), parts_(std::move(parts)),
        log_(std::move(log)), failing_restore_(std::move(failing_restore)) {}

  const packed_layout& layout() const override { return layout_; }

  std::vector<const_bytes> originals() const override {
    std::vector<const_bytes> all;
    for (std::size_t i = 0; i != parts_.size(); ++i) {
      const auto& place = layout_.storages[i];
      const auto how = parts_[i]->convert;
      all.push_back(parts_[i]->original().subspan(unconverted_bytes(how, place.begin),
                                                  unconverted_bytes(how, place.bytes)));
    }
    return all;
  }

  memory_kind originals_kind(std::size_t storage) const override {
    return parts_[storage]->mapped.empty() ? memory_kind::pageable : memory_kind::mapped;
  }

  conversion originals_conversion(std::size_t storage) const override {
    return parts_[storage]->convert;
  }

  mutable_bytes writable_original(std::size_t storage) override {
    const auto& place = layout_.storages[storage];
    auto& part = *parts_[storage];
    if (!part.mapped.empty()) {
      log_->push_back("copy " + path_);
      part.bytes.assign(part.mapped.begin(), part.mapped.end());
      if (part.current == part.mapped.data()) {
        part.current = part.bytes.data();
      }
      part.mapped = {};
    }
    return mutable_bytes{part.bytes}.subspan(place.begin, place.bytes);
  }

  void park() override {
    log_->push_back("park " + path_);
    for (const auto& part : parts_) {
      part->current = nullptr;
    }
  }

  void bind(std::byte* base) noexcept override {
    for (std::size_t i = 0; i != parts_.size(); ++i) {
      parts_[i]->current = base + layout_.storages[i].offset - layout_.storages[i].begin;
    }
  }

  void bind_originals() noexcept override {
    for (const auto& part : parts_) {
      part->current = const_cast<std::byte*>(part->original().data());
    }
  }

  void drop_originals() noexcept override {
    for (const auto& part : parts_) {
      part->bytes.assign(part->original().size(), std::byte{0xff});
      part->mapped = {};
    }
    dropped_ = true;
  }

  void restore(const_bytes master) override {
    if (failing_restore_->has_value() && (**failing_restore_)-- == 0) {
      failing_restore_->reset();
      throw ferry_error{{.code = errc::out_of_host_memory, .detail = "restore was told to fail"}};
    }
    log_->push_back("restore " + path_);
    for (std::size_t i = 0; i != parts_.size(); ++i) {
      const auto& place = layout_.storages[i];
      if (dropped_) {
        std::memcpy(parts_[i]->bytes.data() + place.begin, master.data() + place.offset,
                    place.bytes);
      }
      parts_[i]->current = parts_[i]->convert == conversion::none
                               ? const_cast<std::byte*>(parts_[i]->original().data())
                               : nullptr;
    }
    dropped_ = false;
  }

private:
  std::string path_;
  packed_layout layout_;
  std::vector<std::shared_ptr<fake_storage>> parts_;
  std::shared_ptr<std::vector<std::string>> log_;
  std::shared_ptr<std::optional<std::size_t>> failing_restore_;
  bool dropped_ = false;
};

} // namespace

const_bytes fake_tensor::bytes() const {
  if (storage == nullptr || storage->current == nullptr) {
    throw std::runtime_error("a parked tensor was read");
  }
  return {storage->current, converted_bytes(storage->convert, storage->original().size())};
}

fake_tensor_ptr tensor(std::vector<std::int64_t> shape, dtype type, unsigned char fill) {
  auto storage = std::make_shared<fake_storage>();
  storage->bytes.assign(elements_of(shape) * element_size(type), std::byte{fill});
  storage->declared_bytes = storage->bytes.size();
  storage->current = storage->bytes.data();
  auto made = std::make_shared<fake_tensor>();
  made->type = type;
  made->strides = contiguous(shape);
  made->shape = std::move(shape);
  made->storage = std::move(storage);
  return made;
}

fake_tensor_ptr mapped_tensor(const_bytes pages, std::vector<std::int64_t> shape, dtype type) {
  auto made = tensor(std::move(shape), type);
  auto& storage = *made->storage;
  storage.mapped = pages.first(storage.bytes.size());
  storage.bytes.clear();
  storage.current = const_cast<std::byte*>(storage.mapped.data());
  return made;
}

fake_tensor_ptr bf16_kept_tensor(std::vector<std::int64_t> shape, unsigned char fill) {
  auto made = tensor(std::move(shape), dtype::f32);
  auto& storage = *made->storage;
  storage.convert = conversion::bf16_to_f32;
  storage.file.assign(unconverted_bytes(storage.convert, storage.bytes.size()), std::byte{fill});
  storage.bytes.clear();
  storage.mapped = storage.file;
  storage.current = nullptr;
  return made;
}

fake_tensor_ptr meta_tensor(std::vector<std::int64_t> shape, dtype type) {
  auto made = std::make_shared<fake_tensor>();
  made->type = type;
  made->strides = contiguous(shape);
  made->shape = std::move(shape);
  made->meta = true;
  return made;
}

fake_tensor_ptr view(const fake_tensor_ptr& base, std::vector<std::int64_t> shape,
                     std::vector<std::int64_t> strides, std::int64_t offset) {
  auto made = std::make_shared<fake_tensor>(*base);
  made->shape = std::move(shape);
  made->strides = std::move(strides);
  made->storage_offset = offset;
  return made;
}

object_id fake_module::identity() const {
  return id_of(this);
}

std::vector<module_node::child> fake_module::children() const {
  return {children_.begin(), children_.end()};
}

std::vector<tensor_info> fake_module::tensors() const {
  std::vector<tensor_info> all;
  for (const auto& [name, role, persistent] : entries_) {
    const auto& value = tensors_by_name_.at(name);
    all.push_back({.name = name,
                   .role = role,
                   .persistent = persistent,
                   .type = value->type,
                   .shape = value->shape,
                   .strides = value->strides,
                   .storage_offset = value->storage_offset,
                   .identity = id_of(value.get()),
                   .owner = identity(),
                   .storage = id_of(value->storage.get()),
                   .storage_bytes = value->storage ? value->storage->declared_bytes : 0,
                   .meta = value->meta,
                   .convert = value->storage ? value->storage->convert : conversion::none});
  }
  return all;
}

bool fake_module::holds(tensor_role role) const {
  return std::ranges::any_of(entries_, [role](const auto& each) { return each.role == role; });
}

attribute_kind fake_module::attribute(std::string_view name) const {
  if (std::any_of(children_.begin(), children_.end(),
                  [name](const auto& each) { return each.first == name; })) {
    return attribute_kind::module;
  }
  const auto found = attributes_.find(name);
  return found == attributes_.end() ? attribute_kind::missing : found->second;
}

fake_node fake_module::at(std::string_view path) {
  auto here = shared_from_this();
  while (!path.empty()) {
    const auto dot = path.find('.');
    const auto name = path.substr(0, dot);
    const auto found = std::find_if(here->children_.begin(), here->children_.end(),
                                    [name](const auto& each) { return each.first == name; });
    if (found == here->children_.end()) {
      throw std::out_of_range("no module " + std::string{name});
    }
    here = found->second;
    path = dot == std::string_view::npos ? std::string_view{} : path.substr(dot + 1);
  }
  return here;
}

fake_node fake_module::parameter(std::string name, std::vector<std::int64_t> shape) {
  return parameter(std::move(name), tensor(std::move(shape)));
}

fake_node fake_module::parameter(std::string name, fake_tensor_ptr value) {
  return add(std::move(name), std::move(value), tensor_role::parameter, true);
}

fake_node fake_module::buffer(std::string name, fake_tensor_ptr value, bool persistent) {
  return add(std::move(name), std::move(value), tensor_role::buffer, persistent);
}

fake_node fake_module::unregistered(std::string name, fake_tensor_ptr value) {
  return add(std::move(name), std::move(value), tensor_role::unregistered, false);
}

fake_node fake_module::child(std::string name, fake_node value) {
  children_.emplace_back(std::move(name), std::move(value));
  return shared_from_this();
}

fake_node fake_module::null(std::string name) {
  attributes_.emplace(std::move(name), attribute_kind::null);
  return shared_from_this();
}

fake_node fake_module::plain(std::string name) {
  attributes_.emplace(std::move(name), attribute_kind::other);
  return shared_from_this();
}

fake_node fake_module::declares_blocks(std::vector<std::string> attributes, bool deprecated) {
  blocks_ =
      block_declaration{.attributes = std::move(attributes), .deprecated_spelling = deprecated};
  return shared_from_this();
}

fake_node fake_module::stages(bool load_to_device, bool offload_to_cpu) {
  staging_ = {.load_to_device = load_to_device, .offload_to_cpu = offload_to_cpu};
  return shared_from_this();
}

fake_node fake_module::refuses_to_stage(bool value) {
  refuses_to_stage_ = value;
  return shared_from_this();
}

void fake_module::stage(const char* call) const {
  mutations_.emplace_back(call);
  if (refuses_to_stage_)
    throw std::runtime_error(type_name_ + " was told to refuse " + call);
}

fake_node fake_module::loaded(bool value) {
  loaded_ = value;
  return shared_from_this();
}

fake_node fake_module::as_list() {
  list_ = true;
  return shared_from_this();
}

fake_node fake_module::add(std::string name, fake_tensor_ptr value, tensor_role role,
                           bool persistent) {
  entries_.push_back({name, role, persistent});
  tensors_by_name_.emplace(std::move(name), std::move(value));
  return shared_from_this();
}

fake_node node(std::string type_name) {
  return std::make_shared<fake_module>(std::move(type_name));
}

fake_node block(std::int64_t elements, unsigned char fill) {
  return node("test.block")->parameter("weight", tensor({elements}, dtype::f32, fill));
}

fake_node list(std::vector<fake_node> items) {
  auto made = node("test.list")->as_list();
  for (std::size_t i = 0; i != items.size(); ++i) {
    made->child(std::to_string(i), std::move(items[i]));
  }
  return made;
}

fake_node blocks(std::size_t count, std::int64_t elements, unsigned char first_fill) {
  std::vector<fake_node> items;
  for (std::size_t i = 0; i != count; ++i) {
    items.push_back(block(elements, static_cast<unsigned char>(first_fill + i)));
  }
  return list(std::move(items));
}

void fake_model_offload::enable(device&, const model_offload_request& asked) {
  calls.emplace_back("enable");
  request = asked;
  if (fail_enable) {
    throw ferry_error{{.code = errc::device_failure, .detail = "enable was told to fail"}};
  }
}

void fake_model_offload::disable() {
  calls.emplace_back("disable");
  if (fail_disable) {
    throw ferry_error{{.code = errc::device_failure, .detail = "disable was told to fail"}};
  }
}

fake_pipeline::fake_pipeline(fake_node root, std::string type_name)
    : root_(std::move(root)), type_name_(std::move(type_name)),
      log_(std::make_shared<std::vector<std::string>>()),
      failing_restore_(std::make_shared<std::optional<std::size_t>>()) {}

std::optional<component_roles> fake_pipeline::declared_components() const {
  return roles_;
}

std::optional<offload_plan> fake_pipeline::declared_plan() const {
  ++plan_reads_;
  return plan_;
}

std::unique_ptr<weight_unit> fake_pipeline::make_unit(std::string path, packed_layout layout) {
  count_down("make_unit");
  std::map<object_id, std::shared_ptr<fake_storage>> known;
  std::set<const fake_module*> seen;
  walk(root_, seen, [&known](const fake_module& each) {
    for (const auto& [name, value] : each.own_tensors()) {
      known.emplace(id_of(value->storage.get()), value->storage);
    }
  });
  std::vector<std::shared_ptr<fake_storage>> parts;
  for (const auto& place : layout.storages) {
    parts.push_back(known.at(place.storage));
  }
  return std::make_unique<fake_unit>(std::move(path), std::move(layout), std::move(parts), log_,
                                     failing_restore_);
}

void fake_pipeline::install_block_hook(object_id block, block_id id, weight_unit& unit,
                                       std::shared_ptr<block_gate> gate) {
  count_down("install_block_hook");
  const auto [place, added] = hooks_.try_emplace(block, hook{id, &unit, std::move(gate)});
  if (!added) {
    throw ferry_error{{.code = errc::already_enabled, .detail = "the block already has a hook"}};
  }
  log_->push_back("hook");
}

void fake_pipeline::remove_block_hook(object_id block) {
  if (hooks_.erase(block) != 0) {
    log_->push_back("unhook");
  }
}

void fake_pipeline::install_group_hook(object_id module, group_id group,
                                       std::shared_ptr<group_gate> gate) {
  count_down("install_group_hook");
  const auto [place, added] = group_hooks_.try_emplace(module, group_hook{group, std::move(gate)});
  if (!added) {
    throw ferry_error{{.code = errc::already_enabled, .detail = "the module already has a hook"}};
  }
  log_->push_back("hook group");
}

void fake_pipeline::remove_group_hook(object_id module) {
  if (group_hooks_.erase(module) != 0) {
    log_->push_back("unhook group");
  }
}

std::vector<std::string> fake_pipeline::mutations() const {
  auto all = *log_;
  std::set<const fake_module*> seen;
  walk(root_, seen, [&all](const fake_module& each) {
    all.insert(all.end(), each.mutations().begin(), each.mutations().end());
  });
  return all;
}

fake_pipeline& fake_pipeline::declare(component_roles roles) {
  roles_ = std::move(roles);
  return *this;
}

fake_pipeline& fake_pipeline::plan(offload_plan plan) {
  plan_ = std::move(plan);
  return *this;
}

fake_pipeline& fake_pipeline::offloads_itself(model_offload& own) {
  custom_ = &own;
  return *this;
}

fake_pipeline& fake_pipeline::lies_in_files() {
  std::set<const fake_module*> seen;
  walk(root_, seen, [](const fake_module& each) {
    for (const auto& [name, value] : each.own_tensors()) {
      auto& storage = *value->storage;
      if (storage.mapped.empty()) {
        storage.file = std::move(storage.bytes);
        storage.bytes.clear();
        storage.mapped = storage.file;
      }
    }
  });
  return *this;
}

fake_pipeline& fake_pipeline::fail_after(std::size_t n) {
  failing_ = n;
  return *this;
}

fake_pipeline& fake_pipeline::fail_restore(std::size_t n) {
  *failing_restore_ = n;
  return *this;
}

void fake_pipeline::call(std::string_view path, const std::function<void(fake_module&)>& body) {
  call_together(path, 1, body);
}

void fake_pipeline::call_together(std::string_view path, std::size_t times,
                                  const std::function<void(fake_module&)>& body) {
  const auto called = root_->at(path);
  const auto found = group_hooks_.find(called->identity());
  if (found == group_hooks_.end()) {
    call_block(*called, times, body);
    return;
  }
  const auto used = found->second;
  const auto leave = [&used](group_gate* gate) { gate->leave(used.group); };
  for (std::size_t i = 0; i != times; ++i) {
    used.gate->enter(used.group);
    const std::unique_ptr<group_gate, decltype(leave)> inside{used.gate.get(), leave};
    call_block(*called, 1, body);
  }
}

void fake_pipeline::call_block(fake_module& called, std::size_t times,
                               const std::function<void(fake_module&)>& body) {
  const auto found = hooks_.find(called.identity());
  if (found == hooks_.end()) {
    for (std::size_t i = 0; i != times; ++i)
      body(called);
    return;
  }
  const auto used = found->second;
  const auto bytes = used.gate->acquire(used.id);
  const auto leave = [&used](block_gate* gate) {
    used.unit->park();
    gate->release(used.id);
  };
  const std::unique_ptr<block_gate, decltype(leave)> inside{used.gate.get(), leave};
  if (bytes.empty())
    used.unit->bind_originals();
  else
    used.unit->bind(bytes.data());
  body(called);
  for (std::size_t i = 1; i < times; ++i) {
    used.gate->again(used.id);
    body(called);
  }
}

void fake_pipeline::count_down(const char* what) {
  if (failing_.has_value() && (*failing_)-- == 0) {
    failing_.reset();
    throw ferry_error{
        {.code = errc::device_failure, .detail = std::string{what} + " was told to fail"}};
  }
}

} // namespace ferry::test
