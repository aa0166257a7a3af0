// Decides to which workers a session has streams.
//
// A stream is opened before anything is asked of its worker, because a worker gets steps only once
// it has spoken. Streams to the first members of the list come first. There are more as long as a
// step finds no slot.
//
// Not thread-safe: part of the session's state machine.
#pragma once

#include <cstddef>

#include "client/session/machine/ask_book.h"
#include "client/session/machine/dealing.h"
#include "client/session/machine/session_context.h"
#include "client/session/machine/session_times.h"
#include "client/session/machine/worker_book.h"

namespace millrace::client {

class Streams {
 public:
  static constexpr std::size_t kAtOnce = 8;
  static constexpr Duration kMoreEvery = std::chrono::milliseconds(100);
  static constexpr Duration kCloseUnused = std::chrono::seconds(10);

  Streams(SessionContext& context, const Dealing& dealing, WorkerBook& workers, const AskBook& asks)
      : context_(context), dealing_(dealing), workers_(workers), asks_(asks) {}

  /// Opens the streams that are due, after a dealing.
  void Open(Time now);
  /// Closes streams that have not been used for a while.
  void CloseUnused(Time now);
  /// When the next further streams are due.
  void AddTimes(NextDue& next) const;
  /// When members may be tried again that failed.
  void AddRetries(NextDue& next) const;
  /// The number of members up to the last one that is in use.
  std::size_t MembersUsed() const;

 private:
  /// Chooses the first kAtOnce members that may be asked and are not chosen yet. Returns false if
  /// there is none.
  bool ChooseMore(Time now);

  SessionContext& context_;
  const Dealing& dealing_;
  WorkerBook& workers_;
  const AskBook& asks_;

  Time raised_;  // when members were last chosen
};

}  // namespace millrace::client
