// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "shared_library.hpp"

#include <dlfcn.h>

#include <algorithm>

namespace ferry {

namespace {

void* open_first_in(std::string_view dirs, const std::string& name) {
  while (!dirs.empty()) {
    const auto dir = dirs.substr(0, dirs.find(':'));
    dirs.remove_prefix(std::min(dirs.size(), dir.size() + 1));
    if (auto* const opened = ::dlopen((std::string(dir) + "/" + name).c_str(), RTLD_NOW))
      return opened;
  }
  return nullptr;
}

} // namespace

tl::expected<void*, std::string> open_shared_library(const std::string& name,
                                                     std::string_view dirs) {
  auto* opened = ::dlopen(name.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (opened == nullptr)
    opened = open_first_in(dirs, name);
  if (opened == nullptr)
    opened = ::dlopen(name.c_str(), RTLD_NOW);
  if (opened != nullptr)
    return opened;
  const auto* const said = ::dlerror();
  return tl::unexpected(name + " cannot be loaded (" +
                        (said == nullptr ? "no reason given" : said) + ")" +
                        (dirs.empty() ? "" : ", also not from " + std::string(dirs)));
}

} // namespace ferry
