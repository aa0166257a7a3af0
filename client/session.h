// Millrace's client: batches of one rank of a job, in order, each exactly once.
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
// Thread safety: one thread calls Next and NextEpoch; all else may be called from any thread.
// Batches may be dropped on any thread, and may outlive the session.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/session/machine/stats.h"
#include "client/spec.h"
#include "common/base/result.h"
#include "common/batch/batch.h"
#include "common/epoch/position.h"
#include "common/system/clock.h"

namespace millrace {

class Connector;
class DeliveredBatch;
class Device;
class Logger;

struct SessionOptions {
  /// Of the dispatcher's control port; with commas between them where there are several.
  std::string address = "127.0.0.1:7700";
  std::string job;
  std::string pipeline;                // the YAML text; or
  std::string pipeline_file;           // a file with it
  std::string variant;                 // of the pipeline; empty: none
  std::vector<std::string> overrides;  // key=value, applied in order
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  std::uint32_t replica = 0;  // replicas of one rank read the same batches
  std::uint32_t epochs = 0;   // to read, the one that the session starts in included; 0: no end
  DType index_dtype = DType::kInt32;  // or kInt64
  /// Packed batches that are received ahead of the loop, in bytes; the next one has its place
  /// beyond.
  std::uint64_t prefetch_bytes = std::uint64_t{256} << 20;
  /// Where batches are delivered: "host", or "cuda:N", a GPU of this machine.
  std::string device = "host";
  /// Batches that are expanded ahead of the loop, there; in bytes, the next one has its place
  /// beyond.
  std::uint64_t expanded_batches = 2;
  std::uint64_t expanded_bytes = std::uint64_t{1} << 30;
  std::string cursor;      // where to go on, from Session::cursor; empty: epoch 0, position 0
  bool any_start = false;  // ranks may start at different cursors
  /// Of the job: workers divide their time between jobs that wait by it, 1 to 1,000.
  std::uint32_t priority = 1;
  bool packed = false;  // batches keep their packed form too
  /// Parts of whole examples that each batch is delivered in (Batch::Part), for gradients that are
  /// accumulated: each counts its nodes from 0.
  std::uint32_t micro = 1;
  /// Batches of workers on this host are read where the worker built them, where that is possible.
  bool shared_memory = true;
  /// Lets malloc keep freed memory (KeepFreedMemory), for the whole process: received messages cost
  /// half as much then.
  bool keep_freed_memory = true;
  double connect_timeout_seconds = 30;  // until a dispatcher answers at all
  double attach_timeout_seconds =
      0;                           // until the first spec; 0: as long as the dispatcher says wait
  std::shared_ptr<Logger> logger;  // of events, none a batch; null: none
};

/// What a session stands on. Null members: the real ones.
struct SessionEnvironment {
  std::shared_ptr<Connector> connector;
  std::shared_ptr<const Clock> clock;
  std::shared_ptr<Device> device;  // else that of SessionOptions::device
  std::function<double()> random;  // in [0, 1)
  /// How long the session's own thread sleeps at most before it reads the clock again.
  Duration longest_sleep = std::chrono::seconds(1);
};

/// Asked about every 50 ms by calls that block, on the thread that blocks and without any lock
/// held: true ends the call with Cancelled, and nothing else changes.
using Interrupt = std::function<bool()>;

/// A delivered batch: views over one aligned buffer, which is used again when the last Batch and
/// owner() that point to it are gone. Cheap to copy.
class Batch {
 public:
  const std::vector<DeliveredTensor>& tensors() const;
  /// The tensor with this path, or nullptr.
  const DeliveredTensor* Find(std::string_view path) const;
  std::size_t graphs() const;
  /// Example ids in row order, dropped ones with reasons, epoch and range.
  const BatchInfo& info() const;

  Position position() const;  // of its step
  std::uint64_t epoch() const { return position().epoch; }
  std::uint64_t step() const;     // within its epoch, the same on all ranks
  std::uint64_t ordinal() const;  // step * world size + rank
  std::uint32_t rank() const;

  /// Parts that the batch was delivered in (SessionOptions::micro). All above but the position is
  /// that of one part: of the first one, as Next gives it.
  std::uint32_t parts() const;
  /// One part. It holds the whole batch. REQUIRES: part < parts().
  Batch Part(std::uint32_t part) const;

  /// The packed form of the whole batch, where SessionOptions::packed asked for it; else null.
  const std::shared_ptr<const PackedBatch>& packed() const;
  /// Keeps the tensors' memory alive, for views that outlive the batch.
  std::shared_ptr<const void> owner() const;

  struct Rep;
  explicit Batch(std::shared_ptr<const Rep> rep) : rep_(std::move(rep)) {}

 private:
  const DeliveredBatch& delivered() const;

  std::shared_ptr<const Rep> rep_;
};

class Session {
 public:
  /// Create, then Attach.
  static Result<std::unique_ptr<Session>> Connect(const SessionOptions& options);

  /// A session that begins to attach in the background. InvalidArgument for options that cannot be;
  /// NotFound for a pipeline file that is not there.
  static Result<std::unique_ptr<Session>> Create(const SessionOptions& options,
                                                 const SessionEnvironment& environment = {});
  /// Says good-bye to the dispatcher, at most a second. Other threads must have left the session.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Blocks until the dispatcher has let the session in: spec() is known then. Unavailable where no
  /// dispatcher answers; FailedPrecondition, Aborted, InvalidArgument, DataLoss as the dispatcher
  /// says; Cancelled.
  Status Attach(const Interrupt& interrupt = nullptr);

  /// REQUIRES: attached.
  const BatchSpec& spec() const;

  /// The next batch; none at the end of an epoch, again and again until NextEpoch. Blocks. An error
  /// other than Cancelled is final: what ended the session.
  Result<std::optional<Batch>> Next(const Interrupt& interrupt = nullptr);

  /// Goes on to the next epoch; false where there is none to read. FailedPrecondition where batches
  /// of this epoch are left.
  Result<bool> NextEpoch();

  /// The epoch that Next gives batches of.
  std::uint64_t epoch() const;
  /// Where the loop is: what follows the last batch taken. The same text on all ranks after the
  /// same step; a session of any world size goes on from it.
  std::string cursor() const;
  Position position() const;

  /// Names of labels and tactics, and the node labels of a global context. Fetched from a worker at
  /// the first call of either, which blocks.
  Result<VocabularyTable> vocabulary(const Interrupt& interrupt = nullptr);
  Result<std::vector<std::uint32_t>> context(std::uint64_t id,
                                             const Interrupt& interrupt = nullptr);

  SessionStats stats() const;
  /// Why the dispatcher lets the session wait; empty where it does not.
  std::string waiting_why() const;

  /// Ends every blocked and later call that waits with Cancelled, at once.
  void Cancel();

 private:
  class Core;
  explicit Session(std::shared_ptr<Core> core);

  std::shared_ptr<Core> core_;
};

}  // namespace millrace
