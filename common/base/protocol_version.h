// The version of the protocol (docs/protocol.md) that this program speaks, and those that it
// understands: its own and the one before, so that a fleet can be renewed one process at a time,
// the dispatcher first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace millrace {

/// 2: jobs have a priority, and want lists name their job and protocol.
inline constexpr std::uint32_t kProtocol = 2;
inline constexpr std::uint32_t kOldestProtocol = kProtocol - 1;

/// FailedPrecondition naming both versions where `protocol` is none that is understood here.
/// `whose` is the peer's role, for the message.
inline Status CheckProtocol(std::string_view whose, std::uint32_t protocol) {
  if (protocol >= kOldestProtocol && protocol <= kProtocol) return OkStatus();
  return FailedPrecondition("the " + std::string(whose) + " speaks protocol " +
                            std::to_string(protocol) + ", here protocols " +
                            std::to_string(kOldestProtocol) + " and " + std::to_string(kProtocol) +
                            " are understood: renew the older one (a dispatcher goes first)");
}

}  // namespace millrace
