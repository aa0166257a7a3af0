// Tunes the settings of one process by trial (docs/guides/tuning.md). Once per second it gets how
// much was done, how much of the second somebody waited for this process, and how much of each
// setting was in use. It changes one setting at a time, measures the effect, and keeps or undoes
// it:
//
//   somebody waits    a setting of which all is in use goes up to its owner's proposal. That is
//                     kept if the rate rose, or waiting fell, by more than noise.
//   nobody waits      a setting of which less is in use goes down to what its owner says is enough.
//                     That is kept unless somebody waits then. In the first second in which
//                     somebody waits later, all that the setting gave back is taken back, without a
//                     trial: the load has changed by then.
//
// A change that was undone is tried again only after a while, which grows each time, and a change
// that was taken back too, unless the load has grown much meanwhile.
//
// A tuner proposes nothing beyond the limits of a setting. Its owner changes the setting at once,
// and may change limits at any time.
//
// Not thread-safe. It has no clock: its seconds are its calls.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/time.h"
#include "common/tune/samples.h"

namespace millrace::tune {

/// A second of the process.
struct Sample {
  double rate = 0;           // of the things waited for, such as batches per second
  double waiting = 0;        // share of the second in which somebody waited, 0 to 1
  std::string waited_for{};  // name of the cause of most of it; empty: no cause
  bool settling = false;     // the last change has not taken effect yet
};

/// A setting, and its part in use.
struct Setting {
  std::string name;
  double value = 0;
  double least = 0;
  double most = 0;
  bool pinned = false;  // it is never changed
  /// Proposals of the owner for the present second. A proposal that is not above the value, or not
  /// below it, does not count.
  double up = 0;
  double down = 0;
};

enum class Outcome : std::uint8_t {
  kTrying = 0,
  kKept = 1,
  kUndone = 2,
  kNotJudged = 3,  // the reason for the trial came to an end
};
/// "trying", "kept", "undone" or "not judged".
std::string_view OutcomeName(Outcome outcome);

/// A change of a setting, the measurements before and after it, and its outcome.
struct Decision {
  std::uint64_t number = 0;  // of the process, from 1
  Time at;                   // when it was made
  std::string setting;
  double from = 0;
  double to = 0;
  std::string waited_for;  // empty: nobody waited
  double rate_before = 0;
  double waiting_before = 0;
  double rate_after = 0;  // 0 while it is tried
  double waiting_after = 0;
  Outcome outcome = Outcome::kTrying;
};

/// A decision in one line: the cause of waits, the change, before and after, kept or undone.
std::string ToLine(const Decision& decision);

class Tuner {
 public:
  /// Decisions that are remembered.
  static constexpr std::size_t kMostDecisions = 32;
  /// Seconds that are measured before a change while somebody waits, left out after it, and
  /// measured after that; the measures take longer, up to kLongest, while noise hides the effect.
  static constexpr std::size_t kBefore = 5;
  static constexpr std::size_t kSettle = 2;
  /// Seconds until a change that does not take effect is measured nevertheless.
  static constexpr std::size_t kLongestSettle = 60;
  static constexpr std::size_t kAfter = 5;
  static constexpr std::size_t kLongest = 20;
  /// Seconds without waiting before something is given back, and then until that is kept.
  static constexpr std::size_t kCalm = 20;
  static constexpr std::size_t kCalmAfter = 10;
  /// Seconds until an undone change is tried again: at first, and at most.
  static constexpr std::uint64_t kFirstPause = 180;
  static constexpr std::uint64_t kLongestPause = 3600;
  /// Shares of waiting: the least that is worth a change, and the most that counts as no waiting.
  static constexpr double kWorthIt = 0.01;
  static constexpr double kNone = 0.002;

  /// Takes the figures of the second before `now`. Returns whether a decision was made or judged:
  /// the value of one setting may then be another. REQUIRES: always the same settings, in order;
  /// their values are the last call's, unless Restart was called.
  bool Step(const Sample& sample, std::vector<Setting>& settings, Time now);

  /// Begins anew, as a process that has nothing to do yet: a trial is not judged, and nothing
  /// pauses. The owner may give settings other values then.
  void Restart();

  /// The last decisions, oldest first. The newest may still be tried.
  const std::deque<Decision>& decisions() const { return decisions_; }

 private:
  struct Measured {
    Mean rate;
    Mean waiting;
    void Add(const Sample& sample) {
      rate.Add(sample.rate);
      waiting.Add(sample.waiting);
    }
  };
  struct Trial {
    std::size_t setting;
    bool up;
    Measured before;
    Measured after;
    bool takes_back = false;   // restores what was given back; measured only for reports
    std::size_t seconds = 0;   // since the change
    std::size_t settling = 0;  // of these, seconds with Sample::settling
  };
  /// When a setting may be tried again, in one direction.
  struct Pause {
    std::uint64_t until = 0;
    std::uint64_t length = kFirstPause;
  };
  struct Pauses {
    Pause up;
    Pause down;
  };
  /// A part of a setting that was given back because nobody waited.
  struct GivenBack {
    double value = 0;          // before that; 0: nothing
    double rate = 0;           // for which less sufficed
    std::uint64_t second = 0;  // of the last time
  };

  bool Try(std::vector<Setting>& settings, Time now);
  bool TakeBack(std::vector<Setting>& settings, Time now);
  Measured Last(std::size_t seconds) const;
  /// The last seconds, for a setting that goes up; empty if nobody waits, or if that is not sure.
  std::optional<Measured> WaitingBefore() const;
  void Begin(std::size_t setting, const Measured& before, bool up, double value,
             std::vector<Setting>& settings, Time now);
  bool Judge(const Sample& sample, std::vector<Setting>& settings);
  void End(bool kept, std::vector<Setting>& settings);
  /// Lets the pause begin, and makes the next one three times as long.
  void Defer(Pause& pause) const;

  std::uint64_t second_ = 0;
  std::deque<Sample> recent_;  // since the last change, at most kCalm
  std::optional<Trial> trial_;
  std::vector<Pauses> pauses_;  // by setting
  std::vector<GivenBack> given_back_;
  std::deque<Decision> decisions_;
  std::uint64_t last_number_ = 0;
};

}  // namespace millrace::tune
