// Tokens: secrets by which trainers without a certificate prove their identity. A server keeps only
// their digests.
//
// Free functions; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"

namespace millrace {

/// A new token: 264 random bits, as 44 letters, digits, - and _ (RFC 4648, base64url).
Result<std::string> MakeToken();

/// SHA-256 of a token, as 64 hex digits. A token has so many random bits that no salt is needed.
std::string TokenDigest(std::string_view token);

}  // namespace millrace
