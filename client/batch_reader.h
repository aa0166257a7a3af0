// The interface of everything that gives one rank's batches in order: a session with a dispatcher
// (session.h), or a reader that builds them from a plan in this process (client/local).
//
// Thread safety: one thread calls Next and NextEpoch; any thread may call everything else.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/batch.h"
#include "client/session/machine/stats.h"
#include "client/spec.h"
#include "common/base/example_description.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/tables.h"
#include "common/epoch/position.h"

namespace millrace {

class BatchReader {
 public:
  BatchReader() = default;
  virtual ~BatchReader() = default;
  BatchReader(const BatchReader&) = delete;
  BatchReader& operator=(const BatchReader&) = delete;

  /// Blocks until the reader can give its first batch. All functions below except Cancel, stats and
  /// waiting_why REQUIRE that Attach has succeeded.
  virtual Status Attach(const Interrupt& interrupt = nullptr) = 0;

  virtual const BatchSpec& spec() const = 0;
  /// The next batch. At the end of an epoch it returns nullopt, repeatedly until NextEpoch. Blocks.
  virtual Result<std::optional<Batch>> Next(const Interrupt& interrupt = nullptr) = 0;
  /// Goes on to the next epoch. Returns false if no epoch is left to read. FailedPrecondition if
  /// some batches of this epoch were not taken.
  virtual Result<bool> NextEpoch() = 0;
  /// This rank's batch of any step of any epoch. It is built for this call, and the reader's own
  /// place does not change. OutOfRange for a step that the epoch does not have. Blocks.
  virtual Result<Batch> BatchAt(std::uint64_t epoch, std::uint64_t step,
                                const Interrupt& interrupt = nullptr) = 0;

  /// The epoch of the batches that Next returns.
  virtual std::uint64_t epoch() const = 0;
  /// The position after the last batch that Next returned.
  virtual Position position() const = 0;

  /// The tables that numbers in batches refer to. May block.
  virtual Result<std::shared_ptr<const NamedTables>> tables(
      const Interrupt& interrupt = nullptr) = 0;
  /// Describes an example. Returns nullopt if only the servers know it. OutOfRange if there is no
  /// such example.
  virtual Result<std::optional<ExampleDescription>> Describe(ExampleId example) const = 0;

  virtual SessionStats stats() const = 0;
  /// Why Attach waits; empty if it does not wait.
  virtual std::string waiting_why() const = 0;
  /// Whether a forked process may go on with the reader of its parent.
  virtual bool survives_fork() const = 0;

  /// Ends calls that give batches with Cancelled: those that are blocked now, and all later ones.
  virtual void Cancel() = 0;
};

}  // namespace millrace
