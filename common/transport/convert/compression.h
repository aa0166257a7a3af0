// Converts compressions of fragments to and from the wire.
//
// Free functions; thread-safe.
#pragma once

#include <optional>

#include "common/compression/compression.h"
#include "millrace/v1/worker.pb.h"

namespace millrace {

/// Empty for a compression that this program does not know.
std::optional<Compression> FromProto(v1::Compression compression);
v1::Compression ToProto(Compression compression);

}  // namespace millrace
