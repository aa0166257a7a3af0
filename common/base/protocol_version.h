// The version of the protocol (docs/internals/protocol.md) that this program speaks. It understands
// no other: all processes of a fleet have to be updated together.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace millrace {

/// Version 4: consumers deal steps to the workers of a list, where dispatchers leased them.
inline constexpr std::uint32_t kProtocol = 4;

/// The version of what workers measure for columns.
inline constexpr std::uint32_t kMeasuringVersion = 1;

/// FailedPrecondition, with both versions in the message, if `protocol` is another version. `whose`
/// is the peer's role, for the message.
inline Status CheckProtocol(std::string_view whose, std::uint32_t protocol) {
  if (protocol == kProtocol) return OkStatus();
  return FailedPrecondition("the " + std::string(whose) + " speaks protocol " +
                            std::to_string(protocol) + "; this build speaks " +
                            std::to_string(kProtocol) + ": update the older one");
}

}  // namespace millrace
