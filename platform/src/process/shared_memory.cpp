// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "process/shared_memory.hpp"

#include "ferry/platform/error.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

namespace ferry {
namespace {

[[noreturn]] void refuse(const char* step, std::size_t bytes) {
  throw device_error(errc::out_of_host_memory, "share memory between ranks",
                     std::string(step) + " of " + std::to_string(bytes) +
                         " bytes: " + std::generic_category().message(errno));
}

} // namespace

shared_memory::shared_memory(std::size_t bytes)
    : file_(::memfd_create("ferry", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  if (file_.number() == file_descriptor::none)
    refuse("memfd_create", bytes);
  if (::ftruncate(file_.number(), static_cast<off_t>(bytes)) != 0)
    refuse("ftruncate", bytes);
  if (::fcntl(file_.number(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    refuse("fcntl", bytes);
  map(bytes);
}

shared_memory::shared_memory(file_descriptor made_elsewhere, std::size_t bytes)
    : file_(std::move(made_elsewhere)) {
  struct ::stat found{};
  if (::fstat(file_.number(), &found) != 0)
    refuse("fstat", bytes);
  const auto seals = ::fcntl(file_.number(), F_GET_SEALS);
  if (static_cast<std::size_t>(found.st_size) != bytes || seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    throw device_error(errc::invalid_argument, "share memory between ranks",
                       "found " + std::to_string(found.st_size) + " bytes, expected " +
                           std::to_string(bytes) + " that cannot shrink");
  map(bytes);
}

shared_memory::shared_memory(shared_memory&& other) noexcept
    : file_(std::move(other.file_)), bytes_(std::exchange(other.bytes_, {})) {}

shared_memory::~shared_memory() {
  if (!bytes_.empty())
    ::munmap(bytes_.data(), bytes_.size());
}

void shared_memory::map(std::size_t bytes) {
  auto* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.number(), 0);
  if (data == MAP_FAILED)
    refuse("mmap", bytes);
  bytes_ = {static_cast<std::byte*>(data), bytes};
}

} // namespace ferry
