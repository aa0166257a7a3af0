// What `millrace top` shows: two statuses of a service in, lines out.
//
// Pure functions over values; a TopHistory is not thread-safe.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "millrace/v1/dispatcher.pb.h"

namespace millrace::cli {

/// What comes first in lists: the name; what has the most batches a second; what waits most
/// (workers: what is waited for most).
enum class TopSort { kName, kRate, kWaited };

/// "name", "rate", "waited".
std::string TopSortName(TopSort sort);
/// The next one, the first after the last.
TopSort NextSort(TopSort sort);

struct TopView {
  std::size_t width = 0;   // columns; 0: as many as the lines take
  std::size_t height = 0;  // lines; 0: as many as there are
  TopSort sort = TopSort::kName;
  bool paused = false;
  std::string notice;  // what the reader has to know of the view itself; empty: nothing
};

struct TopLine {
  enum class Style { kPlain, kTitle, kHeading, kAlarm, kFaint };
  std::string text;
  Style style = Style::kPlain;
};

/// Jobs, workers, consumers and who waits for whom. Rates are differences of the cumulative figures
/// of `before` and `now`, "-" where `before` is null or does not know the worker or session. Lists
/// share the height fairly; what does not fit is counted in a last line such as "… 312 more".
std::vector<TopLine> TopFrame(const v1::ServiceStatus* before, const v1::ServiceStatus& now,
                              const TopView& view);

/// The statuses that a frame needs: the newest, and one far enough before it. Peers report once a
/// second, so that over less time a rate would jump between nothing and twice its value.
class TopHistory {
 public:
  static constexpr double kApartSeconds = 1.5;

  void Add(v1::ServiceStatus status);
  bool empty() const { return statuses_.empty(); }
  /// The newest one that is kApartSeconds older than now(); failing that the oldest; null where
  /// there is only one of this dispatcher's term.
  const v1::ServiceStatus* before() const {
    return statuses_.size() > 1 ? &statuses_.front() : nullptr;
  }
  /// Whether there are two statuses; with `settled`, so far apart that no rate is missing for want
  /// of a report in between.
  bool MayShow(bool settled) const;
  /// REQUIRES: not empty.
  const v1::ServiceStatus& now() const { return statuses_.back(); }

 private:
  std::deque<v1::ServiceStatus> statuses_;  // oldest first
};

}  // namespace millrace::cli
