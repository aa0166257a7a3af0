// Converts batch parts and want lists between their messages and gRPC's byte buffers without a copy
// of the data. A part that goes out is a slice of the arena. A part that comes in stays in the
// slices where the network put it, until it is copied once into its final slot.
//
// Free functions; thread-safe.
#pragma once

#include <cstddef>
#include <span>

#include <grpcpp/support/byte_buffer.h>

#include "common/base/result.h"
#include "common/transport/stream.h"

namespace millrace::wire {

/// The most data in one part, in bytes, so that no message comes near the receive limits.
inline constexpr std::size_t kMaxPartBytes = 1 << 20;
/// The largest message that a batch connection accepts, in bytes.
inline constexpr int kMaxBatchMessageBytes = 4 << 20;
/// The largest message that a dispatcher accepts, in bytes. Messages with file lists are the
/// longest.
inline constexpr int kMaxToDispatcherBytes = 8 << 20;
/// The largest message from a dispatcher, in bytes. The status of a large fleet is the longest.
inline constexpr int kMaxControlMessageBytes = 64 << 20;

/// One BatchPart message. Its data slice points to `part.data` and keeps `part.owner` alive.
grpc::ByteBuffer EncodePart(OutgoingPart part);

/// Takes over the slices of the buffer. InvalidArgument if the bytes are no BatchPart, or if its
/// data are not the last field.
Result<IncomingPart> DecodePart(grpc::ByteBuffer& buffer);

grpc::ByteBuffer EncodeWants(const v1::WantList& wants);
Result<v1::WantList> DecodeWants(grpc::ByteBuffer& buffer);

/// Copies the part's data to `to`. REQUIRES: to.size() == part.data_bytes().
void GatherInto(const IncomingPart& part, std::span<std::byte> to);

}  // namespace millrace::wire
