// Prints the figures of a benchmark: as a table for a person, or with --json as one JSON object a
// line for tests/bench/run, which runs the program once for every sample.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

namespace millrace::bench {

/// One measured number, with the machine's limit for it in the same run.
struct Figure {
  using Params = std::vector<std::pair<std::string, std::string>>;
  std::string name;  // the runner groups samples by it: the same in every run
  double value = 0;
  std::string unit;        // ends in "/s" if more is better; otherwise less is better
  std::string limit_name;  // empty: there is no limit
  double limit = 0;        // in `unit`
  Params params;           // settings that the figure depends on
};

/// Prints figures as they come. Not thread-safe.
class Report {
 public:
  explicit Report(bool json) : json_(json) {}

  void Add(const Figure& figure) const {
    json_ ? PrintJson(figure) : PrintRow(figure);
    std::fflush(stdout);
  }

  /// Prints a line for a person; nothing with --json.
  void Note(std::string_view text) const {
    if (!json_) fmt::print("{}\n", text);
  }

 private:
  static std::string Quote(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') out += '\\';
      if (static_cast<unsigned char>(c) < 0x20) {
        out += fmt::format("\\u{:04x}", static_cast<int>(c));
      } else {
        out += c;
      }
    }
    return out + '"';
  }

  static void PrintJson(const Figure& f) {
    std::string params;
    for (const auto& [key, value] : f.params) {
      params += fmt::format("{}{}: {}", params.empty() ? "" : ", ", Quote(key), Quote(value));
    }
    fmt::print(R"({{"name": {}, "value": {:.6g}, "unit": {}, "limit_name": {}, "limit": {:.6g}, )",
               Quote(f.name), f.value, Quote(f.unit), Quote(f.limit_name), f.limit);
    fmt::print("\"params\": {{{}}}}}\n", params);
  }

  static void PrintRow(const Figure& f) {
    std::string limit;
    if (f.limit > 0) {
      limit = fmt::format("{:6.2f} of {:.4g} {}", f.value / f.limit, f.limit, f.limit_name);
    }
    fmt::print("{:<40} {:>10.4g} {:<14} {}", f.name, f.value, f.unit, limit);
    for (const auto& [key, value] : f.params) fmt::print("  {}={}", key, value);
    fmt::print("\n");
  }

  const bool json_;
};

}  // namespace millrace::bench
