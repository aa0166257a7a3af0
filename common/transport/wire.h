// Converts batch fragments and want lists between their messages and gRPC's byte buffers without a
// copy of the data. A fragment that goes out is a slice of the arena. A fragment that comes in
// stays in the slices where the network put it, until it is copied once into its final slot.
//
// Free functions; thread-safe.
#pragma once

#include <cstddef>
#include <span>

#include <grpcpp/support/byte_buffer.h>

#include "common/base/result.h"
#include "common/transport/stream.h"

namespace millrace::wire {

/// The most data in one fragment, in bytes, so that no message comes near the receive limits.
inline constexpr std::size_t kMaxFragmentBytes = 1 << 20;
/// The largest message that a batch connection accepts, in bytes.
inline constexpr int kMaxBatchMessageBytes = 4 << 20;
/// The largest message that a dispatcher accepts, in bytes. Messages with file lists are the
/// longest.
inline constexpr int kMaxToDispatcherBytes = 8 << 20;
/// The largest message from a dispatcher, in bytes. The status of a large fleet is the longest.
inline constexpr int kMaxControlMessageBytes = 64 << 20;

/// One BatchFragment message. Its data slice points to `fragment.data` and keeps `fragment.owner`
/// alive.
grpc::ByteBuffer EncodeFragment(OutgoingFragment fragment);

/// Takes over the slices of the buffer. InvalidArgument if the bytes are no BatchFragment, or if
/// its data are not the last field.
Result<IncomingFragment> DecodeFragment(grpc::ByteBuffer& buffer);

grpc::ByteBuffer EncodeWants(const v1::WantList& wants);
Result<v1::WantList> DecodeWants(grpc::ByteBuffer& buffer);

/// Copies the fragment's data to `to`. REQUIRES: to.size() == fragment.data_bytes().
void GatherInto(const IncomingFragment& fragment, std::span<std::byte> to);

}  // namespace millrace::wire
