#include "client/cli/numbers.h"

#include <string>
#include <utility>

#include "common/base/parse_number.h"

namespace millrace::cli {

TextCheck WholeNumber(std::uint64_t min, std::uint64_t max) {
  return [min, max](std::string& text) {
    const Result<std::uint64_t> number = ParseNumber<std::uint64_t>(text, {.min = min, .max = max});
    if (!number.ok()) return number.status().message();
    text = std::to_string(*number);  // drops leading zeros, which CLI11 would take for octal
    return std::string();
  };
}

TextCheck Decimal(double min, double max, std::string what) {
  return [min, max, what = std::move(what)](std::string& text) {
    const Result<double> number = ParseDecimal(text, {.min = min, .max = max}, what);
    return number.ok() ? std::string() : number.status().message();
  };
}

TextCheck Seconds(double min) {
  constexpr double kYear = 365 * 86400.0;
  return Decimal(min, kYear, "seconds");
}

}  // namespace millrace::cli
