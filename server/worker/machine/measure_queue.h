// The ranges of examples that a worker has to measure for its dispatcher, and the results that the
// dispatcher has not confirmed yet.
//
// The dispatcher names all ranges that it lacks, again and again. A range that it no longer names
// is forgotten; a range that it still names after a while is sent again.
//
// Plain state without clock or network. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"
#include "millrace/v1/dispatcher.pb.h"

namespace millrace {

/// Examples to be measured at once.
struct MeasureJob {
  v1::ColumnSet set;
  v1::PipelineText pipeline;
  v1::ExampleRun run;
};

class MeasureQueue {
 public:
  /// A result is sent again if the dispatcher still asks for it this long after it was sent.
  static constexpr Duration kSendAgain = std::chrono::seconds(2);
  /// About the bytes of values in one report.
  static constexpr std::size_t kMostBytes = std::size_t{1} << 20;

  /// Takes over the ranges that the dispatcher wants. Ranges that are being measured go on.
  void Want(const v1::WorkResponse& response);
  /// The next range to measure, for any thread; nullopt if there is none.
  std::optional<MeasureJob> Next();
  /// Takes the values of a range, or why they are missing. The range is forgotten if it is no
  /// longer wanted.
  void OnMeasured(const MeasureJob& job, Result<std::vector<v1::MeasuredColumn>> columns);

  /// Whether a result was never sent.
  bool HasNews() const { return unsent_ > 0; }
  /// Adds to a report the results that were not sent yet, or are due to be sent again.
  void AddTo(v1::WorkRequest& report, Time now);
  /// A new stream to the dispatcher begins: everything is sent again on it.
  void SendAgain();

  /// Number of examples measured since the beginning.
  std::uint64_t measured_examples() const { return measured_examples_; }
  /// Number of ranges that are wanted and not measured.
  std::uint64_t pending() const { return entries_.size() - done_; }

 private:
  struct Entry {
    v1::ExampleRun run;
    bool begun = false;
    std::optional<v1::Measured> result;
    std::optional<Time> sent;  // the result
  };
  using Place = std::tuple<std::string, std::uint64_t>;  // the set, and the first example

  void Count(const Entry& entry, int sign);

  std::map<std::string, v1::MeasureTask> tasks_;  // by the bytes of their sets; without runs
  std::map<Place, Entry> entries_;
  std::uint64_t done_ = 0;    // entries with a result
  std::uint64_t unsent_ = 0;  // of these, never sent
  std::uint64_t measured_examples_ = 0;
};

}  // namespace millrace
