// Text of a file that somebody else wrote, in messages.
#pragma once

#include <string>
#include <string_view>

namespace millrace {

/// A text from a file as it may stand in a message: quoted, without control characters, and cut
/// after some dozen bytes. Bytes that are not ASCII are escaped.
std::string Quoted(std::string_view text);

}  // namespace millrace
