// The output of a process, as lines for a log: long lines are cut, and excess lines are only
// counted. The last bytes are kept for errors.
//
// Thread-compatible. It has no clock of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/base/time.h"

namespace millrace {

class OutputLines {
 public:
  static constexpr std::size_t kMaxLineBytes = 1000;
  static constexpr std::size_t kLastBytes = 4096;
  /// The most lines at once, and per second in the long run.
  static constexpr double kBurst = 200;
  static constexpr double kLinesPerSecond = 20;

  /// Called with lines without their ends. They are UTF-8 without control characters except tabs.
  using OnLine = std::function<void(std::string_view line)>;
  explicit OutputLines(OnLine on_line) : on_line_(std::move(on_line)) {}

  /// Output that came at the moment `now`.
  void Add(std::string_view bytes, Time now);
  /// Reports the omitted lines, if lines may be passed on again. Call it now and then.
  void Tick(Time now);
  /// The end of the output: passes on the last line without an end, and reports the omitted lines.
  void Finish(Time now);

  /// The last bytes of everything, as text.
  std::string LastOutput() const;

 private:
  void EndLine(Time now);
  void Refill(Time now);
  void TellLeftOut();

  const OnLine on_line_;
  std::string line_;              // the start of the line that has no end yet
  std::uint64_t cut_ = 0;         // bytes of that line that are not in line_
  std::uint64_t left_lines_ = 0;  // since lines were passed on
  std::uint64_t left_bytes_ = 0;
  double budget_ = kBurst;  // lines that may be passed on
  Time refilled_;
  std::string last_;
};

}  // namespace millrace
