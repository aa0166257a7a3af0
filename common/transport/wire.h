// Batch parts and want lists between their messages and gRPC's byte buffers, without a copy of the
// data: a part that goes out is a slice of the arena, a part that comes in stays in the slices
// where the network put it until its one gather into the final slot.
//
// Free functions; thread-safe.
#pragma once

#include <cstddef>
#include <span>

#include <grpcpp/support/byte_buffer.h>

#include "common/base/result.h"
#include "common/transport/stream.h"

namespace millrace::wire {

/// Parts carry at most this many bytes of data, so that no message comes near the receive limits.
inline constexpr std::size_t kMaxPartBytes = 1 << 20;
/// What a batch connection accepts as one message.
inline constexpr int kMaxBatchMessageBytes = 4 << 20;
/// What a control connection accepts as one message (file lists of large datasets are the longest).
inline constexpr int kMaxControlMessageBytes = 64 << 20;

/// One BatchPart message. Its data slice points to `part.data` and keeps `part.owner`.
grpc::ByteBuffer EncodePart(OutgoingPart part);

/// InvalidArgument where the bytes are no BatchPart, or its data are not the last field. Takes the
/// buffer's slices over.
Result<IncomingPart> DecodePart(grpc::ByteBuffer& buffer);

grpc::ByteBuffer EncodeWants(const v1::WantList& wants);
Result<v1::WantList> DecodeWants(grpc::ByteBuffer& buffer);

/// Copies the part's data to `to`. REQUIRES: to.size() == part.data_bytes().
void GatherInto(const IncomingPart& part, std::span<std::byte> to);

}  // namespace millrace::wire
