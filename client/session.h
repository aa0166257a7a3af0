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

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/session/machine/stats.h"
#include "client/session_options.h"
#include "client/spec.h"
#include "common/base/result.h"
#include "common/base/tables.h"
#include "common/batch/batch.h"
#include "common/epoch/position.h"
#include "common/system/clock.h"

namespace millrace {

class Connector;
class DeliveredBatch;
class Device;

/// Things that tests can replace. For a null member, a session uses the real one.
struct SessionEnvironment {
  std::shared_ptr<Connector> connector;
  std::shared_ptr<const Clock> clock;
  std::shared_ptr<Device> device;  // null: the device in SessionOptions::device
  std::function<double()> random;  // returns numbers in [0, 1)
  /// The longest time that the session's own thread sleeps before it reads the clock again.
  Duration longest_sleep = std::chrono::seconds(1);
};

/// A call that blocks asks this about every 50 ms, on the thread that called and without any lock
/// held. true ends the call with Cancelled, and changes nothing else.
using Interrupt = std::function<bool()>;

/// A delivered batch: views into one aligned buffer. The buffer is used again after the last Batch
/// and the last owner() that point to it are dropped. Cheap to copy.
class Batch {
 public:
  const std::vector<DeliveredTensor>& tensors() const;
  /// The tensor with this path; nullptr if there is none.
  const DeliveredTensor* Find(std::string_view path) const;
  /// The number of examples. Tensors have more rows if graphs are padded (BatchSpec::graph_pad).
  std::size_t examples() const;
  /// Example ids in row order, dropped examples with their reasons, the epoch and the range.
  const BatchInfo& info() const;

  Position position() const;  // the position of its step
  std::uint64_t epoch() const { return position().epoch; }
  std::uint64_t step() const;     // number within its epoch, the same on all ranks
  std::uint64_t ordinal() const;  // step * world size + rank
  std::uint32_t rank() const;

  /// The number of parts in which the batch was delivered (SessionOptions::micro). Except for the
  /// position, everything above describes one part. Next returns the first one.
  std::uint32_t parts() const;
  /// Part `part` of the batch. It keeps the whole batch alive. REQUIRES: part < parts().
  Batch Part(std::uint32_t part) const;

  /// The packed form of the whole batch, if SessionOptions::packed asked for it; otherwise null.
  const std::shared_ptr<const PackedBatch>& packed() const;
  /// Keeps the memory of the tensors alive, for views that outlive the batch.
  std::shared_ptr<const void> owner() const;

  struct Rep;
  explicit Batch(std::shared_ptr<const Rep> rep) : rep_(std::move(rep)) {}

 private:
  const DeliveredBatch& delivered() const;

  std::shared_ptr<const Rep> rep_;
};

class Session {
 public:
  /// Calls Create and then Attach.
  static Result<std::unique_ptr<Session>> Connect(const SessionOptions& options);

  /// A session that begins to attach in the background. InvalidArgument for options that do not
  /// make sense. NotFound if the pipeline file does not exist.
  static Result<std::unique_ptr<Session>> Create(const SessionOptions& options,
                                                 const SessionEnvironment& environment = {});
  /// Notifies the dispatcher that the session ends; this takes at most a second. REQUIRES: no other
  /// thread is in a call of the session.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Blocks until the dispatcher has admitted the session. Afterwards spec() is known. Unavailable
  /// if no dispatcher answers. FailedPrecondition, Aborted, InvalidArgument or DataLoss if the
  /// dispatcher answers that. Cancelled if the call was interrupted or the session was cancelled.
  Status Attach(const Interrupt& interrupt = nullptr);

  /// REQUIRES: attached.
  const BatchSpec& spec() const;

  /// The next batch. At the end of an epoch it returns nullopt, repeatedly until NextEpoch. Blocks.
  /// An error other than Cancelled is final: it is the reason why the session ended.
  Result<std::optional<Batch>> Next(const Interrupt& interrupt = nullptr);

  /// Goes on to the next epoch. Returns false if no epoch is left to read. FailedPrecondition if
  /// some batches of this epoch were not taken.
  Result<bool> NextEpoch();

  /// The epoch of the batches that Next returns.
  std::uint64_t epoch() const;
  /// The place of the loop: after the last batch that it took. The text is the same on all ranks
  /// after the same step. A session of any world size can go on from it.
  std::string cursor() const;
  Position position() const;

  /// The tables that numbers in batches refer to, such as the names of labels. The first call
  /// fetches them from a worker, and blocks.
  Result<std::shared_ptr<const NamedTables>> tables(const Interrupt& interrupt = nullptr);

  SessionStats stats() const;
  /// Why the dispatcher lets the session wait; empty if it does not wait.
  std::string waiting_why() const;

  /// Ends every call that blocks, and every later call that would block, at once with Cancelled.
  void Cancel();

 private:
  class Core;
  explicit Session(std::shared_ptr<Core> core);

  std::shared_ptr<Core> core_;
};

}  // namespace millrace
