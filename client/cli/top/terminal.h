// A terminal used as a screen: it is taken over while something is shown, and given back whatever
// happens.
//
// It uses plain escape sequences that every terminal of the last decades obeys (ECMA-48, and
// xterm's alternate screen), and no terminal library.
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

/// Standard output as a screen, and standard input as keys if it is a terminal too. Give and Draw
/// are thread-safe; everything else is for one thread.
class Terminal {
 public:
  /// Whether standard output is a terminal that knows escape sequences.
  static bool Usable();

  Terminal() = default;
  /// Gives the terminal back.
  ~Terminal() { Give(); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// Switches to the alternate screen and hides the cursor; keys then arrive at once and are not
  /// shown. Does nothing after Give.
  void Take();
  /// Restores everything as it was before Take, for good. Idempotent.
  void Give();

  TerminalSize size() const;
  /// Shows these lines and nothing else. REQUIRES: no line is wider than the screen, and there are
  /// no more lines than it has. False if the terminal is gone. Does nothing before Take and after
  /// Give.
  bool Draw(const std::vector<std::string>& lines);

  /// Returns a key, or nullopt if no key comes within `patience`. '\0' means that the keyboard is
  /// gone for good.
  std::optional<char> ReadKey(std::chrono::milliseconds patience) const;

 private:
  mutable Mutex mutex_;
  bool taken_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool given_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::atomic<bool> keys_{false};
  termios before_{};  // state of the keyboard before Take; valid only if keys_
};

}  // namespace millrace::cli
