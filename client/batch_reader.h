// What gives one rank's batches in order, wherever they are built: a session with a dispatcher
// (remote_reader.h), or a plan of this process (client/local).
//
// Thread safety: one thread calls Next and NextEpoch; all else may be called from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/session.h"
#include "client/session/machine/stats.h"
#include "client/spec.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/epoch/position.h"

namespace millrace {

/// What an example is, for a person.
struct ExampleOrigin {
  std::string file;
  std::string definition;                // name of its (first) definition or object
  std::optional<std::uint32_t> step;     // of a proof
  std::optional<std::uint32_t> outcome;  // of the step
  std::optional<bool> faithful;
  std::vector<std::string> members;  // names of all definitions of a cluster
};

class BatchReader {
 public:
  BatchReader() = default;
  virtual ~BatchReader() = default;
  BatchReader(const BatchReader&) = delete;
  BatchReader& operator=(const BatchReader&) = delete;

  /// Blocks until the first batch may be asked for. Everything below but Cancel, stats and
  /// waiting_why REQUIRES that it succeeded.
  virtual Status Attach(const Interrupt& interrupt) = 0;

  virtual const BatchSpec& spec() const = 0;
  /// The next batch; none at the end of an epoch, again and again until NextEpoch. Blocks.
  virtual Result<std::optional<Batch>> Next(const Interrupt& interrupt) = 0;
  /// Goes on to the next epoch; false where there is none to read. FailedPrecondition where batches
  /// of this epoch are left.
  virtual Result<bool> NextEpoch() = 0;
  /// This rank's batch of any step of any epoch, built for this call: the reader's own place stays.
  /// OutOfRange for a step that an epoch does not have. Blocks.
  virtual Result<Batch> BatchAt(std::uint64_t epoch, std::uint64_t step,
                                const Interrupt& interrupt) = 0;

  /// The epoch that Next gives batches of.
  virtual std::uint64_t epoch() const = 0;
  /// What follows the last batch taken.
  virtual Position position() const = 0;

  /// Names of labels and tactics, and the node labels of a global context. May block.
  virtual Result<VocabularyTable> vocabulary(const Interrupt& interrupt) = 0;
  virtual Result<std::vector<std::uint32_t>> context(std::uint64_t id,
                                                     const Interrupt& interrupt) = 0;
  /// What an example is; none where only the servers know. OutOfRange for one that does not exist.
  virtual Result<std::optional<ExampleOrigin>> Describe(ExampleId example) const = 0;

  virtual SessionStats stats() const = 0;
  /// Why Attach waits; empty where it does not.
  virtual std::string waiting_why() const = 0;
  /// Whether a process that is forked from this one may go on with the reader.
  virtual bool survives_fork() const = 0;

  /// Ends every blocked and later call that gives batches with Cancelled.
  virtual void Cancel() = 0;
};

}  // namespace millrace
