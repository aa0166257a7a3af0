#include "common/base/parse_number.h"

#include <array>
#include <charconv>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace millrace {
namespace {

/// "a number from 1 to 9". A bound is left out if it is just the limit of T.
template <class T>
std::string Describe(std::string_view what, const Bounds<T>& bounds) {
  const Bounds<T> all;
  const bool from = bounds.min != all.min || std::unsigned_integral<T>;
  const bool to = bounds.max != all.max;
  if (from && to) return fmt::format("{} from {} to {}", what, bounds.min, bounds.max);
  if (from) return fmt::format("{} of at least {}", what, bounds.min);
  if (to) return fmt::format("{} of at most {}", what, bounds.max);
  return std::string(what);
}

template <class T>
bool ParseWhole(std::string_view text, T& number) {
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  return error == std::errc() && end == last;
}

template <class T>
Result<T> ParseInteger(std::string_view text, const Bounds<T>& bounds, LeadingZeros zeros) {
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  const bool refused =
      zeros == LeadingZeros::kRefused && digits.size() > 1 && digits.starts_with('0');
  T number = 0;
  if (refused || !ParseWhole(text, number) || number < bounds.min || number > bounds.max) {
    return InvalidArgument(fmt::format("expected {}{}, got '{}'",
                                       Describe("an integer", bounds),
                                       refused ? " without zeros before it" : "", text));
  }
  return number;
}

constexpr std::array<std::pair<std::string_view, double>, 9> kUnits = {{
    {"B", 1},
    {"kB", 1e3},
    {"MB", 1e6},
    {"GB", 1e9},
    {"TB", 1e12},
    {"KiB", 1 << 10},
    {"MiB", 1 << 20},
    {"GiB", 1 << 30},
    {"TiB", 1024.0 * (1 << 30)},
}};

}  // namespace

namespace parse_number_internal {

Result<std::int64_t> ParseSigned(std::string_view text, Bounds<std::int64_t> bounds,
                                 LeadingZeros zeros) {
  return ParseInteger(text, bounds, zeros);
}

Result<std::uint64_t> ParseUnsigned(std::string_view text, Bounds<std::uint64_t> bounds,
                                    LeadingZeros zeros) {
  return ParseInteger(text, bounds, zeros);
}

}  // namespace parse_number_internal

Result<double> ParseDecimal(std::string_view text, Bounds<double> bounds, std::string_view what) {
  double number = 0;
  // This form of the condition refuses NaN too.
  if (!ParseWhole(text, number) || !(number >= bounds.min && number <= bounds.max)) {
    return InvalidArgument(fmt::format("expected {}, got '{}'", Describe(what, bounds), text));
  }
  return number;
}

Result<std::uint64_t> ParseBytes(std::string_view text) {
  constexpr std::uint64_t kMost = 1'000'000'000'000'000'000;
  const Status error =
      InvalidArgument(fmt::format("expected bytes, such as 4096, 300MB or 4GiB, got '{}'", text));
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view unit = text.substr(digits);
  if (unit.empty() || unit == "B") {
    const Result<std::uint64_t> bytes =
        ParseNumber<std::uint64_t>(text.substr(0, digits), {.min = 1, .max = kMost});
    return bytes.ok() ? bytes : error;
  }
  for (const auto& [name, scale] : kUnits) {
    if (unit != name) continue;
    const Result<double> amount = ParseDecimal(text.substr(0, digits), {.min = 0});
    if (!amount.ok() || *amount * scale > static_cast<double>(kMost) || *amount * scale < 1) break;
    return static_cast<std::uint64_t>(*amount * scale);
  }
  return error;
}

}  // namespace millrace
