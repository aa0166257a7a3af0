// A number of workers that follows a need without flapping. It rises when more workers have been
// needed for some seconds, and falls when fewer have sufficed for some minutes.
//
// Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

#include "common/base/time.h"

namespace millrace {

/// The most workers to ask for while `present` are there: twice as many, at least 1.
std::uint32_t MostWorkers(std::uint32_t present);

/// The whole number of workers that covers a need, at least 1. REQUIRES: `need` is in [0, 2^31].
std::uint32_t WholeWorkers(double need);

/// The least (Sign -1) or the greatest (Sign 1) of the values of the last `span`.
template <int Sign>
class SlidingExtreme {
 public:
  explicit SlidingExtreme(Duration span) : span_(span) {}

  /// REQUIRES: `at` is not before the last value's time.
  void Add(Time at, double value) {
    while (!values_.empty() && Sign * values_.back().value <= Sign * value) values_.pop_back();
    values_.push_back({at, value});
    while (at - values_.front().at > span_) values_.pop_front();
  }
  void Clear() { values_.clear(); }
  /// REQUIRES: a value has been added since the last Clear.
  double value() const { return values_.front().value; }

 private:
  struct Value {
    Time at;
    double value;
  };
  const Duration span_;
  std::deque<Value> values_;  // each is more extreme than the values after it
};

class SteadyFigure {
 public:
  /// The figure rises to the need that held throughout this time.
  static constexpr Duration kRiseAfter = std::chrono::seconds(15);
  /// The figure falls to the most that was needed within this time.
  static constexpr Duration kFallAfter = std::chrono::minutes(3);
  /// The part by which a need has to exceed the figure before it rises. It falls only if one worker
  /// less would cover that much more than the need.
  static constexpr double kMargin = 0.05;

  /// Takes a snapshot, about once a second. `need` is in workers, and unset if it is not known: the
  /// figure then stays, or, before any need was known, becomes the number of present workers. The
  /// first snapshot sets the figure to this number; workers that come within kRiseAfter of it are
  /// present too. The need is unknown for the time between two snapshots that are more than
  /// kLongestGap apart, so that the figure then stays until it was watched long enough again.
  /// REQUIRES: `need` is not negative; `now` is not before the last snapshot.
  void Update(Time now, std::optional<double> need, std::uint32_t present);

  /// At least 1.
  std::uint32_t workers() const { return workers_; }

 private:
  static constexpr Duration kLongestGap = std::chrono::seconds(5);

  std::uint32_t workers_ = 1;
  bool known_ = false;         // whether a need was ever known
  std::optional<Time> first_;  // snapshot
  Time watched_;               // since when snapshots have come without a gap
  Time last_;
  SlidingExtreme<-1> least_{kRiseAfter};
  SlidingExtreme<1> most_{kFallAfter};
};

}  // namespace millrace
