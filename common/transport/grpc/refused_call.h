// How a server notifies its owner of calls that it refuses.
#pragma once

#include <functional>
#include <string_view>

#include "common/access/identity.h"
#include "common/base/result.h"

namespace millrace {

/// Called for each call that is refused because of the peer's identity. Its address is empty if it
/// is not known.
using OnRefusedCall =
    std::function<void(std::string_view method, const Peer& peer, const Status& why)>;

}  // namespace millrace
