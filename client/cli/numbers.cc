#include "client/cli/numbers.h"

#include <charconv>
#include <cstdlib>
#include <string>

#include <fmt/core.h>

namespace millrace::cli {

Result<std::uint64_t> ParseWholeNumber(std::string_view text, std::uint64_t min,
                                       std::uint64_t max) {
  std::uint64_t number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (text.empty() || error != std::errc() || end != last || number < min || number > max) {
    const bool bounded = max < std::numeric_limits<std::uint64_t>::max();
    return InvalidArgument(
        bounded ? fmt::format("expected a whole number from {} to {}, got '{}'", min, max, text)
                : fmt::format("expected a whole number of at least {}, got '{}'", min, text));
  }
  return number;
}

CLI::Validator WholeNumber(std::uint64_t min, std::uint64_t max) {
  return CLI::Validator(
      [min, max](std::string& text) {
        const Result<std::uint64_t> number = ParseWholeNumber(text, min, max);
        if (!number.ok()) return number.status().message();
        text = std::to_string(*number);  // without the zeros in front that CLI11 takes for octal
        return std::string();
      },
      "");
}

CLI::Validator Seconds(double min) {
  return CLI::Validator(
      [min](std::string& text) {
        constexpr double kYear = 365 * 86400.0;
        char* end = nullptr;
        const double seconds = std::strtod(text.c_str(), &end);
        if (!text.empty() && *end == '\0' && seconds >= min && seconds <= kYear) {
          return std::string();
        }
        return fmt::format("expected seconds, from {} to {:.0f}, got '{}'", min, kYear, text);
      },
      "");
}

}  // namespace millrace::cli
