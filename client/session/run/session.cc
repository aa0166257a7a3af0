#include "client/session.h"

#include <algorithm>
#include <random>
#include <utility>

#include "client/device/device.h"
#include "client/session/run/session_runner.h"
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

}  // namespace

// --- Batch ------------------------------------------------------------------------------------

const std::vector<DeliveredTensor>& Batch::tensors() const { return delivered().tensors(); }
const DeliveredTensor* Batch::Find(std::string_view path) const { return delivered().Find(path); }
std::size_t Batch::examples() const { return delivered().examples(); }
const BatchInfo& Batch::info() const { return delivered().info(); }
std::uint32_t Batch::parts() const { return static_cast<std::uint32_t>(rep_->parts.size()); }
const DeliveredBatch& Batch::delivered() const { return *rep_->parts[rep_->part]; }

Batch Batch::Part(std::uint32_t part) const {
  if (part == rep_->part) return *this;
  auto rep = std::make_shared<Rep>(*rep_);
  rep->part = part;
  return Batch(std::move(rep));
}

Position Batch::position() const { return rep_->position; }
std::uint64_t Batch::step() const { return rep_->step; }
std::uint64_t Batch::ordinal() const { return rep_->ordinal; }
std::uint32_t Batch::rank() const { return rep_->rank; }
const std::shared_ptr<const PackedBatch>& Batch::packed() const { return rep_->packed; }
std::shared_ptr<const void> Batch::owner() const { return rep_; }

// --- Session ----------------------------------------------------------------------------------

/// The class behind Session::Core. session.h only declares it, so that it need not include the
/// runner.
class Session::Core final : public SessionRunner {
 public:
  using SessionRunner::SessionRunner;
};

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
  auto core = std::make_shared<Core>(own, real, std::move(machine));
  core->Start();
  return std::unique_ptr<Session>(new Session(std::move(core)));
}

Result<std::unique_ptr<Session>> Session::Connect(const SessionOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Create(options));
  MILLRACE_RETURN_IF_ERROR(session->Attach());
  return session;
}

Session::Session(std::shared_ptr<Core> core) : core_(std::move(core)) {}
Session::~Session() { core_->Shutdown(); }

Status Session::Attach(const Interrupt& interrupt) { return core_->Attach(interrupt); }
const BatchSpec& Session::spec() const { return core_->spec(); }
Result<std::optional<Batch>> Session::Next(const Interrupt& interrupt) {
  return core_->Next(interrupt);
}
Result<bool> Session::NextEpoch() { return core_->NextEpoch(); }
std::uint64_t Session::epoch() const { return core_->epoch(); }
Position Session::position() const { return core_->position(); }
SessionStats Session::stats() const { return core_->stats(); }
std::string Session::waiting_why() const { return core_->waiting_why(); }
void Session::Cancel() { core_->Cancel(); }

std::string Session::cursor() const {
  return Cursor{{{core_->spec().order_fingerprint, core_->position()}}}.ToString();
}

Result<std::shared_ptr<const NamedTables>> Session::tables(const Interrupt& interrupt) {
  return core_->Tables(interrupt);
}

}  // namespace millrace
