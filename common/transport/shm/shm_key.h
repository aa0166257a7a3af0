// How a worker and a consumer on one host prove to each other that the dispatcher named them. The
// address of a worker's socket has a key, which only admitted sessions get. The name of the socket
// is no secret, and when a worker is gone, anybody may listen under it.
//
// Free functions; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace millrace {

/// Where a worker listens for consumers of its host. As text: NAME:KEY.
struct ShmAddress {
  std::string name;  // '@' and a text: a name in the abstract namespace (unix(7))
  std::string key;   // 32 hex digits
};

/// A name that no other process of the network namespace uses, and a new key.
ShmAddress MakeShmAddress();
std::string ToString(const ShmAddress& address);
/// nullopt if the text is no address.
std::optional<ShmAddress> ParseShmAddress(std::string_view text);

using ShmNonce = std::array<char, 16>;
using ShmProof = std::array<std::uint8_t, 32>;
enum class ShmSide : std::uint8_t { kWorker = 1, kConsumer = 2 };

ShmNonce MakeShmNonce();
/// The proof of one side that it knows the key: the HMAC (RFC 2104, with SHA-256) of its side and
/// both nonces, each of which one side has just chosen.
ShmProof Prove(std::string_view key, ShmSide side, const ShmNonce& of_consumer,
               const ShmNonce& of_worker);
/// Compares in constant time.
bool Same(const ShmProof& a, const ShmProof& b);

}  // namespace millrace
