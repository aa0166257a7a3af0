// A terminal as a screen: taken over while something is shown on it, given back whatever happens.
//
// Plain escape sequences that every terminal of the last decades obeys (ECMA-48, and xterm's
// alternate screen); no terminal library.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <termios.h>

#include "common/system/mutex.h"

namespace millrace::cli {

struct TerminalSize {
  std::size_t columns = 80;
  std::size_t lines = 24;
  friend bool operator==(const TerminalSize&, const TerminalSize&) = default;
};

/// Standard output as a screen, and standard input, where that is a terminal too, as keys. Give and
/// Draw are thread-safe, the rest is for one thread.
class Terminal {
 public:
  /// Whether standard output is a terminal that knows escape sequences.
  static bool Usable();

  Terminal() = default;
  /// Gives the terminal back.
  ~Terminal() { Give(); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// Alternate screen, no cursor; keys come at once and are not shown. Nothing after Give.
  void Take();
  /// Everything as it was before Take; for good. Idempotent.
  void Give();

  TerminalSize size() const;
  /// Shows lines, each no wider than the screen and no more than it has, and nothing else. False
  /// where the terminal is gone. Does nothing before Take and after Give.
  bool Draw(const std::vector<std::string>& lines);

  /// A key, or none within `patience`. '\0': the keyboard is gone for good.
  std::optional<char> ReadKey(std::chrono::milliseconds patience) const;

 private:
  mutable Mutex mutex_;
  bool taken_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool given_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::atomic<bool> keys_{false};
  termios before_{};  // of the keyboard, where keys_
};

}  // namespace millrace::cli
