// Numbers on the command line, read strictly (common/base/parse_number.h). CLI11 alone takes 010
// for 8, 0x10 for 16 and -1 for 18446744073709551615.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "common/base/protocol_limits.h"
#include "common/command_line/command_line.h"

namespace millrace::cli {

/// For an option that takes a whole number: checks the number and removes leading zeros.
TextCheck WholeNumber(std::uint64_t min = 0,
                      std::uint64_t max = std::numeric_limits<std::uint64_t>::max());

/// For an option that takes a decimal number: accepts `min` to `max`. Messages say that `what` was
/// expected, for example "seconds".
TextCheck Decimal(double min, double max, std::string what);

/// For an option that takes seconds: accepts `min` to one year.
TextCheck Seconds(double min = 0);

/// The most threads that an option can ask for.
inline constexpr std::uint64_t kMaxThreads = 4096;

}  // namespace millrace::cli
