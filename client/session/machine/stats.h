// The statistics of a session: its deliveries, and the seconds that the training loop waited, by
// cause. What counts of each batch is in BatchCounts.
//
// Thread-compatible value types.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/wait_cause.h"
#include "common/batch/layout/drop_reasons.h"
#include "common/batch/layout/layout.h"

namespace millrace {

/// The counts that a batch adds to the statistics.
struct BatchCounts {
  std::uint64_t examples = 0;       // that are in the batch
  std::uint64_t tokens = 0;         // elements of the plan's token tensor
  std::vector<DropReason> dropped;  // a reason for each planned example that is not
  std::vector<LostPieces> lost_pieces;
};

/// Cumulative over one session, counted when the training loop takes a batch.
struct SessionStats {
  std::uint64_t batches = 0;
  std::uint64_t examples = 0;  // delivered; dropped ones are counted by reason below
  std::uint64_t tokens = 0;    // in packed rows, or in examples of token datasets; others have none
  std::uint64_t bytes = 0;     // of packed batches
  /// Bytes that came over a network for those batches: fewer if they were compressed; batches that
  /// were read in place do not count.
  std::uint64_t wire_bytes = 0;
  std::uint64_t in_place = 0;  // batches that were read where a worker of this host built them
  std::array<std::uint64_t, kDropReasons> dropped{};  // by DropReason
  /// Pieces of packed documents that are missing because their documents are dropped, by
  /// DropReason.
  std::array<std::uint64_t, kDropReasons> pieces_lost{};
  DropReasonNames drop_reasons;  // names of the reasons: the plan's, once attached
  std::array<double, kWaitCauses> waited_seconds{};  // by WaitCause
  std::string device;            // describes the device, and names what could be faster, and why
  std::uint64_t duplicates = 0;  // batches that came twice
  std::uint64_t duplicate_mismatches = 0;  // batches that came twice with different digests
  std::uint64_t asks_first = 0;            // steps that a worker was asked for
  std::uint64_t asks_copy = 0;             // late steps that another worker was asked for, too
  std::uint64_t asks_moved = 0;            // steps that went to a worker that has them for a twin
  std::uint64_t moved_failed = 0;          // steps taken back from workers that failed,
  std::uint64_t moved_drained = 0;         // that drained,
  std::uint64_t moved_refused = 0;         // and that refused them

  std::uint64_t buffered_batches = 0;  // received, but not yet taken
  std::uint64_t buffered_bytes = 0;
  WaitCause now = WaitCause::kNone;  // the cause of the loop's present wait
  double now_seconds = 0;            // for how long already
  std::string now_worker;            // host:port, if the loop waits for a worker
  std::string now_stage;             // stage of the build, if the worker named it

  void Add(const BatchCounts& batch) {
    // Numbers of reasons have been checked, but an index must not be wrong.
    const auto number = [](DropReason reason) {
      return std::min(static_cast<std::size_t>(reason), kDropReasons - 1);
    };
    ++batches;
    examples += batch.examples;
    tokens += batch.tokens;
    for (const DropReason reason : batch.dropped) ++dropped[number(reason)];
    for (const LostPieces& lost : batch.lost_pieces) {
      pieces_lost[number(lost.reason)] += lost.pieces;
    }
  }
  double total_waited_seconds() const {
    double total = 0;
    for (const double seconds : waited_seconds) total += seconds;
    return total;
  }
};

}  // namespace millrace
