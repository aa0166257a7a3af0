// The version of the protocol (docs/protocol.md) that this program speaks, and the versions that it
// understands: its own and the one before. So the processes of a fleet can be updated one at a
// time, the dispatcher first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace millrace {

/// Version 2: jobs have a priority, and want lists name their job and protocol.
inline constexpr std::uint32_t kProtocol = 2;
inline constexpr std::uint32_t kOldestProtocol = kProtocol - 1;

/// FailedPrecondition, with both versions in the message, if this program does not understand
/// version `protocol`. `whose` is the peer's role, for the message.
inline Status CheckProtocol(std::string_view whose, std::uint32_t protocol) {
  if (protocol >= kOldestProtocol && protocol <= kProtocol) return OkStatus();
  return FailedPrecondition("the " + std::string(whose) + " speaks protocol " +
                            std::to_string(protocol) + ", here protocols " +
                            std::to_string(kOldestProtocol) + " and " + std::to_string(kProtocol) +
                            " are understood: renew the older one (a dispatcher goes first)");
}

}  // namespace millrace
