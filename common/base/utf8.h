// Checks and cuts texts in UTF-8.
//
// Free functions; thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace millrace {

/// Whether `text` is UTF-8 (RFC 3629: no surrogates, no overlong forms).
bool IsUtf8(std::string_view text);

/// Cuts a text to at most `most` bytes, but never within a character.
void CutUtf8(std::string& text, std::size_t most);

}  // namespace millrace
