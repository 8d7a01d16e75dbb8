// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/memory.hpp>
#include <ferry/platform/numa.hpp>

#include "support/catch.hpp"
#include "support/fake_numa.hpp"
#include "support/scratch_directory.hpp"
#include "support/standard_error.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace ferry {
namespace {

using Catch::Contains;
using test::fake_numa_kernel;
using test::nodes_listed;
using test::preferring;
using nodes = std::vector<int>;

const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));

/// Whole pages that nobody has touched.
class untouched_pages {
public:
  explicit untouched_pages(std::size_t count)
      : bytes_(count * page),
        data_(::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    REQUIRE(data_ != MAP_FAILED);
  }
  untouched_pages(const untouched_pages&) = delete;
  untouched_pages& operator=(const untouched_pages&) = delete;
  ~untouched_pages() { ::munmap(data_, bytes_); }

  [[nodiscard]] mutable_bytes bytes() const { return {static_cast<std::byte*>(data_), bytes_}; }

private:
  std::size_t bytes_;
  void* data_;
};

TEST_CASE("the nodes of a machine are those that have memory", "[platform][numa]") {
  const auto kernel = std::make_shared<fake_numa_kernel>();
  const auto [list, expected] = GENERATE(table<std::string, nodes>({
      {"0", {0}},
      {"0-1", {0, 1}},
      {"0,2-3,8", {0, 2, 3, 8}},
  }));

  CHECK(nodes_listed(list, kernel)->known() == expected);
}

TEST_CASE("a machine that says nothing, or nothing sensible, has no known nodes",
          "[platform][numa]") {
  const auto kernel = std::make_shared<fake_numa_kernel>();
  const test::scratch_directory empty;
  const auto* const list = GENERATE("", "none", "0-", "1-0", "0,", "0 1", "-1", "0-1024");

  CHECK(nodes_listed(list, kernel)->known().empty());
  CHECK(numa_nodes{empty.path(), kernel}.known().empty());
}

TEST_CASE("new pages are preferred from a node within the scope, and as before after it",
          "[platform][numa]") {
  const auto kernel = std::make_shared<fake_numa_kernel>();
  kernel->now = {.mode = MPOL_INTERLEAVE, .nodes = {3}};
  const auto before = kernel->now;
  const auto machine = nodes_listed("0-1", kernel);

  {
    const prefer_node scope{machine.get(), 1};
    CHECK(scope.holds());
    CHECK(kernel->now == preferring(1));
  }

  CHECK(kernel->now == before);
}

TEST_CASE("nodes beyond the first word of a mask are preferred as well", "[platform][numa]") {
  const auto kernel = std::make_shared<fake_numa_kernel>();
  const auto machine = nodes_listed("0,1023", kernel);

  const prefer_node scope{machine.get(), 1023};

  CHECK(kernel->now.nodes.front() == 0);
  CHECK(kernel->now.nodes.back() == 1UL << 63);
}

TEST_CASE("without a node, or with one node, the kernel is not even asked", "[platform][numa]") {
  const auto kernel = std::make_shared<fake_numa_kernel>();
  const auto two = nodes_listed("0-1", kernel);
  const auto one = nodes_listed("1", kernel);
  const auto none = nodes_listed("", kernel);

  CHECK_FALSE(prefer_node{two.get(), std::nullopt}.holds());
  CHECK_FALSE(prefer_node{two.get(), 2}.holds());
  CHECK_FALSE(prefer_node{one.get(), 1}.holds());
  CHECK_FALSE(prefer_node{none.get(), 1}.holds());
  CHECK_FALSE(prefer_node{nullptr, 1}.holds());
  CHECK(kernel->calls == 0);
}

TEST_CASE("a thread that the user has bound to nodes stays bound", "[platform][numa]") {
  const auto kernel = std::make_shared<fake_numa_kernel>();
  kernel->now = {.mode = MPOL_BIND | MPOL_F_STATIC_NODES, .nodes = {1}};
  const auto before = kernel->now;
  const auto machine = nodes_listed("0-1", kernel);

  const prefer_node scope{machine.get(), 1};

  CHECK_FALSE(scope.holds());
  CHECK(kernel->now == before);
}

TEST_CASE("a kernel that refuses to prefer a node changes nothing, and is logged once",
          "[platform][numa]") {
  const auto kernel = std::make_shared<fake_numa_kernel>();
  GENERATE(0, 1) == 0 ? kernel->refuses_read = EPERM : kernel->refuses_use = EPERM;
  const auto machine = nodes_listed("0-1", kernel);

  const auto written = test::standard_error_of([&] {
    CHECK_FALSE(prefer_node{machine.get(), 1}.holds());
    CHECK_FALSE(prefer_node{machine.get(), 1}.holds());
  });

  CHECK(kernel->now == numa_policy{});
  CHECK_THAT(written, Contains("prefer node=1 refused by the kernel reason=" +
                               std::generic_category().message(EPERM)));
  CHECK(std::ranges::count(written, '\n') == 1);
}

TEST_CASE("a range is on the nodes of its pages, up to 512 of which are asked for, evenly spread",
          "[platform][numa]") {
  const auto [pages, stride] = GENERATE(
      table<std::size_t, std::size_t>({{1, 1}, {3, 1}, {512, 1}, {513, 2}, {1000, 2}, {1025, 3}}));
  const auto kernel = std::make_shared<fake_numa_kernel>();
  const auto machine = nodes_listed("0-1", kernel);
  const untouched_pages memory{pages + 1};
  const auto from_inside_the_second = memory.bytes().subspan(page + 1, (pages - 1) * page + 1);

  (void)machine->nodes_of(from_inside_the_second);

  const auto expected = (pages + stride - 1) / stride;
  REQUIRE(kernel->asked.size() == expected);
  CHECK(kernel->asked.front() == memory.bytes().data() + page);
  CHECK(kernel->asked.back() == memory.bytes().data() + (1 + (expected - 1) * stride) * page);
}

TEST_CASE("a range that is on several nodes has each of them once", "[platform][numa]") {
  const auto kernel = std::make_shared<fake_numa_kernel>();
  kernel->node_of_next = [answer = 0]() mutable { return answer++ == 7 ? 0 : 1; };
  const untouched_pages memory{10};

  CHECK(nodes_listed("0-1", kernel)->nodes_of(memory.bytes()) == nodes{0, 1});
  CHECK(nodes_listed("0-1", kernel)->nodes_of({}).empty());
}

TEST_CASE("pages that are not there are on no node", "[platform][numa]") {
  const auto kernel = std::make_shared<fake_numa_kernel>();
  kernel->node_of_next = [] { return -ENOENT; };
  const untouched_pages memory{1};

  CHECK(nodes_listed("0-1", kernel)->nodes_of(memory.bytes()).empty());
}

TEST_CASE("nothing is on a known node where the kernel refuses to say, which is logged once",
          "[platform][numa]") {
  const auto kernel = std::make_shared<fake_numa_kernel>();
  kernel->refuses_locate = EPERM;
  const auto machine = nodes_listed("0-1", kernel);
  const untouched_pages memory{1};

  const auto written = test::standard_error_of([&] {
    CHECK(machine->nodes_of(memory.bytes()).empty());
    CHECK(machine->nodes_of(memory.bytes()).empty());
  });

  CHECK_THAT(written, Contains("locate pages refused by the kernel"));
  CHECK(std::ranges::count(written, '\n') == 1);
}

TEST_CASE("the node of a device is that of its PCI address, in either case of its letters",
          "[platform][numa]") {
  const test::scratch_directory root;
  const auto put = [&](const std::string& address, const std::string& node) {
    root.write("sys/bus/pci/devices/" + address + "/numa_node", node);
  };
  put("0000:3b:00.0", "1\n");
  put("0000:3c:00.0", "-1\n");
  put("0000:3d:00.0", "one\n");

  CHECK(numa_node_of_pci(root.path(), "0000:3B:00.0") == 1);
  CHECK(numa_node_of_pci(root.path(), "0000:3b:00.0") == 1);
  CHECK(numa_node_of_pci(root.path(), "0000:3c:00.0") == std::nullopt);
  CHECK(numa_node_of_pci(root.path(), "0000:3d:00.0") == std::nullopt);
  CHECK(numa_node_of_pci(root.path(), "0000:3e:00.0") == std::nullopt);
}

// On the kernel that runs this. A refusal is no fault of Ferry's: the case says so and ends.

TEST_CASE("a page that was touched is on a node of this machine, one that was not on none",
          "[platform][numa]") {
  const untouched_pages memory{2};
  memory.bytes()[page] = std::byte{1};
  std::vector<int> found(2);
  std::vector<void*> both{memory.bytes().data(), memory.bytes().data() + page};
  if (const auto error = running_kernel()->locate(both, found)) {
    WARN("skipped: this kernel does not tell nodes: " << std::generic_category().message(error));
    return;
  }
  const numa_nodes machine{"/", running_kernel()};

  CHECK(found[0] < 0);
  CHECK(machine.nodes_of(memory.bytes()) == nodes{found[1]});
  CHECK(std::ranges::binary_search(machine.known(), found[1]));
}

TEST_CASE("a policy that a thread was given is what the kernel tells, until it is taken back",
          "[platform][numa]") {
  const auto kernel = running_kernel();
  const numa_nodes machine{"/", kernel};
  numa_policy before;
  auto error = kernel->read_policy(before);
  const auto node = machine.known().empty() ? 0 : machine.known().front();
  if (error == 0)
    error = kernel->use_policy(preferring(node));
  if (error != 0) {
    WARN("skipped: this kernel allows no policy: " << std::generic_category().message(error));
    return;
  }

  numa_policy during;
  numa_policy after;
  REQUIRE(kernel->read_policy(during) == 0);
  REQUIRE(kernel->use_policy(before) == 0);
  REQUIRE(kernel->read_policy(after) == 0);

  CHECK(during == preferring(node));
  CHECK(after == before);
}

} // namespace
} // namespace ferry
