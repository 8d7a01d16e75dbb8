// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/actors/trace_log.hpp>
#include <ferry/messages/trace_recorder.hpp>

#include <memory>

namespace ferry {

/// See `trace_recorder_actor`.
class trace_recorder final : public trace_recorder_actor::base {
public:
  trace_recorder(caf::actor_config& config, std::shared_ptr<trace_log> log);

  behavior_type make_behavior() override;
  const char* name() const override { return "trace_recorder"; }
  void on_exit() override { log_ = nullptr; }

private:
  void flush_again();
  answered release();

  std::shared_ptr<trace_log> log_;
  bool drained_ = false;
};

} // namespace ferry
