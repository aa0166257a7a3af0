// Tunes how many bytes a session receives ahead of its loop (docs/guides/tuning.md): as few as keep
// the loop from waiting, and no more than prefetch_bytes.
//
// Not thread-safe: part of the session's state machine.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "client/session/machine/session_context.h"
#include "client/session/machine/stats.h"
#include "client/session/machine/stock.h"
#include "common/tune/tuner.h"
#include "millrace/v1/dispatcher.pb.h"

namespace millrace::client {

class SessionTuning {
 public:
  /// It changes context.ahead_bytes, which begins as the option prefetch_bytes, and is less once
  /// the size of a batch is known.
  explicit SessionTuning(SessionContext& context);

  /// The session is admitted.
  void Start(const SessionStats& counted, Time now);
  /// The loop has taken a batch.
  void OnTaken(const Stock& stock);
  /// Whether a second is over and Look has to be called.
  bool Due(Time now) const { return started_ && now - began_ >= kSecond; }
  struct Supplied {
    std::size_t workers = 0;  // that the session has
    bool wants_more = false;  // a step finds no slot: workers are short, not bytes
  };
  /// `counted`: as SessionReport counts. REQUIRES: Due(now).
  void Look(const SessionStats& counted, const Stock& stock, Supplied supplied, Time now);
  void AddTimes(NextDue& next) const;

  void AddTo(v1::Tuning& tuning, Time now) const;
  /// Counts the changes of what AddTo adds.
  std::uint64_t changes() const { return changes_; }

 private:
  static constexpr std::size_t kAhead = 0;
  static constexpr Duration kSecond = std::chrono::seconds(1);

  /// The stock in one second.
  struct Second {
    std::uint64_t fewest = 0;  // batches left when the loop took one
    std::uint64_t most = 0;
    std::uint64_t fell = 0;   // the most by which they became fewer, from any moment to a later one
    std::uint64_t taken = 0;  // batches
    double waited = 0;        // seconds
  };

  /// Gives the setting its first value, with the first batch. The stock was empty before.
  void BeginWith(double bytes);
  /// Makes the session go by the setting's value.
  void Apply();
  void Propose(const Stock& stock, Supplied supplied);
  /// How many batches ahead suffice, so that `cover` are left at the worst moment.
  double Enough(double cover, const Stock& stock, std::size_t workers) const;
  /// The most by which the stock fell in the last seconds, from any moment to a later one.
  std::uint64_t Fell() const;

  SessionContext& context_;
  tune::Tuner tuner_;
  std::vector<tune::Setting> settings_;
  bool started_ = false;
  bool sized_ = false;   // the setting has its first value
  Time began_;           // of the second that is counted
  SessionStats before_;  // at its beginning
  Second second_;
  std::deque<Second> seconds_;  // the last ones
  std::uint64_t changes_ = 1;
};

}  // namespace millrace::client
