#include "client/cli/text_table.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <fmt/core.h>

namespace millrace::cli {
namespace {

constexpr std::string_view kCut = "…";

bool Continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

}  // namespace

std::size_t ColumnsOf(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !Continues(c); }));
}

std::string Printable(std::string_view text) {
  std::string out(text);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto c = static_cast<unsigned char>(out[i]);
    if (c < 0x20 || c == 0x7F) out[i] = '?';
    // These are U+0080 to U+009F, which terminals also obey.
    if (c == 0xC2 && i + 1 < out.size() && static_cast<unsigned char>(out[i + 1]) < 0xA0) {
      out[i] = out[i + 1] = '?';
    }
  }
  return out;
}

std::string CutTo(std::string text, std::size_t width) {
  if (width == 0 || ColumnsOf(text) <= width) return text;
  std::size_t end = 0;
  for (std::size_t columns = 0; end < text.size(); ++end) {
    if (!Continues(text[end]) && columns++ == width - 1) break;
  }
  text.resize(end);
  return text.append(kCut);
}

std::string Period(double seconds) {
  const auto s = static_cast<std::uint64_t>(std::max(0.0, seconds));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {} s", s / 60, s % 60);
  return fmt::format("{} h {} min", s / 3600, s / 60 % 60);
}

void TextTable::TakeAway(std::string_view heading) {
  const auto found = std::find(rows_[0].begin(), rows_[0].end(), heading);
  const std::ptrdiff_t column = found - rows_[0].begin();
  for (auto& row : rows_) row.erase(row.begin() + column);
}

std::vector<std::string> TextTable::Lines() const {
  std::vector<std::size_t> widths(rows_[0].size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], ColumnsOf(row[i]));
  }
  std::vector<std::string> lines;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      line.append(widths[i] + 2 - ColumnsOf(row[i]), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace millrace::cli
