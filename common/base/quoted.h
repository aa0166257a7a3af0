// Text of a file of another author, in messages.
#pragma once

#include <string>
#include <string_view>

namespace millrace {

/// A text from a file in a form fit for a message: quoted, without control characters, and cut
/// after some dozen bytes. Bytes that are not ASCII are escaped.
std::string Quoted(std::string_view text);

}  // namespace millrace
