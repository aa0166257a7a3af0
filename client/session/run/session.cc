#include "client/session.h"

#include <algorithm>
#include <random>
#include <utility>

#include <fmt/core.h>

#include "client/device/device.h"
#include "client/session/run/session_runner.h"
#include "common/base/hash.h"
#include "common/base/protocol_limits.h"
#include "common/base/protocol_version.h"
#include "common/compression/compression.h"
#include "common/epoch/cursor.h"
#include "common/security/tls_folder.h"
#include "common/system/clock.h"
#include "common/system/host.h"
#include "common/system/malloc.h"
#include "common/system/mutex.h"
#include "common/system/nonce.h"
#include "common/system/repeat_filter.h"
#include "common/transport/grpc/grpc_client.h"
#include "common/transport/shm/shm_client.h"

namespace millrace {
namespace {

std::function<double()> MakeRandom() {
  struct Generator {
    Mutex mutex;
    std::mt19937_64 engine MILLRACE_GUARDED_BY(mutex){std::random_device()()};
  };
  return [generator = std::make_shared<Generator>()] {
    MutexLock lock(generator->mutex);
    return std::uniform_real_distribution<double>()(generator->engine);
  };
}

/// About thirty years. That is as good as for ever, and no clock overflows.
constexpr double kLongestTimeout = 1e9;

Duration Timeout(double seconds) {
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::min(seconds, kLongestTimeout)));
}

Result<client::SessionMachineOptions> MachineOptions(const SessionOptions& options) {
  if (options.job.empty()) return InvalidArgument("a session needs the name of a job");
  MILLRACE_RETURN_IF_ERROR(CheckSessionOptions(options));
  client::SessionMachineOptions machine;
  machine.address = options.address;
  machine.prefetch_bytes = options.prefetch_bytes;
  machine.tune = options.tune;
  machine.compression = CompressionOf(options.compression);
  machine.connect_timeout = Timeout(options.connect_timeout_seconds);
  machine.attach_timeout = Timeout(options.attach_timeout_seconds);
  machine.read_timeout = Timeout(options.read_timeout_seconds);
  v1::Hello& hello = machine.hello;
  hello.set_protocol(kProtocol);
  hello.set_job(options.job);
  hello.set_rank(options.rank);
  hello.set_replica(options.replica);
  hello.set_world_size(options.world_size);
  hello.set_epochs(options.epochs);
  hello.set_any_start(options.any_start);
  hello.set_priority(options.priority);
  hello.set_nonce(MakeNonce());
  hello.set_where(Whereabouts());
  hello.set_host_id(NetworkHostId());
  MILLRACE_ASSIGN_OR_RETURN(*hello.mutable_pipeline()->mutable_yaml(), ReadPipelineText(options));
  hello.mutable_pipeline()->set_variant(options.variant);
  for (const std::string& override : options.overrides) {
    hello.mutable_pipeline()->add_overrides(override);
  }
  hello.mutable_start();
  if (!options.cursor.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(const CursorEntry cursor, Cursor::ParseOne(options.cursor));
    hello.set_cursor_fingerprint(cursor.order.ToString());
    client::ToProto(cursor.position, hello.mutable_start());
  }
  return machine;
}

/// The name of a job that fetches one batch beside `job`. It begins with as much of `job` as there
/// is room for, and does not cut a UTF-8 character in two. Its end is unique.
std::string PeekJob(const std::string& job) {
  const std::string own = fmt::format("/peek-{}", Xxh3(MakeNonce()).ToHex());
  std::size_t kept = std::min(job.size(), kMaxNameBytes - own.size());
  const auto continues = [&job](std::size_t at) {
    return at < job.size() && (static_cast<unsigned char>(job[at]) & 0xc0) == 0x80;
  };
  while (kept > 0 && continues(kept)) --kept;
  return job.substr(0, kept) + own;
}

}  // namespace

// --- Batch ------------------------------------------------------------------------------------

const std::vector<DeliveredTensor>& Batch::tensors() const { return delivered().tensors(); }
const DeliveredTensor* Batch::Find(std::string_view path) const { return delivered().Find(path); }
std::size_t Batch::examples() const { return delivered().examples(); }
const BatchInfo& Batch::info() const { return delivered().info(); }
std::uint32_t Batch::parts() const {
  return static_cast<std::uint32_t>(rep_->micro_batches.size());
}
const DeliveredBatch& Batch::delivered() const { return *rep_->micro_batches[rep_->shown]; }

Batch Batch::Part(std::uint32_t part) const {
  if (part == rep_->shown) return *this;
  auto rep = std::make_shared<Rep>(*rep_);
  rep->shown = part;
  return Batch(std::move(rep));
}

Position Batch::position() const { return rep_->position; }
std::uint64_t Batch::step() const { return rep_->step; }
std::uint64_t Batch::ordinal() const { return rep_->ordinal; }
std::uint32_t Batch::rank() const { return rep_->rank; }
const std::shared_ptr<const PackedBatch>& Batch::packed() const { return rep_->packed; }
std::shared_ptr<const void> Batch::owner() const { return rep_; }

// --- Session ----------------------------------------------------------------------------------

Result<std::unique_ptr<Session>> Session::Create(const SessionOptions& options,
                                                 const SessionEnvironment& environment) {
  MILLRACE_ASSIGN_OR_RETURN(client::SessionMachineOptions machine, MachineOptions(options));
  SessionEnvironment real = environment;
  if (real.clock == nullptr) real.clock = std::make_shared<SystemClock>();
  SessionOptions own = options;
  own.logger = options.logger == nullptr
                   ? MakeNullLogger()
                   : std::make_shared<RepeatFilter>(options.logger, real.clock);
  if (real.device == nullptr) {
    // The device holds two batches besides those expanded ahead: the one that the loop works on,
    // and the one that the device still works on.
    const DeviceLimits limits{(options.expanded_batches + 2) * options.micro,
                              std::max(DeviceLimits{}.bytes, 4 * options.expanded_bytes)};
    MILLRACE_ASSIGN_OR_RETURN(real.device, MakeDevice(options.device, limits));
  }
  if (real.connector == nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(
        auto tls, OpenClientTls(options.tls, std::make_shared<SystemClock>(), own.logger));
    real.connector = MakeGrpcConnector({.tls = std::move(tls)});
    if (options.shared_memory) {
      real.connector = MakeShmConnector(std::move(real.connector), NetworkHostId(),
                                        [device = real.device](std::span<const std::byte> bytes) {
                                          return device->OnMapped(bytes);
                                        });
    }
  }
  if (real.random == nullptr) real.random = MakeRandom();
  if (options.keep_freed_memory) KeepFreedMemory();
  auto runner = std::make_shared<SessionRunner>(own, real, std::move(machine));
  runner->Start();
  return std::unique_ptr<Session>(new Session(options, environment, std::move(runner)));
}

Result<std::unique_ptr<Session>> Session::Connect(const SessionOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Create(options));
  MILLRACE_RETURN_IF_ERROR(session->Attach());
  return session;
}

Session::Session(const SessionOptions& options, const SessionEnvironment& environment,
                 std::shared_ptr<SessionRunner> runner)
    : options_(options), environment_(environment), runner_(std::move(runner)) {}
Session::~Session() { runner_->Shutdown(); }

Status Session::Attach(const Interrupt& interrupt) { return runner_->Attach(interrupt); }
const BatchSpec& Session::spec() const { return runner_->spec(); }
Result<std::optional<Batch>> Session::Next(const Interrupt& interrupt) {
  return runner_->Next(interrupt);
}
Result<bool> Session::NextEpoch() { return runner_->NextEpoch(); }

Result<Batch> Session::BatchAt(std::uint64_t epoch, std::uint64_t step,
                               const Interrupt& interrupt) {
  if (cancelled_) return Cancelled("the session was cancelled");
  MILLRACE_ASSIGN_OR_RETURN(const StepArithmetic steps, StepArithmetic::Create(spec().steps));
  MILLRACE_ASSIGN_OR_RETURN(const Position at, steps.StepAt(epoch, step));
  SessionOptions peek = options_;
  peek.job = PeekJob(options_.job);
  peek.prefetch_bytes = 1;
  peek.cursor = Cursor{{{spec().order_fingerprint, at}}}.ToString();
  const Interrupt ended = [&] { return cancelled_ || (interrupt && interrupt()); };
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                            Session::Create(peek, environment_));
  MILLRACE_RETURN_IF_ERROR(session->Attach(ended));
  MILLRACE_ASSIGN_OR_RETURN(std::optional<Batch> batch, session->Next(ended));
  if (batch) return *std::move(batch);
  return Internal(fmt::format("no batch came of {}", at.ToString()));
}

std::uint64_t Session::epoch() const { return runner_->epoch(); }
Position Session::position() const { return runner_->position(); }
SessionStats Session::stats() const { return runner_->stats(); }
std::string Session::waiting_why() const { return runner_->waiting_why(); }
void Session::Cancel() {
  cancelled_ = true;
  runner_->Cancel();
}

std::string Session::cursor() const {
  return Cursor{{{runner_->spec().order_fingerprint, runner_->position()}}}.ToString();
}

Result<std::shared_ptr<const NamedTables>> Session::tables(const Interrupt& interrupt) {
  return runner_->Tables(interrupt);
}

}  // namespace millrace
