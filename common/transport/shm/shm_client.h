// The consumer's end of streams through shared memory, and the connector that uses such streams if
// it can.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "common/transport/stream.h"

namespace millrace {

/// Called for each segment of a worker's memory when it has been mapped for reading. The result is
/// dropped before the segment is unmapped. The result may be null.
using OnMapped = std::function<std::shared_ptr<const void>(std::span<const std::byte> bytes)>;

/// Streams batches through shared memory from workers of this host. It uses `network` if a worker
/// refuses that, and for everything else. `host_id`: this process's NetworkHostId().
/// Thread-safe.
std::shared_ptr<Connector> MakeShmConnector(std::shared_ptr<Connector> network, std::string host_id,
                                            OnMapped on_mapped = nullptr);

}  // namespace millrace
