// The names that users give to tensors.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace millrace {

/// Names that users give, and names that they read, are no longer.
inline constexpr std::size_t kMaxTensorName = 128;

/// Whether it is one word of at most 128 letters, digits and `_` that begins with no digit.
bool IsTensorWord(std::string_view text);

/// The name as expressions and messages write it, with `.` for each `/`.
std::string DottedName(std::string_view name);

/// The tensor with the number of bytes of each text of a list of texts: "NAME.lengths". The tensor
/// NAME has the bytes of all texts of a row, one after another. A source alone can have such a
/// pair, because no name that a user gives has a point.
std::string TextLengthsOf(std::string_view name);

}  // namespace millrace
