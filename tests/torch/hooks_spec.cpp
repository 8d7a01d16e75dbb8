// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/error.hpp>
#include <ferry/torch/block_list.hpp>
#include <ferry/torch/hook_states.hpp>

#include "torch/catch.hpp"

#include <ATen/ATen.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <vector>

namespace ferry {
namespace {

using torch::nn::Module;

struct echo : Module, hookable {
  explicit echo(std::string& trace_to) : trace(trace_to) {}
  at::Tensor forward(const at::Tensor& x) {
    trace += " body";
    return x;
  }
  at::Tensor decode(const at::Tensor& x, double scale) {
    trace += " decode";
    return x * scale;
  }
  std::string& trace;
};

struct tracing : hook {
  tracing(std::string& trace_to, std::string own_name)
      : trace(trace_to), name(std::move(own_name)) {}
  void initialize_hook(Module&) override { trace += " init" + name; }
  void pre_forward(const hook_call&, tensor_refs) override { trace += " pre" + name; }
  void post_forward(const hook_call&, tensor_refs) override { trace += " post" + name; }
  void abandon(const hook_call&) noexcept override { trace += " abandon" + name; }
  void hold(const Module&) override { trace += " hold" + name; }
  void let_go(const Module&) noexcept override { trace += " let_go" + name; }
  void reset() override { trace += " reset" + name; }
  std::string& trace;
  std::string name;
};

struct replacing : forward_replacement<at::Tensor> {
  replacing(std::string& trace_to, std::string own_name)
      : trace(trace_to), name(std::move(own_name)) {}
  void pre_forward(const hook_call&, tensor_refs) override { trace += " pre" + name; }
  void post_forward(const hook_call&, tensor_refs) override { trace += " post" + name; }
  at::Tensor forward(const hook_call&, tensor_refs arguments,
                     const std::function<at::Tensor()>&) override {
    trace += " replaced";
    return *arguments[0] + 1;
  }
  std::string& trace;
  std::string name;
};

struct refusing : hook {
  void initialize_hook(Module&) override { throw std::runtime_error("no"); }
};

template <class Hook, class... Args>
void add(echo& module, std::string name, Args&&... args) {
  module.hooks().add(module, std::move(name), std::make_shared<Hook>(std::forward<Args>(args)...));
}

struct world {
  std::string trace;
  std::shared_ptr<echo> module = std::make_shared<echo>(trace);
  at::Tensor one = at::ones({1});

  void add_tracing(const std::string& name) { add<tracing>(*module, name, trace, name); }
  std::string run() {
    trace.clear();
    static_cast<void>(call(*module, one));
    return trace;
  }
};

TEST_CASE("plain hooks are found by name and replace nothing", "[torch][hooks]") {
  world w;

  w.add_tracing("2");
  w.add_tracing("1");

  CHECK(w.module->hooks().names() == std::vector<std::string>{"1", "2"});
  CHECK(w.module->hooks().find("2") != nullptr);
  CHECK(w.module->hooks().find("3") == nullptr);
  CHECK_FALSE(w.module->hooks().replaces_forward());
}

TEST_CASE("a hold goes around calls that hooks see one by one", "[torch][hooks]") {
  world w;
  w.add_tracing("1");
  w.add_tracing("2");
  w.trace.clear();
  {
    const hook_hold held(w.module->hooks(), *w.module);
    static_cast<void>(call(*w.module, w.one));
    static_cast<void>(call(*w.module, w.one));
  }

  CHECK(w.trace == " hold1 hold2 pre1 pre2 body post2 post1 pre1 pre2 body post2 post1"
                   " let_go2 let_go1");
}

TEST_CASE("a hold that a hook refuses is let go by those before it", "[torch][hooks]") {
  struct refusing_hold : hook {
    void hold(const Module&) override { throw std::runtime_error("no"); }
  };
  world w;
  w.add_tracing("1");
  add<refusing_hold>(*w.module, "2");
  w.add_tracing("3");
  w.trace.clear();

  CHECK_THROWS_WITH(hook_hold(w.module->hooks(), *w.module), "no");

  CHECK(w.trace == " hold1 let_go1");
  CHECK_NOTHROW(w.module->hooks().remove("2"));
}

TEST_CASE("hooks cannot be removed while their module is held", "[torch][hooks]") {
  world w;
  w.add_tracing("1");
  {
    const hook_hold held(w.module->hooks(), *w.module);
    CHECK_THROWS_AS(w.module->hooks().remove("1"), ferry_error);
  }

  CHECK_NOTHROW(w.module->hooks().remove("1"));
}

TEST_CASE("a hook that replaces the forward comes last, whatever its name", "[torch][hooks]") {
  world w;

  add<replacing>(*w.module, "0", w.trace, "0");
  w.add_tracing("1");

  CHECK(w.module->hooks().names() == std::vector<std::string>{"1", "0"});
  CHECK(w.module->hooks().replaces_forward());
}

TEST_CASE("a second replacement of the forward is refused and nothing changes", "[torch][hooks]") {
  world w;
  add<replacing>(*w.module, "a", w.trace, "a");
  w.add_tracing("1");

  CHECK_THROWS_AS(add<replacing>(*w.module, "b", w.trace, "b"), ferry_error);

  CHECK(w.module->hooks().names() == std::vector<std::string>{"1", "a"});
  CHECK(w.run() == " pre1 prea replaced posta post1");
}

TEST_CASE("removing takes one hook and an unknown name nothing", "[torch][hooks]") {
  world w;
  w.add_tracing("1");
  w.add_tracing("2");
  add<replacing>(*w.module, "3", w.trace, "3");

  w.module->hooks().remove("1");
  w.module->hooks().remove("3");
  w.module->hooks().remove("nobody");

  CHECK_FALSE(w.module->hooks().replaces_forward());
  CHECK(w.run() == " pre2 body post2");
}

TEST_CASE("hooks run in order before the body and in reverse after it", "[torch][hooks]") {
  world w;
  w.add_tracing("1");
  w.add_tracing("2");

  CHECK(w.run() == " pre1 pre2 body post2 post1");
}

TEST_CASE("a replaced body runs inside all hooks", "[torch][hooks]") {
  world w;
  w.add_tracing("1");
  w.add_tracing("2");
  add<replacing>(*w.module, "3", w.trace, "3");

  CHECK(w.run() == " pre1 pre2 pre3 replaced post3 post2 post1");
}

TEST_CASE("a hook of the same name takes over once it is initialised", "[torch][hooks]") {
  world w;
  w.add_tracing("1");

  CHECK(w.module->hooks().add(*w.module, "1", std::make_shared<tracing>(w.trace, "new")));

  CHECK(w.trace == " init1 initnew");
  CHECK(w.run() == " prenew body postnew");
}

TEST_CASE("a replacement of the forward gives way to one of its name", "[torch][hooks]") {
  world w;
  add<replacing>(*w.module, "a", w.trace, "old");

  add<replacing>(*w.module, "a", w.trace, "new");

  CHECK(w.run() == " prenew replaced postnew");
}

TEST_CASE("a hook that cannot be initialised leaves the one it would replace", "[torch][hooks]") {
  world w;
  w.add_tracing("1");

  CHECK_THROWS_AS(add<refusing>(*w.module, "1"), std::runtime_error);

  CHECK(w.run() == " pre1 body post1");
}

TEST_CASE("a module without hooks is called as if there had never been any", "[torch][hooks]") {
  world w;
  w.add_tracing("1");
  w.module->hooks().clear();

  CHECK(w.module->hooks().empty());
  CHECK(w.run() == " body");
}

TEST_CASE("resetting reaches the named hook only", "[torch][hooks]") {
  world w;
  w.add_tracing("1");
  w.add_tracing("2");
  w.trace.clear();

  w.module->hooks().reset("2");
  w.module->hooks().reset("nobody");

  CHECK(w.trace == " reset2");
}

TEST_CASE("another entry point goes through the same hooks under its name", "[torch][hooks]") {
  world w;
  w.add_tracing("1");
  w.trace.clear();

  auto result = call_method(*w.module, "decode", &echo::decode, w.one, 3.0);

  CHECK(result.item<float>() == 3.F);
  CHECK(w.trace == " pre1 decode post1");
}

TEST_CASE("a scope runs the hooks where no call can be wrapped", "[torch][hooks]") {
  world w;
  w.add_tracing("1");
  w.trace.clear();

  {
    hook_scope scope(w.module->hooks(), *w.module, "forward");
    scope.enter({});
    w.trace += " work";
    scope.leave({});
  }

  CHECK(w.trace == " pre1 work post1");
}

TEST_CASE("every hook that entered a call hears that the body threw", "[torch][hooks]") {
  world w;
  w.add_tracing("1");
  w.add_tracing("2");
  w.trace.clear();
  auto body = [](const at::Tensor&) -> at::Tensor { throw std::runtime_error("no"); };

  CHECK_THROWS_AS(call_through(w.module->hooks(), *w.module, "forward", body, w.one),
                  std::runtime_error);

  CHECK(w.trace == " pre1 pre2 abandon2 abandon1");
}

TEST_CASE("a hook that throws on entry ends the call for those before it", "[torch][hooks]") {
  struct throwing : hook {
    void pre_forward(const hook_call&, tensor_refs) override { throw std::runtime_error("no"); }
  };
  world w;
  w.add_tracing("1");
  w.add_tracing("3");
  add<throwing>(*w.module, "2");
  w.trace.clear();

  CHECK_THROWS_AS(call(*w.module, w.one), std::runtime_error);

  CHECK(w.trace == " pre1 abandon1");
}

TEST_CASE("a hook that throws on leaving is abandoned with those outside it", "[torch][hooks]") {
  struct throwing : tracing {
    using tracing::tracing;
    void post_forward(const hook_call&, tensor_refs) override { throw std::runtime_error("no"); }
  };
  world w;
  w.add_tracing("1");
  w.add_tracing("3");
  add<throwing>(*w.module, "2", w.trace, "2");
  w.trace.clear();

  CHECK_THROWS_AS(call(*w.module, w.one), std::runtime_error);

  CHECK(w.trace == " pre1 pre2 pre3 body post3 abandon2 abandon1");
}

TEST_CASE("hooks come and go between calls, not inside one", "[torch][hooks]") {
  world w;
  w.add_tracing("1");
  auto body = [&](const at::Tensor& x) {
    CHECK_THROWS_AS(w.module->hooks().remove("1"), ferry_error);
    CHECK_THROWS_AS(w.module->hooks().clear(), ferry_error);
    CHECK_THROWS_AS(add<tracing>(*w.module, "2", w.trace, "2"), ferry_error);
    return x;
  };

  static_cast<void>(call_through(w.module->hooks(), *w.module, "forward", body, w.one));

  CHECK(w.run() == " pre1 body post1");
}

struct pairing : hook {
  void pre_forward(const hook_call&, tensor_refs) override { ++open; }
  void post_forward(const hook_call&, tensor_refs) override { --open; }
  std::atomic<int> open{0};
};

TEST_CASE("hooks may be taken off by another thread while the model calls", "[torch][hooks]") {
  world w;
  const auto paired = std::make_shared<pairing>();
  std::atomic<bool> done{false};
  std::thread owner([&] {
    while (!done) {
      try {
        w.module->hooks().add(*w.module, "paired", paired);
        w.module->hooks().remove("paired");
      } catch (const ferry_error& refused) { // A call was under way.
        if (refused.code() != errc::busy)
          std::abort();
      }
    }
  });

  for (int i = 0; i < 20'000; ++i)
    static_cast<void>(call(*w.module, w.one));

  done = true;
  owner.join();
  CHECK(paired->open == 0);
}

TEST_CASE("a copied module starts without hooks", "[torch][hooks]") {
  world w;
  w.add_tracing("1");

  echo copy(*w.module);

  CHECK(copy.hooks().empty());
  CHECK_FALSE(w.module->hooks().empty());
}

struct adding_one : hook {
  void pre_forward(const hook_call&, tensor_refs arguments) override {
    for (auto* each : arguments)
      *each = *each + 1;
  }
};

TEST_CASE("replacing an argument leaves the caller's variable alone", "[torch][hooks]") {
  world w;
  add<adding_one>(*w.module, "1");

  auto result = call(*w.module, w.one);

  CHECK(result.item<float>() == 2.F);
  CHECK(w.one.item<float>() == 1.F);
}

TEST_CASE("hooks may replace each tensor of a nested result", "[torch][hooks]") {
  struct doubling : hook {
    void post_forward(const hook_call&, tensor_refs outputs) override {
      for (auto* each : outputs)
        *each = *each * 2;
    }
  };
  using result = std::tuple<at::Tensor, std::optional<at::Tensor>, std::vector<at::Tensor>, int>;
  world w;
  add<doubling>(*w.module, "1");
  auto body = [](const at::Tensor& x) { return result{x, x + 1, {x + 2, x + 3}, 7}; };

  auto [a, b, c, d] = call_through(w.module->hooks(), *w.module, "forward", body, w.one);

  CHECK(a.item<float>() == 2.F);
  CHECK(b->item<float>() == 4.F);
  CHECK(c.at(1).item<float>() == 8.F);
  CHECK(d == 7);
}

struct condition {
  at::Tensor text;
  at::Tensor image;
  int step = 0;
};

} // namespace

template <>
struct tensor_members<condition> {
  static auto of(condition& value) { return std::tie(value.text, value.image); }
};

namespace {

TEST_CASE("a struct shows the tensors that it declares", "[torch][hooks]") {
  world w;
  add<adding_one>(*w.module, "1");
  auto body = [](const condition& c) { return (c.text + c.image).item<float>(); };
  condition given{w.one, w.one, 3};

  CHECK(call_through(w.module->hooks(), *w.module, "forward", body, given) == 4.F);
  CHECK(given.text.item<float>() == 1.F);
}

struct picky : Module, hookable {
  int& forward(int& counted, std::unique_ptr<int> moved, at::Tensor&& taken) {
    counted += *moved + static_cast<int>(taken.numel());
    return counted;
  }
};

TEST_CASE("value categories reach the body as the caller wrote them", "[torch][hooks]") {
  picky module;
  if (GENERATE(false, true))
    module.hooks().add(module, "1", std::make_shared<hook>());
  int count = 1;

  int& result = call(module, count, std::make_unique<int>(2), at::ones({3}));

  CHECK(&result == &count);
  CHECK(count == 6);
}

TEST_CASE("a block may return nothing", "[torch][hooks]") {
  world w;
  w.add_tracing("1");
  w.trace.clear();
  auto body = [&](int n) { w.trace += std::to_string(n); };

  call_through(w.module->hooks(), *w.module, "forward", body, 7);

  CHECK(w.trace == " pre17 post1");
}

TEST_CASE("a replacement of another result type is an error that names both", "[torch][hooks]") {
  world w;
  add<replacing>(*w.module, "1", w.trace, "1");
  auto body = [](const at::Tensor&) { return 1; };

  CHECK_THROWS_WITH(call_through(w.module->hooks(), *w.module, "measure", body, w.one),
                    Catch::Contains("'measure' returns int"));
}

TEST_CASE("a module of foreign class is hooked without changing its names", "[torch][hooks]") {
  struct foreign : Module {
    explicit foreign(int n) { register_parameter("weight", at::ones({n})); }
    at::Tensor forward(const at::Tensor& x) { return x * named_parameters()["weight"]; }
  };
  hooked<foreign> module(2);
  module.hooks().add(module, "1", std::make_shared<adding_one>());

  CHECK(call(module, at::ones({2})).sum().item<float>() == 4.F);
  CHECK(module.named_parameters().contains("weight"));
}

TEST_CASE("a block list calls its blocks through their hooks", "[torch][hooks]") {
  world w;
  block_list<echo> blocks;
  blocks.push_back(w.module);
  blocks.push_back(std::make_shared<echo>(w.trace));
  w.add_tracing("1");
  w.trace.clear();

  for (const auto& block : blocks)
    static_cast<void>(block(w.one));

  CHECK(w.trace == " pre1 body post1 body");
  CHECK(blocks.named_children().keys() == std::vector<std::string>{"0", "1"});
}

TEST_CASE("a hook's memory is kept apart by context until it is reset", "[torch][hooks]") {
  hook_states<int> states;
  states.current() = 1;
  states.use_context("negative");
  states.current() = 2;

  states.use_context("default");
  CHECK(states.current() == 1);

  states.reset();
  CHECK(states.context() == "default");
  CHECK(states.current() == 0);
}

} // namespace
} // namespace ferry
