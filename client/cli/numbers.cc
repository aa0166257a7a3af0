#include "client/cli/numbers.h"

#include <string>

#include "common/base/parse_number.h"

namespace millrace::cli {

CLI::Validator WholeNumber(std::uint64_t min, std::uint64_t max) {
  return CLI::Validator(
      [min, max](std::string& text) {
        const Result<std::uint64_t> number =
            ParseNumber<std::uint64_t>(text, {.min = min, .max = max});
        if (!number.ok()) return number.status().message();
        text = std::to_string(*number);  // drops leading zeros, which CLI11 would take for octal
        return std::string();
      },
      "");
}

CLI::Validator Seconds(double min) {
  return CLI::Validator(
      [min](std::string& text) {
        constexpr double kYear = 365 * 86400.0;
        const Result<double> seconds = ParseDecimal(text, {.min = min, .max = kYear}, "seconds");
        return seconds.ok() ? std::string() : seconds.status().message();
      },
      "");
}

}  // namespace millrace::cli
