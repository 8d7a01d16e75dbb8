// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/host_gpu.hpp"

#include "host/host_collective.hpp"

#include <optional>
#include <utility>

namespace ferry::test {
namespace {

/// Makes a GPU current for a while.
class current_gpu {
public:
  explicit current_gpu(int index) noexcept : before_(fake_nccl::make_current(index)) {}
  current_gpu(const current_gpu&) = delete;
  current_gpu& operator=(const current_gpu&) = delete;
  ~current_gpu() { fake_nccl::make_current(before_); }

private:
  std::optional<int> before_;
};

} // namespace

host_gpu::host_gpu(int index, std::size_t memory, std::shared_ptr<fake_nccl> library)
    : index_(index), library_(std::move(library)), inner_(host_device_options{.memory = memory}) {}

host_gpu::~host_gpu() {
  dismiss_guests();
}

std::string host_gpu::bus_id() const {
  return bus_known_ ? "0000:0" + std::to_string(index_) + ":00.0" : std::string();
}

void* host_gpu::native_stream(stream_id stream) const {
  const auto lock = std::scoped_lock(mutex_);
  return streams_.at(stream).get();
}

stream_id host_gpu::adopt_stream(void*, std::string_view) {
  throw device_error(errc::unsupported, "adopt_stream", "this is no GPU");
}

void host_gpu::gather(stream_id stream, operation_tag, std::uint64_t,
                      const std::function<void(void* native)>& enqueue) {
  const current_gpu current(index_);
  enqueue(native_stream(stream));
}

host_thread_id host_gpu::enter(host_thread_id thread) noexcept {
  fake_nccl::make_current(thread == host_thread_id{} ? std::nullopt : std::optional(index_));
  return inner_.enter(thread);
}

bool host_gpu::ready(event_id event) {
  return events_left_ > 0 && inner_.ready(event) && events_left_-- > 0;
}

stream_id host_gpu::create_stream(std::string_view name) {
  const auto made = inner_.create_stream(name);
  const auto lock = std::scoped_lock(mutex_);
  streams_[made] = std::make_unique<fake_nccl::native_stream>(
      fake_nccl::native_stream{[this, made](std::function<void()> work) {
        host_collective::enqueue(
            inner_, made, {.what = "gather"}, 0,
            [work = std::move(work)](const std::optional<failure>&) { work(); });
      }});
  return made;
}

void host_gpu::destroy_stream(stream_id stream) noexcept {
  inner_.destroy_stream(stream);
  const auto lock = std::scoped_lock(mutex_);
  streams_.erase(stream);
}

} // namespace ferry::test
