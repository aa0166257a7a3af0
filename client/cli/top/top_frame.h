// The frames of `millrace top`: made from two statuses of a service, as lines of text.
//
// Pure functions over values; a TopHistory is not thread-safe.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "millrace/v1/dispatcher.pb.h"

namespace millrace::cli {

/// The order of the lists: by name; by batches per second, most first; or by waiting, longest first
/// (for workers: the ones that consumers wait for most, first).
enum class TopSort { kName, kRate, kWaited };

/// One of "name", "rate", "waited".
std::string TopSortName(TopSort sort);
/// The next order; after the last one comes the first.
TopSort NextSort(TopSort sort);

struct TopView {
  std::size_t width = 0;   // in columns; 0: no limit
  std::size_t height = 0;  // in lines; 0: no limit
  TopSort sort = TopSort::kName;
  bool paused = false;
  std::string notice;  // about the view itself; empty: no notice
};

struct TopLine {
  enum class Style { kPlain, kTitle, kHeading, kAlarm, kFaint };
  std::string text;
  Style style = Style::kPlain;
};

/// Shows jobs, workers, consumers, who waits for whom, and the last events. A rate is the
/// difference between the cumulative figures of `before` and `now`; it is "-" if `before` is null
/// or does not know the worker or session. Lists share the height fairly. Rows that do not fit are
/// counted in a last line such as "… 312 more".
std::vector<TopLine> TopFrame(const v1::ServiceStatus* before, const v1::ServiceStatus& now,
                              const TopView& view);

/// Keeps the statuses that a frame needs: the newest one, and one far enough before it. Peers
/// report once per second, so a rate over a shorter time would jump between zero and twice its
/// value.
class TopHistory {
 public:
  static constexpr double kApartSeconds = 1.5;

  void Add(v1::ServiceStatus status);
  bool empty() const { return statuses_.empty(); }
  /// The newest status that is at least kApartSeconds older than now(). If there is none, the
  /// oldest one. Null if there is only one status of this dispatcher's term.
  const v1::ServiceStatus* before() const {
    return statuses_.size() > 1 ? &statuses_.front() : nullptr;
  }
  /// Whether there are two statuses. With `settled`, they must also be so far apart that every peer
  /// has reported between them, so that no rate is missing.
  bool MayShow(bool settled) const;
  /// REQUIRES: not empty.
  const v1::ServiceStatus& now() const { return statuses_.back(); }

 private:
  std::deque<v1::ServiceStatus> statuses_;  // oldest first
};

}  // namespace millrace::cli
