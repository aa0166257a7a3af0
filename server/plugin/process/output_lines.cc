#include "server/plugin/process/output_lines.h"

#include <algorithm>

#include <fmt/format.h>

#include "server/plugin/reply/plugin_failure.h"

namespace millrace {

void OutputLines::Add(std::string_view bytes, Time now) {
  last_ += bytes.substr(bytes.size() - std::min(bytes.size(), kLastBytes));
  if (last_.size() > kLastBytes) last_.erase(0, last_.size() - kLastBytes);
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    const std::size_t taken = std::min(piece.size(), kMaxLineBytes - line_.size());
    line_ += piece.substr(0, taken);
    cut_ += piece.size() - taken;
    if (end == std::string_view::npos) return;
    EndLine(now);
    bytes.remove_prefix(end + 1);
  }
}

void OutputLines::EndLine(Time now) {
  Refill(now);
  if (budget_ >= 1) {
    if (left_lines_ > 0) TellLeftOut();
    budget_ -= 1;
    std::string text = PlainText(line_);
    std::replace(text.begin(), text.end(), '\n', ' ');
    if (cut_ > 0) text += fmt::format(" … ({} bytes more)", cut_);
    on_line_(text);
  } else {
    ++left_lines_;
    left_bytes_ += line_.size() + cut_;
  }
  line_.clear();
  cut_ = 0;
}

void OutputLines::Refill(Time now) {
  if (now > refilled_) {
    budget_ = std::min(kBurst, budget_ + kLinesPerSecond * ToSeconds(now - refilled_));
  }
  refilled_ = now;
}

void OutputLines::TellLeftOut() {
  on_line_(fmt::format("[{} lines with {} bytes were left out]", left_lines_, left_bytes_));
  left_lines_ = 0;
  left_bytes_ = 0;
}

void OutputLines::Tick(Time now) {
  Refill(now);
  if (left_lines_ > 0 && budget_ >= kBurst / 4) TellLeftOut();
}

void OutputLines::Finish(Time now) {
  if (!line_.empty() || cut_ > 0) EndLine(now);
  if (left_lines_ > 0) TellLeftOut();
}

std::string OutputLines::LastOutput() const {
  std::string_view words = last_;
  while (!words.empty() && words.back() == '\n') words.remove_suffix(1);
  return PlainText(words);
}

}  // namespace millrace
