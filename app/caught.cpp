// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "caught.hpp"

#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>

namespace ferry {

failure caught() {
  try {
    throw;
  } catch (const ferry_error& failed) {
    return failed.reason();
  } catch (const std::filesystem::filesystem_error& failed) {
    return {.code = errc::io_failure, .detail = failed.what()};
  } catch (const std::bad_alloc&) {
    return {.code = errc::out_of_host_memory, .detail = "the host has no memory left"};
  } catch (const std::exception& bug) {
    const std::string_view text = bug.what();
    return {.code = errc::internal, .detail = std::string(text.substr(0, text.find('\n')))};
  }
}

} // namespace ferry
