// How a server tells its owner about calls that it refuses.
#pragma once

#include <functional>
#include <string_view>

#include "common/access/identity.h"
#include "common/base/result.h"

namespace millrace {

/// Called for each call that is refused because of who the peer is. Its address is empty where it
/// is not known.
using OnRefusedCall =
    std::function<void(std::string_view method, const Peer& peer, const Status& why)>;

}  // namespace millrace
