// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/numa.hpp"

#include "ferry/platform/log.hpp"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

namespace ferry {
namespace {

namespace fs = std::filesystem;

// The kernel takes one off the number of bits it is given.
constexpr unsigned long mask_bits = numa_policy::most_nodes + 1;

// The kernel takes most of a microsecond for each.
constexpr std::size_t most_pages = 512;

class real_kernel final : public numa_kernel {
public:
  [[nodiscard]] int read_policy(numa_policy& now) const noexcept override {
    return answer(
        ::syscall(SYS_get_mempolicy, &now.mode, now.nodes.data(), mask_bits, nullptr, 0UL));
  }

  [[nodiscard]] int use_policy(const numa_policy& next) const noexcept override {
    return answer(::syscall(SYS_set_mempolicy, next.mode, next.nodes.data(), mask_bits));
  }

  // Without nodes to move them to, pages stay and are only told of.
  [[nodiscard]] int locate(std::span<void* const> pages,
                           std::span<int> nodes) const noexcept override {
    return answer(
        ::syscall(SYS_move_pages, 0, pages.size(), pages.data(), nullptr, nodes.data(), 0));
  }

private:
  [[nodiscard]] static int answer(long returned) noexcept { return returned < 0 ? errno : 0; }
};

numa_policy preferring(int node) {
  constexpr auto bits = std::numeric_limits<unsigned long>::digits;
  numa_policy made{.mode = MPOL_PREFERRED};
  made.nodes.at(static_cast<std::size_t>(node / bits)) = 1UL << (node % bits);
  return made;
}

bool binds(const numa_policy& policy) noexcept {
  return (policy.mode & ~MPOL_MODE_FLAGS) == MPOL_BIND;
}

std::string line_in(const fs::path& file) {
  std::ifstream in{file};
  std::string line;
  std::getline(in, line);
  return line;
}

/// Takes a number off the front of `text`.
std::optional<int> take_number(std::string_view& text) {
  auto value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value < 0)
    return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool take(std::string_view& text, char expected) {
  if (!text.starts_with(expected))
    return false;
  text.remove_prefix(1);
  return true;
}

/// Reads a list such as `0-1,4`, ascending. Empty if it is anything else.
std::vector<int> read_list(std::string_view text) {
  std::vector<int> all;
  do {
    const auto first = take_number(text);
    const auto last = first && take(text, '-') ? take_number(text) : first;
    if (!last || *last < *first || *last >= numa_policy::most_nodes)
      return {};
    for (auto each = *first; each <= *last; ++each)
      all.push_back(each);
  } while (take(text, ','));
  return text.empty() ? all : std::vector<int>{};
}

} // namespace

std::shared_ptr<const numa_kernel> running_kernel() {
  return std::make_shared<real_kernel>();
}

numa_nodes::numa_nodes(const fs::path& root, std::shared_ptr<const numa_kernel> kernel)
    : known_(read_list(line_in(root / "sys/devices/system/node/has_memory"))),
      kernel_(std::move(kernel)) {}

std::vector<int> numa_nodes::nodes_of(const_bytes range) const {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(range.data());
  const auto first = begin / page;
  const auto count = range.empty() ? 0 : (begin + range.size() - 1) / page - first + 1;
  const auto stride = (count + most_pages - 1) / most_pages;
  std::vector<void*> pages;
  for (std::uintptr_t i = 0; i < count; i += stride)
    pages.push_back(reinterpret_cast<void*>((first + i) * page));
  std::vector<int> nodes(pages.size());
  if (const auto error = pages.empty() ? 0 : kernel_->locate(pages, nodes)) {
    note(locate_told_, "locate pages", error);
    return {};
  }
  std::erase_if(nodes, [](int node) { return node < 0; });
  std::ranges::sort(nodes);
  const auto repeated = std::ranges::unique(nodes);
  nodes.erase(repeated.begin(), repeated.end());
  return nodes;
}

void numa_nodes::note(std::atomic_flag& told, std::string_view what, int error) const {
  if (!told.test_and_set())
    log(log_level::warn, "ferry.platform",
        std::string{what} +
            " refused by the kernel reason=" + std::generic_category().message(error));
}

prefer_node::prefer_node(const numa_nodes* nodes, std::optional<int> node) : nodes_(nodes) {
  if (nodes == nullptr || !node || nodes->known().size() < 2 ||
      !std::ranges::binary_search(nodes->known(), *node))
    return;
  numa_policy before;
  auto error = nodes->kernel_->read_policy(before);
  if (error == 0 && binds(before))
    return;
  if (error == 0)
    error = nodes->kernel_->use_policy(preferring(*node));
  if (error == 0)
    before_ = before;
  else
    nodes->note(nodes->policy_told_, "prefer node=" + std::to_string(*node), error);
}

prefer_node::~prefer_node() {
  if (!before_)
    return;
  if (const auto error = nodes_->kernel_->use_policy(*before_))
    nodes_->note(nodes_->policy_told_, "take back preference", error);
}

std::optional<int> numa_node_of_pci(const fs::path& root, std::string_view address) {
  std::string name{address};
  std::ranges::transform(name, name.begin(), [](char each) {
    return each >= 'A' && each <= 'F' ? static_cast<char>(each - 'A' + 'a') : each;
  });
  const auto line = line_in(root / "sys/bus/pci/devices" / name / "numa_node");
  std::string_view text{line};
  const auto node = take_number(text);
  return text.empty() ? node : std::nullopt;
}

} // namespace ferry
