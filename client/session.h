// The client library of Millrace. A session gives the batches of one rank of a job, in order, each
// exactly once.
//
//   auto session = millrace::Session::Connect({.address = "127.0.0.1:7700", .job = "train",
//                                              .pipeline_file = "train.yaml"});
//   do {
//     for (;;) {
//       auto batch = (*session)->Next();          // Result<std::optional<Batch>>
//       if (!batch.ok() || !batch->has_value()) break;
//       Train(**batch);
//     }
//   } while (*(*session)->NextEpoch());
//
// Thread safety: one thread calls Next and NextEpoch; any thread may call everything else. Batches
// may be dropped on any thread, and may outlive the session.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "client/batch.h"
#include "client/batch_reader.h"
#include "client/session/machine/stats.h"
#include "client/session_options.h"
#include "client/spec.h"
#include "common/base/result.h"
#include "common/base/tables.h"
#include "common/epoch/position.h"
#include "common/system/clock.h"

namespace millrace {

class Connector;
class Device;
class SessionRunner;  // client/session/run/session_runner.h

/// Things that tests can replace. For a null member, a session uses the real one.
struct SessionEnvironment {
  std::shared_ptr<Connector> connector;
  std::shared_ptr<const Clock> clock;
  std::shared_ptr<Device> device;  // null: the device in SessionOptions::device
  std::function<double()> random;  // returns numbers in [0, 1)
  /// The longest time that the session's own thread sleeps before it reads the clock again.
  Duration longest_sleep = std::chrono::seconds(1);
};

class Session final : public BatchReader {
 public:
  /// Calls Create and then Attach.
  static Result<std::unique_ptr<Session>> Connect(const SessionOptions& options);

  /// A session that begins to attach in the background. InvalidArgument for options that do not
  /// make sense. NotFound if the pipeline file does not exist.
  static Result<std::unique_ptr<Session>> Create(const SessionOptions& options,
                                                 const SessionEnvironment& environment = {});
  /// Notifies the dispatcher that the session ends; this takes at most a second. REQUIRES: no other
  /// thread is in a call of the session.
  ~Session() override;

  /// Blocks until the dispatcher has admitted the session. Afterwards spec() is known. Unavailable
  /// if no dispatcher answers. FailedPrecondition, Aborted, InvalidArgument or DataLoss if the
  /// dispatcher answers that. Cancelled if the call was interrupted or the session was cancelled.
  Status Attach(const Interrupt& interrupt = nullptr) override;

  const BatchSpec& spec() const override;
  /// An error other than Cancelled is final: it is the reason why the session ended.
  Result<std::optional<Batch>> Next(const Interrupt& interrupt = nullptr) override;
  Result<bool> NextEpoch() override;
  /// Fetches the batch with a second session, which has a job of its own and ends with the call.
  Result<Batch> BatchAt(std::uint64_t epoch, std::uint64_t step,
                        const Interrupt& interrupt = nullptr) override;

  std::uint64_t epoch() const override;
  /// The place of the loop: after the last batch that it took. The text is the same on all ranks
  /// after the same step. A session of any world size can go on from it.
  std::string cursor() const;
  Position position() const override;

  /// The first call fetches the tables from a worker, and blocks.
  Result<std::shared_ptr<const NamedTables>> tables(const Interrupt& interrupt = nullptr) override;
  Result<std::optional<ExampleDescription>> Describe(ExampleId /*example*/) const override {
    return std::optional<ExampleDescription>();
  }

  SessionStats stats() const override;
  /// Why the dispatcher lets the session wait; empty if it does not wait.
  std::string waiting_why() const override;
  bool survives_fork() const override { return false; }
  void Cancel() override;

 private:
  Session(const SessionOptions& options, const SessionEnvironment& environment,
          std::shared_ptr<SessionRunner> runner);

  const SessionOptions options_;
  const SessionEnvironment environment_;
  const std::shared_ptr<SessionRunner> runner_;
  std::atomic<bool> cancelled_ = false;
};

}  // namespace millrace
