// Puts a reply together from the attempts of one process after another, and decides which rows are
// tried next:
//
// - A row that failed is tried once more, in another process. After two tries it has failed.
// - If a process ended, or was ended, the row in work is to blame; the others are tried again
//   without being blamed. While one call built several rows of a source, the fault is unknown: from
//   then on rows are built one by one.
// - The rows of a call for a whole batch fail together.
//
// Thread-compatible. It knows no processes, threads or clocks.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "server/plugin/plugin_process.h"
#include "server/plugin/plugin_reply.h"

namespace millrace {

class ReplyAssembly {
 public:
  static constexpr int kMaxTries = 2;
  /// After so many processes have ended, rows that were not tried fail too.
  static constexpr int kMaxEnded = 16;

  ReplyAssembly(std::size_t rows, bool per_batch);

  /// The rows to be tried next; empty if the reply is complete.
  std::span<const std::size_t> next() const { return next_; }
  bool at_once() const { return at_once_; }

  /// Takes one process's answer to next(). True if that process must not be used any more.
  bool Add(BuildAttempt attempt);

  /// REQUIRES: next() is empty. `process` is kept as long as the reply.
  PluginReply Take(std::shared_ptr<const void> process);

 private:
  /// Counts a try of a row that failed, and keeps the row in again_ if it may be tried again.
  void Fail(std::size_t row, PluginFailure failure);

  const bool per_batch_;
  bool at_once_ = true;
  int ended_ = 0;
  std::vector<std::size_t> next_;
  std::vector<std::size_t> again_;  // failed once; they are tried when the others are done
  std::vector<int> tries_;
  PluginReply reply_;
};

}  // namespace millrace
