// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/caf.hpp>
#include <ferry/messages/values.hpp>
#include <ferry/platform/device.hpp>
#include <ferry/platform/error.hpp>
#include <ferry/platform/host_thread.hpp>
#include <ferry/platform/stream.hpp>

#include "work_permit.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace ferry {

/// The life of an actor that works on a device for one backend at a time, which may be taken away
/// from it at any moment: as a host thread of the device, maybe with a stream of its own.
///
/// A handler that touches the backend holds what `serve` or `keep` has returned.
/// @tparam Actor what CAF makes of the protocol
/// @tparam Backend what `Actor` works on
template <class Actor, class Backend>
class device_worker : public Actor {
protected:
  /// @param stream_name null: it has no stream
  device_worker(caf::actor_config& config, std::shared_ptr<device> owner, const char* stream_name)
      : Actor(config), owner_(std::move(owner)), stream_name_(stream_name) {}

  [[nodiscard]] device& owner() const noexcept { return *owner_; }
  /// Whether it has started, and not ended.
  [[nodiscard]] bool at_work() const noexcept { return me_.has_value(); }
  /// @pre `at_work()`
  [[nodiscard]] const host_thread& me() const noexcept { return *me_; }
  /// @pre `at_work()`, and it has one
  [[nodiscard]] stream& own_stream() const noexcept { return *stream_; }
  /// Returns the backend, null without one.
  [[nodiscard]] const std::shared_ptr<Backend>& through() const noexcept { return through_; }
  /// Returns why no backend is served any more, if so.
  [[nodiscard]] const std::optional<failure>& refusal() const noexcept { return refusal_; }
  [[nodiscard]] bool idle() const noexcept { return through_ == nullptr || refusal_.has_value(); }

  /// @throws ferry_error why no backend is served any more, if so, or as `check_open`
  void check_ready() const {
    if (refusal_)
      throw ferry_error{*refusal_};
    check_open();
  }

  /// @throws ferry_error `not_enabled` without a backend
  void check_open() const {
    if (through_ == nullptr)
      throw ferry_error{{errc::not_enabled, std::string(this->name()) + " serves no backend"}};
  }

  /// Goes to work, before anything else.
  void go_to_work() {
    me_.emplace(*owner_, this->name());
    if (stream_name_ != nullptr)
      stream_ = std::make_shared<stream>(*owner_, stream_name_);
  }

  using permit_of = const std::shared_ptr<work_permit>& (Backend::*)() const noexcept;

  /// Serves a backend until the permit that it gives is withdrawn.
  /// @throws ferry_error why no backend is served any more, `busy`, or `not_enabled` if it has been
  ///         withdrawn already
  [[nodiscard]] work_permit::use_lock serve(std::shared_ptr<Backend> backend, permit_of permit) {
    if (refusal_)
      throw ferry_error{*refusal_};
    if (through_ != nullptr)
      throw ferry_error{{errc::busy, std::string(this->name()) + " serves a backend already"}};
    FERRY_ASSERT(at_work());
    permit_ = (backend.get()->*permit)();
    auto held = permit_->begin(stream_);
    if (!held)
      throw ferry_error{{errc::not_enabled, "the backend was taken back before it was opened"}};
    through_ = std::move(backend);
    return held;
  }

  /// Keeps the backend while it is held. If it was taken away, lets go of it and holds nothing.
  [[nodiscard]] work_permit::use_lock keep() {
    auto held = permit_ == nullptr ? work_permit::use_lock{} : permit_->use();
    if (!held)
      through_ = nullptr;
    return held;
  }

  /// Leaves what is known for whoever takes the backend away. @pre what `keep` returned is held
  void leave(causal_stamp known) { permit_->leave(std::move(known)); }

  /// Serves no backend from now on. The first cause counts.
  void refuse(const failure& cause) {
    if (!refusal_)
      refusal_ = cause;
  }

  /// Lets go of the backend, at work or not.
  answered let_go(const causal_stamp& received) {
    if (!at_work())
      return {};
    const host_thread::scope scope{*me_, received};
    through_ = nullptr;
    return {owner_->stamp()};
  }

  /// Ends, in order. Returns what it knew at last.
  answered release() {
    answered last;
    if (at_work()) {
      const host_thread::scope scope{*me_};
      through_ = nullptr;
      last.stamp = owner_->stamp();
    }
    stop_work();
    this->quit();
    return last;
  }

  /// Lets go of everything. Also for an actor that is ended.
  void stop_work() noexcept {
    stream_ = nullptr;
    me_.reset();
    through_ = nullptr;
  }

private:
  std::shared_ptr<device> owner_;
  const char* stream_name_;
  std::optional<host_thread> me_;
  std::shared_ptr<stream> stream_;
  std::optional<failure> refusal_;
  std::shared_ptr<work_permit> permit_; ///< For `through_`.
  std::shared_ptr<Backend> through_;
};

} // namespace ferry
