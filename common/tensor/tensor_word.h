// The names that users give to tensors.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace millrace {

/// Names that users give, and those that they read, are no longer.
inline constexpr std::size_t kMaxTensorName = 128;

/// Whether it is one word of at most 128 letters, digits and `_` that begins with no digit.
bool IsTensorWord(std::string_view text);

/// The name as expressions and messages write it, with `.` for each `/`.
std::string DottedName(std::string_view name);

}  // namespace millrace
