// The ranges of examples that a worker has to measure for its dispatcher, and what it has measured
// of them and the dispatcher has not confirmed yet.
//
// The dispatcher says all that it lacks, again and again. What it names no longer is forgotten;
// what it still names after a while is sent again.
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
  /// A result is sent again if the dispatcher still asks for it so long after it was sent.
  static constexpr Duration kSendAgain = std::chrono::seconds(2);
  /// Bytes of values in one report, about.
  static constexpr std::size_t kMostBytes = std::size_t{1} << 20;

  /// Takes over what the dispatcher wants measured. Ranges that are being measured go on.
  void Want(const v1::WorkResponse& response);
  /// The next range to measure, for any thread; nullopt if there is none.
  std::optional<MeasureJob> Next();
  /// Takes the values of a range, or why there are none. It is forgotten if nobody wants it any
  /// more.
  void OnMeasured(const MeasureJob& job, Result<std::vector<v1::MeasuredColumn>> columns);

  /// Whether there is something that was never sent.
  bool HasNews() const { return unsent_ > 0; }
  /// Adds to a report what was not sent yet, or so long ago that it is sent again.
  void AddTo(v1::WorkRequest& report, Time now);
  /// A new stream to the dispatcher begins: everything is sent again on it.
  void SendAgain();

  /// Examples that were measured since the beginning.
  std::uint64_t measured_examples() const { return measured_examples_; }
  /// Ranges that are wanted and not measured.
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
