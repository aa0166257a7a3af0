// A dispatcher and a worker that are as simple as possible, for sessions over the in-process
// network. Batches have one tensor, and example i is the number i.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "client/session.h"
#include "common/base/tables.h"
#include "common/batch/batch_writer.h"
#include "common/system/mutex.h"
#include "tests/support/in_process.h"

namespace millrace::client {

inline constexpr const char* kDispatcherAddress = "dispatcher:1";
inline constexpr const char* kWorkerAddress = "worker:1";

/// The packed batch of the places in `range`. Its one tensor is "number", with int64 bounds and
/// uint32 values. The first example may be dropped.
std::shared_ptr<const PackedBatch> NumbersBatch(std::uint64_t epoch, ExampleRange range,
                                                std::optional<DropReason> drops_first_as = {});

/// The state that both fakes share, and that a test may change while they run. Thread-safe.
struct FakeService {
  StepOptions steps{.examples = 60, .size = 5, .keep = true, .world_size = 1};
  std::string static_bytes;
  std::vector<TableSpec> tables;             // tables of the spec
  std::vector<std::string> drop_reasons;     // drop_reasons of the spec
  v1::TensorProgram program;                 // of the spec, if it has outputs
  std::optional<DropReason> drops_first_as;  // why the first example of every batch is dropped

  Mutex mutex;
  CondVar changed;
  bool admit MILLRACE_GUARDED_BY(mutex) = true;    // false: every Hello waits
  bool serve MILLRACE_GUARDED_BY(mutex) = true;    // false: the worker sends nothing
  Status refuse MILLRACE_GUARDED_BY(mutex);        // not ok: every Attach ends with it
  bool damage MILLRACE_GUARDED_BY(mutex) = false;  // whether a bit of every batch is flipped
  int byes MILLRACE_GUARDED_BY(mutex) = 0;
  int attaches MILLRACE_GUARDED_BY(mutex) = 0;
  int sent MILLRACE_GUARDED_BY(mutex) = 0;  // batches sent
  std::vector<v1::Hello> hellos MILLRACE_GUARDED_BY(mutex);
  v1::WantList wants MILLRACE_GUARDED_BY(mutex);  // the last one
  std::vector<std::shared_ptr<Stream<v1::AttachResponse>>> streams MILLRACE_GUARDED_BY(mutex);
};

std::shared_ptr<DispatcherEndpoint> MakeFakeDispatcher(std::shared_ptr<FakeService> service);
std::shared_ptr<WorkerEndpoint> MakeFakeWorker(std::shared_ptr<FakeService> service);

/// Both fakes on an in-process network, and sessions that use them.
class FakeWorld {
 public:
  FakeWorld();
  /// Drops the streams that the service kept, since they must not outlive the network.
  ~FakeWorld();

  SessionOptions Options() const;
  /// A session that has not attached yet.
  std::unique_ptr<Session> Create(const SessionOptions& options);
  std::unique_ptr<Session> Create() { return Create(Options()); }

  std::shared_ptr<FakeService> service = std::make_shared<FakeService>();
  InProcessNetwork network;
};

}  // namespace millrace::client
