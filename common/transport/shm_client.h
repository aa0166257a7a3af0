// The consumer's end of streams through shared memory, and the connector that takes them where it
// can.
#pragma once

#include <memory>
#include <string>

#include "common/transport/stream.h"

namespace millrace {

/// Streams batches through shared memory from workers of this host, and falls back to `network`
/// where that is refused; all else goes to `network`. `host_id`: of this process, as
/// NetworkHostId(). Thread-safe.
std::shared_ptr<Connector> MakeShmConnector(std::shared_ptr<Connector> network,
                                            std::string host_id);

}  // namespace millrace
