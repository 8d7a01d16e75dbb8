// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/fake_nccl.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

namespace {

/// A collective, as far as the ranks have come to it.
struct meeting {
  struct part {
    const void* shard;
    void* output;
    std::size_t bytes;
    ncclComm* comm;
  };
  std::map<int, part> parts;
  bool done = false;
};

/// The communicators that one id connects.
struct clique {
  int size = 0;
  std::map<int, ncclComm*> comms;
  std::map<std::uint64_t, meeting> meetings;
  std::set<int> gathering; ///< The ranks that have come to their first gather.
};

constexpr int for_ever = 1 << 30;

std::atomic<std::uint64_t> all_calls = 0;

thread_local std::optional<int> gpu_of_thread;

/// Tells at the end of the process how much the fake has checked.
struct call_counter {
  ~call_counter() {
    if (all_calls != 0)
      std::printf("fake NCCL: %llu calls\n", static_cast<unsigned long long>(all_calls.load()));
  }
};
[[maybe_unused]] const call_counter told_at_the_end;

} // namespace

struct ncclComm {
  std::shared_ptr<clique> ranks;
  int rank = 0;
  int number = 0; ///< Of the rank's communicators.
  std::optional<int> gpu;
  bool connected = false;
  bool finalized = false;
  bool closed = false;
  int polls_left = 0;            ///< Until what is in progress is done.
  std::function<void()> pending; ///< What is done then.
  ncclResult_t error = ncclSuccess;
  std::uint64_t next = 0;         ///< Counts collectives.
  std::atomic<int> under_way = 0; ///< Those that a stream has come to.
  std::atomic<int> callers = 0;
};

namespace ferry::test {
namespace {

/// Whether a call only asks.
bool asks(std::string_view call) {
  return call == "ncclGetErrorString" || call == "ncclGetLastError" ||
         call == "ncclCommGetAsyncError" || call == "ncclGetVersion";
}

/// Whether a call needs the rank's GPU to be current.
bool needs_gpu(std::string_view call) {
  return call != "ncclGetVersion";
}

} // namespace

class fake_nccl::state {
public:
  using key = std::pair<std::string, int>;

  /// One call from its begin to its end.
  class visit {
  public:
    visit(state& owner, const char* call, ncclComm* comm, int rank) : comm_(comm) {
      const auto alone = comm_ == nullptr || comm_->callers.fetch_add(1) == 0;
      lock_ = std::unique_lock(owner.mutex_);
      if (comm_ != nullptr)
        owner.hold_up(lock_, call, *comm_);
      const auto nth = ++owner.counts_[{call, rank}];
      ++all_calls;
      if (!asks(call)) {
        owner.calls_.push_back("rank " + std::to_string(rank) + " " + call);
        if (owner.backend_.note)
          owner.backend_.note(call);
      }
      const auto gpu = owner.current_gpu();
      if (needs_gpu(call) && !gpu)
        owner.misused(call, rank, "while no GPU is current");
      if (comm_ != nullptr && gpu && gpu != comm_->gpu)
        owner.misused(call, rank, "while another rank's GPU is current");
      if (!alone)
        owner.misused(call, rank, "while another thread calls");
      if (comm_ != nullptr && comm_->closed)
        owner.misused(call, rank, "after it was closed");
      const auto found = owner.failing_.find({call, rank});
      if (found != owner.failing_.end() && found->second.first == nth) {
        failure = found->second.second;
        owner.has_failed_ = true;
      }
    }
    visit(const visit&) = delete;
    visit& operator=(const visit&) = delete;
    ~visit() {
      if (comm_ != nullptr)
        comm_->callers.fetch_sub(1);
    }

    std::optional<ncclResult_t> failure;

  private:
    ncclComm* comm_;
    std::unique_lock<std::mutex> lock_;
  };

  explicit state(backend through);
  ~state();

  [[nodiscard]] std::optional<int> current_gpu() const {
    return backend_.current ? backend_.current() : gpu_of_thread;
  }

  void misused(std::string_view call, int rank, std::string_view how) {
    misuses_.push_back("rank " + std::to_string(rank) + " calls " + std::string(call) + " " +
                       std::string(how));
  }

  void hold_up(std::unique_lock<std::mutex>& lock, const char* call, const ncclComm& comm) {
    if (hanging_.erase({{call, comm.rank}, comm.number}) > 0)
      changed_.wait(lock, [this, resumed = resumed_] { return resumed_ != resumed; });
  }

  [[nodiscard]] int polls_of(const char* call, int rank) const {
    const auto found = polls_.find({call, rank});
    return found == polls_.end() ? 1 : found->second;
  }

  /// Expects a communicator with nothing in progress.
  void expect_settled(const char* call, const ncclComm& comm) {
    if (!comm.connected)
      misused(call, comm.rank, "before the ranks are connected");
    else if (comm.pending)
      misused(call, comm.rank, "while another call is in progress");
  }

  [[nodiscard]] static bool in_progress(const ncclComm& comm) {
    const auto all_came = static_cast<int>(comm.ranks->comms.size()) == comm.ranks->size;
    const auto all_gather = static_cast<int>(comm.ranks->gathering.size()) == comm.ranks->size;
    return comm.polls_left > 0 || (!comm.connected && !all_came) || (comm.pending && !all_gather) ||
           (comm.finalized && comm.under_way > 0);
  }

  ncclResult_t poll(ncclComm& comm) {
    if (comm.error != ncclSuccess)
      return comm.error;
    if (comm.polls_left > 0 && comm.polls_left != for_ever)
      --comm.polls_left;
    if (in_progress(comm))
      return ncclInProgress;
    comm.connected = true;
    if (auto pending = std::exchange(comm.pending, nullptr))
      pending();
    return ncclSuccess;
  }

  /// Comes to a collective in its turn on a stream. The last rank does what there is to do.
  void begin(std::uint64_t number, const meeting::part& own) {
    auto& comm = *own.comm;
    const auto lock = std::scoped_lock(meeting_mutex_);
    if (comm.closed)
      return;
    ++comm.under_way;
    auto& met = comm.ranks->meetings[number];
    met.parts[comm.rank] = own;
    const auto all_came = static_cast<int>(met.parts.size()) == comm.ranks->size;
    const auto alike = std::ranges::all_of(
        met.parts, [&](const auto& each) { return each.second.bytes == own.bytes; });
    if (!all_came || !alike) // Unlike ones never end, as in NCCL.
      return;
    for (const auto& [to, target] : met.parts)
      for (const auto& [from, source] : met.parts)
        std::memmove(static_cast<std::byte*>(target.output) +
                         static_cast<std::size_t>(from) * own.bytes,
                     source.shard, own.bytes);
    for (const auto& [rank, each] : met.parts)
      --each.comm->under_way;
    met.done = true;
    met_.notify_all();
  }

  [[nodiscard]] bool over(std::uint64_t number, const ncclComm& comm) {
    const auto lock = std::scoped_lock(meeting_mutex_);
    return comm.closed || comm.ranks->meetings[number].done;
  }

  /// Plays a collective on the thread of a stream.
  void run(std::uint64_t number, const meeting::part& own) {
    begin(number, own);
    auto lock = std::unique_lock(meeting_mutex_);
    met_.wait(lock, [&] { return own.comm->closed || own.comm->ranks->meetings[number].done; });
  }

  void enqueue(void* stream, std::uint64_t number, const meeting::part& own) {
    if (backend_.enqueue)
      backend_.enqueue(
          stream, [=, this] { begin(number, own); }, [=, this] { return over(number, *own.comm); });
    else
      static_cast<native_stream*>(stream)->enqueue([=, this] { run(number, own); });
  }

  /// Nobody uses the memory of the rank from then on.
  ncclResult_t close(const visit& call, ncclComm& comm) {
    const auto lock = std::scoped_lock(meeting_mutex_);
    comm.closed = true;
    comm.pending = nullptr;
    for (auto& [number, met] : comm.ranks->meetings)
      if (!met.done)
        met.parts.erase(comm.rank);
    met_.notify_all();
    return call.failure.value_or(ncclSuccess);
  }

  state* before_;
  backend backend_;
  std::mutex meeting_mutex_; ///< Guards meetings, and what ends them. Taken last of all locks.
  std::condition_variable met_;
  std::mutex mutex_; ///< Guards the rest.
  std::condition_variable changed_;
  std::map<std::string, std::shared_ptr<clique>> cliques_;
  std::vector<std::unique_ptr<ncclComm>> comms_; ///< Kept when closed, to know them again.
  std::map<key, int> counts_;
  std::map<key, std::pair<int, ncclResult_t>> failing_;
  std::map<key, int> polls_;
  std::set<std::pair<key, int>> hanging_;
  int resumed_ = 0;
  std::vector<std::string> calls_;
  std::vector<std::string> misuses_;
  std::string last_error_;
  bool has_failed_ = false;
  int ids_ = 0;
  std::array<nccl::api, 3> libraries_;
};

namespace {

fake_nccl::state* current = nullptr;

using visit = fake_nccl::state::visit;

template <int Version>
ncclResult_t get_version(int* version) {
  const visit call(*current, "ncclGetVersion", nullptr, 0);
  *version = Version;
  return call.failure.value_or(ncclSuccess);
}

const char* get_error_string(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited or there was a network error"
                                   : "something went wrong";
}

const char* get_last_error(ncclComm_t) {
  const auto lock = std::scoped_lock(current->mutex_);
  return current->last_error_.c_str();
}

ncclResult_t get_unique_id(ncclUniqueId* id) {
  const visit call(*current, "ncclGetUniqueId", nullptr, 0);
  if (call.failure)
    return *call.failure;
  std::snprintf(id->internal, sizeof(id->internal), "id %d", ++current->ids_);
  return ncclSuccess;
}

ncclResult_t init_rank(ncclComm_t* made, int size, ncclUniqueId id, int rank,
                       ncclConfig_t* config) {
  visit call(*current, "ncclCommInitRankConfig", nullptr, rank);
  if (config->blocking != 0)
    current->misused("ncclCommInitRankConfig", rank, "so that it blocks");
  if (call.failure)
    return *call.failure;
  auto& shared = current->cliques_[id.internal];
  if (shared == nullptr)
    shared = std::make_shared<clique>();
  shared->size = size;
  auto comm = std::make_unique<ncclComm>();
  comm->ranks = shared;
  comm->rank = rank;
  comm->gpu = current->current_gpu();
  comm->number = static_cast<int>(std::ranges::count_if(
      current->comms_, [&](const auto& other) { return other->rank == rank; }));
  comm->polls_left = current->polls_of("ncclCommInitRankConfig", rank);
  if (!shared->comms.emplace(rank, comm.get()).second)
    current->misused("ncclCommInitRankConfig", rank, "twice with one id");
  *made = comm.get();
  current->comms_.push_back(std::move(comm));
  return ncclInProgress;
}

ncclResult_t get_async_error(ncclComm_t comm, ncclResult_t* state) {
  const visit call(*current, "ncclCommGetAsyncError", comm, comm->rank);
  *state = ncclSuccess;
  if (call.failure)
    return *call.failure;
  *state = current->poll(*comm);
  return ncclSuccess;
}

ncclResult_t all_gather(const void* shard, void* output, std::size_t count, ncclDataType_t type,
                        ncclComm_t comm, cudaStream_t stream) {
  const visit call(*current, "ncclAllGather", comm, comm->rank);
  current->expect_settled("ncclAllGather", *comm);
  if (type != ncclUint8)
    current->misused("ncclAllGather", comm->rank, "with something else than bytes");
  if (call.failure)
    return *call.failure;
  if (comm->error != ncclSuccess)
    return comm->error;
  const auto part = meeting::part{shard, output, count, comm};
  comm->ranks->gathering.insert(comm->rank);
  comm->pending = [owner = current, part, number = comm->next++, stream] {
    owner->enqueue(stream, number, part);
  };
  comm->polls_left = current->polls_of("ncclAllGather", comm->rank);
  return ncclInProgress;
}

ncclResult_t finalize(ncclComm_t comm) {
  const visit call(*current, "ncclCommFinalize", comm, comm->rank);
  current->expect_settled("ncclCommFinalize", *comm);
  if (call.failure)
    return *call.failure;
  comm->finalized = true;
  comm->polls_left = current->polls_of("ncclCommFinalize", comm->rank);
  return ncclInProgress;
}

ncclResult_t destroy(ncclComm_t comm) {
  const visit call(*current, "ncclCommDestroy", comm, comm->rank);
  if (!comm->finalized || fake_nccl::state::in_progress(*comm))
    current->misused("ncclCommDestroy", comm->rank, "before it is finalized");
  return current->close(call, *comm);
}

ncclResult_t abort(ncclComm_t comm) {
  const visit call(*current, "ncclCommAbort", comm, comm->rank);
  return current->close(call, *comm);
}

template <int Version>
nccl::api table() {
  return {.ncclGetVersion = get_version<Version>,
          .ncclGetErrorString = get_error_string,
          .ncclGetLastError = get_last_error,
          .ncclGetUniqueId = get_unique_id,
          .ncclCommInitRankConfig = init_rank,
          .ncclCommGetAsyncError = get_async_error,
          .ncclAllGather = all_gather,
          .ncclCommFinalize = finalize,
          .ncclCommDestroy = destroy,
          .ncclCommAbort = abort};
}

} // namespace

fake_nccl::state::state(backend through)
    : before_(std::exchange(current, this)), backend_(std::move(through)),
      libraries_{table<NCCL_VERSION(2, 28, 9)>(), table<NCCL_VERSION(2, 21, 5)>(),
                 table<NCCL_VERSION(2, 13, 4)>()} {}

fake_nccl::state::~state() {
  for (const auto& comm : comms_)
    if (!comm->closed)
      misused("nothing", comm->rank, "to close its communicator");
  for (const auto& misuse : misuses_)
    std::fprintf(stderr, "fake_nccl: %s\n", misuse.c_str());
  if (!misuses_.empty())
    std::abort();
  auto** made = &current;
  while (*made != this)
    made = &(*made)->before_;
  *made = before_;
}

std::optional<int> fake_nccl::make_current(std::optional<int> gpu) noexcept {
  return std::exchange(gpu_of_thread, gpu);
}

fake_nccl::fake_nccl() : fake_nccl(backend{}) {}
fake_nccl::fake_nccl(backend through) : state_(std::make_unique<state>(std::move(through))) {}
fake_nccl::~fake_nccl() = default;

const nccl::api& fake_nccl::library() const noexcept {
  return state_->libraries_[0];
}
const nccl::api& fake_nccl::older_library() const noexcept {
  return state_->libraries_[1];
}
const nccl::api& fake_nccl::oldest_library() const noexcept {
  return state_->libraries_[2];
}

void fake_nccl::fail(std::string_view call, int rank, int nth, ncclResult_t result) {
  const auto lock = std::scoped_lock(state_->mutex_);
  state_->failing_[{std::string(call), rank}] = {nth, result};
}

bool fake_nccl::has_failed() const {
  const auto lock = std::scoped_lock(state_->mutex_);
  return state_->has_failed_;
}

void fake_nccl::delay(std::string_view call, int rank, int polls) {
  const auto lock = std::scoped_lock(state_->mutex_);
  state_->polls_[{std::string(call), rank}] = polls;
}

void fake_nccl::stall(std::string_view call, int rank) {
  delay(call, rank, for_ever);
}

void fake_nccl::hang(std::string_view call, int rank, int number) {
  const auto lock = std::scoped_lock(state_->mutex_);
  state_->hanging_.insert({{std::string(call), rank}, number});
}

void fake_nccl::resume() {
  {
    const auto lock = std::scoped_lock(state_->mutex_);
    ++state_->resumed_;
  }
  state_->changed_.notify_all();
}

void fake_nccl::break_off(int rank, ncclResult_t error) {
  const auto lock = std::scoped_lock(state_->mutex_);
  for (const auto& comm : state_->comms_)
    if (comm->rank == rank)
      comm->error = error;
}

void fake_nccl::say(std::string words) {
  const auto lock = std::scoped_lock(state_->mutex_);
  state_->last_error_ = std::move(words);
}

std::vector<std::string> fake_nccl::calls() const {
  const auto lock = std::scoped_lock(state_->mutex_);
  return state_->calls_;
}

int fake_nccl::count(std::string_view call, int rank) const {
  const auto lock = std::scoped_lock(state_->mutex_);
  const auto found = state_->counts_.find({std::string(call), rank});
  return found == state_->counts_.end() ? 0 : found->second;
}

std::size_t fake_nccl::open_comms() const {
  const auto lock = std::scoped_lock(state_->mutex_);
  return static_cast<std::size_t>(
      std::ranges::count_if(state_->comms_, [](const auto& comm) { return !comm->closed; }));
}

} // namespace ferry::test
