// Compresses answers for peers that take gzip.
#pragma once

#include <string>
#include <string_view>

namespace millrace {

/// Whether a header Accept-Encoding of this value allows gzip.
bool TakesGzip(std::string_view accept_encoding);

/// `bytes` as gzip (RFC 1952), at the speed of level 1. Empty if memory is short.
std::string Gzip(std::string_view bytes);

}  // namespace millrace
