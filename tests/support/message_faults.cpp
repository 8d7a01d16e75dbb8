// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/message_faults.hpp"

#include <caf/make_actor.hpp>
#include <caf/uniform_type_info_map.hpp>

namespace ferry::test {
namespace {

/// More than any deadline of an actor in these tests.
constexpr std::chrono::seconds too_late{8};

bool is_of_the_system(const caf::mailbox_element& what) {
  const auto& content = what.content();
  return content.match_elements<caf::exit_msg>() || content.match_elements<caf::down_msg>();
}

const char* name_of(const caf::strong_actor_ptr& who) {
  return dynamic_cast<caf::monitorable_actor&>(*who->get()).name();
}

caf::error refusal() {
  return to_error({errc::device_failure, "the message was refused on its way"});
}

} // namespace

const char* describe(message_fault kind) {
  switch (kind) {
    case message_fault::lost:
      return "lost";
    case message_fault::slow:
      return "slow";
    case message_fault::late:
      return "late";
    case message_fault::killed:
      return "killed";
    case message_fault::refused:
      return "refused";
  }
  return "";
}

/// What others take for the actor behind it. Ends with it.
class message_faults::way final : public caf::monitorable_actor {
public:
  way(caf::actor_config config, message_faults* faults, caf::strong_actor_ptr target,
      direction where)
      : caf::monitorable_actor(config), faults_(faults), target_(std::move(target)), where_(where) {
  }

  void enqueue(caf::mailbox_element_ptr what, caf::execution_unit* host) override {
    if (is_of_the_system(*what))
      target_->enqueue(std::move(what), host);
    else
      faults_->travel(target_, where_, std::move(what), host);
  }

private:
  message_faults* faults_;
  caf::strong_actor_ptr target_;
  direction where_;
};

message_faults::~message_faults() {
  end();
}

caf::strong_actor_ptr message_faults::wire_to(const caf::strong_actor_ptr& target) {
  targets_.push_back(target);
  actors_.insert(target->id());
  auto& system = world_.system();
  auto made = caf::make_actor<way, caf::strong_actor_ptr>(system.next_actor_id(), system.node(),
                                                          &system, caf::actor_config{}, this,
                                                          target, direction::there);
  target->get()->attach_functor([made](const caf::error& reason) {
    dynamic_cast<caf::monitorable_actor&>(*made->get()).cleanup(caf::error{reason}, nullptr);
  });
  return made;
}

caf::strong_actor_ptr message_faults::way_back_to(const caf::strong_actor_ptr& asker) {
  auto& made = ways_back_[asker->id()];
  if (made == nullptr) {
    auto& system = world_.system();
    made = caf::make_actor<way, caf::strong_actor_ptr>(system.next_actor_id(), system.node(),
                                                       &system, caf::actor_config{}, this, asker,
                                                       direction::back);
    if (actors_.contains(asker->id()))
      asker->get()->attach_functor([made](const caf::error& reason) {
        dynamic_cast<caf::monitorable_actor&>(*made->get()).cleanup(caf::error{reason}, nullptr);
      });
  }
  return made;
}

void message_faults::travel(const caf::strong_actor_ptr& target, direction where,
                            caf::mailbox_element_ptr what, caf::execution_unit* host) {
  const auto from_no_actor = !dispatching_ && what->sender == nullptr;
  if (held_as_ && target == held_for_ && where == held_direction_)
    held_.push_back({target, std::move(what)});
  else if (strikes(target, where, *what))
    strike(target, where, std::move(what));
  else {
    if (what->sender != nullptr)
      what->sender = way_back_to(what->sender);
    target->enqueue(std::move(what), host);
  }
  if (from_no_actor)
    dispatch();
}

bool message_faults::strikes(const caf::strong_actor_ptr& target, direction where,
                             const caf::mailbox_element& what) {
  if (!plan_)
    return false;
  const auto can_be_refused = where == direction::back || what.mid.is_request();
  if (plan_->kind == message_fault::refused && !can_be_refused)
    return false;
  if (plan_->kind == message_fault::killed &&
      (!actors_.contains(target->id()) || name_of(target) == std::string{"supervisor"}))
    return false;
  return plan_->left-- == 0;
}

void message_faults::strike(const caf::strong_actor_ptr& target, direction where,
                            caf::mailbox_element_ptr what) {
  const auto kind = plan_->kind;
  plan_.reset();
  const auto& asker = where == direction::back ? target : what->sender;
  struck_asker_ = asker != nullptr && !actors_.contains(asker->id());
  const auto& content = what->content();
  struck_ = (content.empty() ? std::string{"an answer"}
                             : world_.system().types().portable_name(content.type(0))) +
            (where == direction::there ? " to " : " back to ") + name_of(target);
  switch (kind) {
    case message_fault::lost:
      return;
    case message_fault::killed:
      caf::anon_send_exit(target, caf::exit_reason::kill);
      if (what->sender != nullptr)
        what->sender = way_back_to(what->sender);
      target->enqueue(std::move(what), nullptr);
      return;
    case message_fault::refused:
      if (where == direction::back)
        target->enqueue(nullptr, what->mid, caf::make_message(refusal()), nullptr);
      else
        asker->enqueue(nullptr, what->mid.response_id(), caf::make_message(refusal()), nullptr);
      return;
    case message_fault::slow:
    case message_fault::late:
      held_as_ = kind;
      held_for_ = target;
      held_direction_ = where;
      passed_ = {};
      held_.push_back({target, std::move(what)});
      return;
  }
}

bool message_faults::let_through() {
  if (!held_as_ || (held_as_ == message_fault::late && passed_ < too_late))
    return false;
  held_as_.reset();
  held_for_ = nullptr;
  for (auto& each : std::exchange(held_, {}))
    travel(each.target, held_direction_, std::move(each.what), nullptr);
  return true;
}

void message_faults::dispatch() {
  if (std::exchange(dispatching_, true))
    return;
  do
    world_.dispatch_messages();
  while (let_through());
  dispatching_ = false;
}

void message_faults::pass(std::chrono::nanoseconds span) {
  world_.advance_time(span);
  passed_ += span;
  dispatch();
}

void message_faults::end() {
  held_.clear();
  held_as_.reset();
  held_for_ = nullptr;
  plan_.reset();
  for (const auto& each : std::exchange(targets_, {}))
    caf::anon_send_exit(each, caf::exit_reason::kill);
  dispatch();
  ways_back_.clear();
}

} // namespace ferry::test
