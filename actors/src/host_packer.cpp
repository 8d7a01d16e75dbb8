// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "host_packer.hpp"

#include "guarded.hpp"

#include <utility>

namespace ferry {

host_packer::host_packer(caf::actor_config& config, std::shared_ptr<device> owner)
    : device_worker(config, std::move(owner), nullptr) {}

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
  stop_work();
}

void host_packer::start() {
  go_to_work();
}

void host_packer::drain(const drain_child& message) {
  refuse(message.cause);
}

answered host_packer::open(const open_packing& message) {
  const auto held = serve(message.through, &streaming::packing);
  const host_thread::scope scope{me(), message.stamp};
  return {owner().stamp()};
}

answered host_packer::pack(const pack_piece& message) {
  const auto held = keep();
  check_ready();
  const host_thread::scope scope{me(), message.stamp};
  const auto& block = through()->at(message.block);
  auto& buffers = *through()->staging();
  buffers.pack(message.turn, block.from, buffers.piece(block.bytes, message.piece));
  auto known = owner().stamp();
  leave(known);
  return {std::move(known)};
}

answered host_packer::drain(const drain_packing& message) {
  const auto held = keep();
  check_open();
  const host_thread::scope scope{me(), message.stamp};
  return {owner().stamp()};
}

answered host_packer::close(const close_packing& message) {
  return let_go(message.stamp);
}

} // namespace ferry
