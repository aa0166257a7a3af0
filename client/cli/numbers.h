// Numbers on the command line, read strictly: CLI11 alone takes 010 for 8, 0x10 for 16 and -1 for
// 18446744073709551615.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include <CLI/CLI.hpp>

#include "common/base/protocol_limits.h"
#include "common/base/result.h"

namespace millrace::cli {

/// Decimal digits and nothing else. InvalidArgument with what was expected and got.
Result<std::uint64_t> ParseWholeNumber(
    std::string_view text, std::uint64_t min = 0,
    std::uint64_t max = std::numeric_limits<std::uint64_t>::max());

/// For `transform` of an option that takes a whole number: checks it, and takes zeros in front off.
CLI::Validator WholeNumber(std::uint64_t min = 0,
                           std::uint64_t max = std::numeric_limits<std::uint64_t>::max());

/// Check of an option that takes seconds: from `min` to a year.
CLI::Validator Seconds(double min = 0);

/// Bound of an option that several commands have.
inline constexpr std::uint64_t kMaxThreads = 4096;

}  // namespace millrace::cli
