// The parts that both ends of a gRPC stream share: the conversion between our messages and gRPC's,
// and the handle that a user of the stream holds.
#pragma once

#include <memory>
#include <utility>

#include <grpcpp/support/byte_buffer.h>

#include "common/base/result.h"
#include "common/transport/stream.h"
#include "common/transport/wire.h"

namespace millrace {

/// Converts between our messages and gRPC's. For most streams both are the same type. Batches and
/// want lists travel as raw bytes.
template <class Ours, class Grpcs>
struct GrpcCodec {
  static Grpcs Encode(Ours message) { return message; }
  static Result<Ours> Decode(Grpcs& message) { return std::move(message); }
};
template <>
struct GrpcCodec<v1::WantList, grpc::ByteBuffer> {
  static grpc::ByteBuffer Encode(const v1::WantList& wants) { return wire::EncodeWants(wants); }
  static Result<v1::WantList> Decode(grpc::ByteBuffer& buffer) { return wire::DecodeWants(buffer); }
};
template <>
struct GrpcCodec<OutgoingFragment, grpc::ByteBuffer> {
  static grpc::ByteBuffer Encode(OutgoingFragment fragment) {
    return wire::EncodeFragment(std::move(fragment));
  }
};
template <>
struct GrpcCodec<IncomingFragment, grpc::ByteBuffer> {
  static Result<IncomingFragment> Decode(grpc::ByteBuffer& buffer) {
    return wire::DecodeFragment(buffer);
  }
};

/// Writes to a call, and closes the call when it is dropped.
template <class CallType, class Out>
class GrpcStream final : public Stream<Out> {
 public:
  explicit GrpcStream(std::shared_ptr<CallType> call) : call_(std::move(call)) {}
  ~GrpcStream() override { call_->Close(Cancelled("stream dropped")); }
  void Write(Out message) override { call_->Write(std::move(message)); }
  void Close(const Status& status) override { call_->Close(status); }

 private:
  std::shared_ptr<CallType> call_;
};

}  // namespace millrace
