// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "host_packer.hpp"

#include "guarded.hpp"

#include <utility>

namespace ferry {

host_packer::host_packer(caf::actor_config& config, std::shared_ptr<device> owner)
    : host_packer_actor::base(config), owner_(std::move(owner)) {}

host_packer::behavior_type host_packer::make_behavior() {
  return {
      [this](const pack_piece& m) { return guarded(this, m, [&] { return pack(m); }); },
      [this](const open_packing& m) { return guarded(this, m, [&] { return open(m); }); },
      [this](const drain_packing& m) { return guarded(this, m, [&] { return drain(m); }); },
      [this](const close_packing& m) { return guarded(this, m, [&] { return close(m); }); },
      [this](const start_child& m) { return guarded(this, m, [&] { start(); }); },
      [this](const drain_child& m) { return guarded(this, m, [&] { drain(m); }); },
      [this](const release_child& m) { return guarded(this, m, [&] { return release(); }); },
  };
}

void host_packer::on_exit() {
  me_.reset();
  through_ = nullptr;
}

void host_packer::start() {
  me_.emplace(*owner_, name());
}

void host_packer::drain(const drain_child& message) {
  if (!refusal_)
    refusal_ = message.cause;
}

answered host_packer::release() {
  answered last;
  if (me_) {
    const host_thread::scope scope{*me_};
    through_ = nullptr;
    last.stamp = owner_->stamp();
  }
  me_.reset();
  quit();
  return last;
}

answered host_packer::open(const open_packing& message) {
  if (refusal_)
    throw ferry_error{*refusal_};
  if (through_ != nullptr)
    throw ferry_error{{errc::busy, "the host packer serves a backend already"}};
  FERRY_ASSERT(me_.has_value());
  const host_thread::scope scope{*me_, message.stamp};
  permit_ = message.through->packing();
  const auto held = permit_->use();
  if (!held)
    throw ferry_error{{errc::not_enabled, "the backend was taken back before it was opened"}};
  through_ = message.through;
  return {owner_->stamp()};
}

work_permit::use_lock host_packer::keep() {
  auto held = permit_ == nullptr ? work_permit::use_lock{} : permit_->use();
  if (!held)
    through_ = nullptr;
  return held;
}

void host_packer::check_open() const {
  if (through_ == nullptr)
    throw ferry_error{{errc::not_enabled, "the host packer serves no backend"}};
}

answered host_packer::pack(const pack_piece& message) {
  const auto held = keep();
  if (refusal_)
    throw ferry_error{*refusal_};
  check_open();
  const host_thread::scope scope{*me_, message.stamp};
  const auto& block = through_->at(message.block);
  auto& buffers = *through_->staging();
  buffers.pack(message.turn, block.from, buffers.piece(block.bytes, message.piece));
  auto known = owner_->stamp();
  permit_->leave(known);
  return {std::move(known)};
}

answered host_packer::drain(const drain_packing& message) {
  const auto held = keep();
  check_open();
  const host_thread::scope scope{*me_, message.stamp};
  return {owner_->stamp()};
}

answered host_packer::close(const close_packing& message) {
  if (!me_)
    return {};
  const host_thread::scope scope{*me_, message.stamp};
  through_ = nullptr;
  return {owner_->stamp()};
}

} // namespace ferry
