// A whole cluster inside one process: dispatcher, workers and sessions over an in-process network.
// Its clock runs about ten times as fast as wall time.
//
// A member is thread-safe if it says so; otherwise only the test's own thread may call it.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/session.h"
#include "common/system/mutex.h"
#include "server/dispatcher/service/dispatcher_service.h"
#include "server/plan/columns/kept_columns.h"
#include "server/plan/plan_library.h"
#include "server/state/state_store.h"
#include "server/worker/service/worker_service.h"
#include "tests/support/fake_clock.h"
#include "tests/support/in_process.h"

namespace millrace::test {

/// One batch, as a consumer got it or as the plan builds it.
struct BatchRecord {
  std::uint64_t epoch = 0;
  std::uint64_t ordinal = 0;
  std::string hash;
  friend auto operator<=>(const BatchRecord&, const BatchRecord&) = default;
};

/// What a cluster serves.
struct TestDataset {
  DatasetKinds kinds;                                           // that the cluster knows
  std::function<void(const std::filesystem::path& dir)> write;  // writes the dataset `data`
  std::string pipeline;                                         // over it
  std::shared_ptr<const OperationTable> operations = nullptr;   // null: the product's
  /// Each process opens the dataset by itself and has folders of its own: workers measure columns
  /// for the dispatcher, and fetch them. Otherwise all have one library.
  bool apart = false;
  std::string kind = {};  // of the dataset; empty: found by looking at it
};
/// A small generated dataset of proofs.
TestDataset SomeProofs();

class TestCluster {
 public:
  /// Writes the dataset, and starts a dispatcher.
  explicit TestCluster(const TestDataset& dataset = SomeProofs());
  ~TestCluster();
  TestCluster(const TestCluster&) = delete;
  TestCluster& operator=(const TestCluster&) = delete;

  /// `memory`: how many bytes of batches the worker may hold.
  void AddWorker(const std::string& name, std::uint64_t memory = 64 << 20, int threads = 1);
  /// Stops the worker as SIGTERM does: it is drained, then it ends.
  void StopWorker(const std::string& name);
  /// Stops the worker as kill -9 does.
  void KillWorker(const std::string& name);
  /// Has the effects of SIGSTOP (`paused`) and SIGCONT on the other processes.
  void PauseWorker(const std::string& name, bool paused);
  void KillDispatcher();
  void StartDispatcher();

  /// Options of a rank, with this cluster's pipeline and address.
  SessionOptions Options(std::uint32_t rank, std::uint32_t world_size) const;
  /// Opens a session on this network; `who` names the process that opens it. It delivers to
  /// `device`; null: as the options say. Thread-safe.
  Result<std::unique_ptr<Session>> Connect(const SessionOptions& options, const std::string& who,
                                           std::shared_ptr<Device> device = nullptr);

  /// The batches that the plan itself builds for an epoch, from a position on.
  std::vector<BatchRecord> Reference(std::uint64_t epoch, std::uint32_t world_size,
                                     std::uint64_t from = 0);

  const std::string& pipeline() const { return pipeline_; }
  /// Sets how long each batch takes to build, by the cluster's clock, at workers added from then
  /// on.
  void SetBuildTime(Duration time) { build_time_ = time; }
  /// How many batches all workers have built so far, or begun to build. Thread-safe.
  std::uint64_t Builds() const { return *builds_; }
  /// Call this before the first session.
  void SetPipeline(std::string yaml) { pipeline_ = std::move(yaml); }
  Result<v1::ServiceStatus> Status();
  /// Sets how long a range of examples takes to measure, by the cluster's clock, at workers added
  /// from then on.
  void SetMeasureTime(Duration time) { measure_time_ = time; }
  /// How many examples workers of this name have built to measure columns. Thread-safe.
  std::uint64_t MeasuredBy(const std::string& worker);
  std::uint64_t Measured();
  /// The folder of the columns of a process that is apart.
  std::filesystem::path ColumnsOf(const std::string& process) const;

  /// Begins a trace, which ends when the stream is dropped.
  std::shared_ptr<Stream<v1::TraceRequest>> Trace(
      std::shared_ptr<StreamHandler<v1::TraceChunk>> handler);

  static constexpr const char* kDispatcher = "dispatcher:1";

 private:
  void RunTime();
  PlanLibraryOptions LibraryOptions(const std::string& process) const;

  const TestDataset data_;
  std::filesystem::path dataset_;
  std::filesystem::path processes_;  // folders of those that are apart
  std::string pipeline_;
  Duration measure_time_{0};
  Duration build_time_{0};
  std::shared_ptr<std::atomic<std::uint64_t>> builds_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
  std::shared_ptr<FakeClock> clock_ = std::make_shared<FakeClock>();
  std::shared_ptr<StateStore> store_;
  std::shared_ptr<PlanLibrary> library_;       // of the dispatcher; of all if they are not apart
  std::shared_ptr<KeptColumns> kept_columns_;  // null: the processes are not apart
  InProcessNetwork network_;
  Mutex mutex_;
  std::shared_ptr<DispatcherService> dispatcher_ MILLRACE_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<WorkerService>> workers_ MILLRACE_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<std::atomic<std::uint64_t>>> measured_
      MILLRACE_GUARDED_BY(mutex_);
  std::atomic<bool> stopping_{false};
  std::thread time_;
};

/// Reads `epochs` epochs (or `steps` steps) of a session. Each batch's hash is that of its packed
/// payload.
Result<std::vector<BatchRecord>> ReadAll(Session& session, std::uint64_t epochs,
                                         std::optional<std::uint64_t> steps = std::nullopt);

}  // namespace millrace::test
