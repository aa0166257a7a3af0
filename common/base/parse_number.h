// Numbers from text. Text from people, files and other programs becomes a number only here.
//
// The whole text has to be the number: no white space, no sign '+', no unit, nothing after it.
// Errors are InvalidArgument, for example "expected an integer from 1 to 1024, got '2.7'". They
// do not say where the text was; callers add that with Status::WithContext.
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

/// Both ends are allowed values.
template <class T>
struct Bounds {
  T min = std::numeric_limits<T>::lowest();
  T max = std::numeric_limits<T>::max();
};

/// Whether zeros may precede other digits. Some readers take such numbers for octal.
enum class LeadingZeros : std::uint8_t { kTaken, kRefused };

namespace parse_number_internal {
Result<std::int64_t> ParseSigned(std::string_view text, Bounds<std::int64_t> bounds,
                                 LeadingZeros zeros);
Result<std::uint64_t> ParseUnsigned(std::string_view text, Bounds<std::uint64_t> bounds,
                                    LeadingZeros zeros);
}  // namespace parse_number_internal

/// A whole number in decimal digits. If T is signed, a '-' may precede them.
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

/// A decimal number, such as 2, 0.5 or 1e-3; never infinite, never NaN. Error messages say that
/// `what` was expected, for example "a number" or "seconds".
Result<double> ParseDecimal(std::string_view text, Bounds<double> bounds = {},
                            std::string_view what = "a number");

/// A number of bytes, from text such as "1.5GiB", "300MB" or "4096"; rounded down. Units are B, kB,
/// MB, GB, TB, KiB, MiB, GiB and TiB. Without a unit the number has to be whole. At least 1 byte,
/// at most 10^18.
Result<std::uint64_t> ParseBytes(std::string_view text);

}  // namespace millrace
