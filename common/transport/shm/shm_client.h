// The consumer's end of streams through shared memory, and the connector that takes them where it
// can.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "common/transport/stream.h"

namespace millrace {

/// Told of each segment of a worker's memory when it has been mapped for reading. The result is
/// dropped before the segment is unmapped; it may be null.
using OnMapped = std::function<std::shared_ptr<const void>(std::span<const std::byte> bytes)>;

/// Streams batches through shared memory from workers of this host, and falls back to `network`
/// where that is refused; all else goes to `network`. `host_id`: of this process, as
/// NetworkHostId(). Thread-safe.
std::shared_ptr<Connector> MakeShmConnector(std::shared_ptr<Connector> network, std::string host_id,
                                            OnMapped on_mapped = nullptr);

}  // namespace millrace
