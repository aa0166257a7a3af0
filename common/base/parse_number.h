// Numbers from text: the one place where text of people, files and other programs becomes a number.
//
// The whole text has to be the number: no white space, no sign '+', no unit, nothing behind it.
// Errors are InvalidArgument "expected a whole number from 1 to 1024, got '2.7'", without a word of
// where the text was; callers add that with Status::WithContext.
//
// Free functions; thread-safe.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace millrace {

/// Both ends belong to it.
template <class T>
struct Bounds {
  T min = std::numeric_limits<T>::lowest();
  T max = std::numeric_limits<T>::max();
};

/// Zeros before other digits: some readers take them for octal.
enum class LeadingZeros : std::uint8_t { kTaken, kRefused };

namespace parse_number_internal {
Result<std::int64_t> ParseSigned(std::string_view text, Bounds<std::int64_t> bounds,
                                 LeadingZeros zeros);
Result<std::uint64_t> ParseUnsigned(std::string_view text, Bounds<std::uint64_t> bounds,
                                    LeadingZeros zeros);
}  // namespace parse_number_internal

/// A whole number in decimal digits; a '-' before them if T is signed.
template <std::integral T>
Result<T> ParseNumber(std::string_view text, Bounds<T> bounds = {},
                      LeadingZeros zeros = LeadingZeros::kTaken) {
  if constexpr (std::signed_integral<T>) {
    MILLRACE_ASSIGN_OR_RETURN(
        const std::int64_t number,
        parse_number_internal::ParseSigned(text, {bounds.min, bounds.max}, zeros));
    return static_cast<T>(number);
  } else {
    MILLRACE_ASSIGN_OR_RETURN(
        const std::uint64_t number,
        parse_number_internal::ParseUnsigned(text, {bounds.min, bounds.max}, zeros));
    return static_cast<T>(number);
  }
}

/// A decimal number, such as 2, 0.5 or 1e-3; never infinite, never NaN. `what` is what the message
/// expects: "a number", "seconds".
Result<double> ParseDecimal(std::string_view text, Bounds<double> bounds = {},
                            std::string_view what = "a number");

/// "1.5GiB", "300MB", "4096" as bytes, rounded down. Units are B, kB, MB, GB, TB, KiB, MiB, GiB and
/// TiB; without one the number has to be whole. At least 1 byte, at most 10^18.
Result<std::uint64_t> ParseBytes(std::string_view text);

}  // namespace millrace
