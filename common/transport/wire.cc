#include "common/transport/wire.h"

#include <cstring>
#include <string>
#include <vector>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>

namespace millrace::wire {
namespace {

using google::protobuf::internal::WireFormatLite;

constexpr std::uint32_t kDataTag = v1::BatchFragment::kDataFieldNumber << 3 | 2;
constexpr std::size_t kMaxFragmentHeaderBytes = 64 << 10;

void AppendVarint(std::uint64_t value, std::string& out) {
  while (value >= 0x80) {
    out += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

void ReleaseOwner(void* owner) { delete static_cast<std::shared_ptr<const void>*>(owner); }

/// Where the data begin and how long they are. If there are none, begin == total.
struct DataPlace {
  std::size_t begin;
  std::size_t bytes;
};

Result<DataPlace> FindData(grpc::ByteBuffer& buffer) {
  const std::size_t total = buffer.Length();
  grpc::ProtoBufferReader reader(&buffer);
  if (!reader.status().ok()) return InvalidArgument("a batch part that cannot be read");
  google::protobuf::io::CodedInputStream in(&reader);
  for (;;) {
    const auto at = static_cast<std::size_t>(in.CurrentPosition());
    const std::uint32_t tag = in.ReadTag();
    if (tag == 0) {
      if (static_cast<std::size_t>(in.CurrentPosition()) != total) break;
      return DataPlace{at, 0};
    }
    if (tag == kDataTag) {
      std::uint32_t bytes = 0;
      if (!in.ReadVarint32(&bytes)) break;
      const auto begin = static_cast<std::size_t>(in.CurrentPosition());
      if (total - begin != bytes) break;
      return DataPlace{begin, bytes};
    }
    if (!WireFormatLite::SkipField(&in, tag)) break;
  }
  return InvalidArgument("a batch part of " + std::to_string(total) +
                         " bytes that is malformed, or whose data are not its last field");
}

template <class Message>
grpc::ByteBuffer ToByteBuffer(const Message& message) {
  const std::string bytes = message.SerializeAsString();
  grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace

grpc::ByteBuffer EncodeFragment(OutgoingFragment out) {
  std::string head = out.message.SerializeAsString();
  if (out.data.empty()) {
    grpc::Slice slice(head);
    return grpc::ByteBuffer(&slice, 1);
  }
  AppendVarint(kDataTag, head);
  AppendVarint(out.data.size(), head);
  auto* owner = new std::shared_ptr<const void>(std::move(out.owner));
  grpc::Slice slices[2] = {grpc::Slice(head), grpc::Slice(const_cast<std::byte*>(out.data.data()),
                                                          out.data.size(), &ReleaseOwner, owner)};
  return grpc::ByteBuffer(slices, 2);
}

Result<IncomingFragment> DecodeFragment(grpc::ByteBuffer& buffer) {
  MILLRACE_ASSIGN_OR_RETURN(const DataPlace data, FindData(buffer));
  auto slices = std::make_shared<std::vector<grpc::Slice>>();
  if (!buffer.Dump(slices.get()).ok()) return Internal("a batch part without slices");

  std::string head;
  IncomingFragment in;
  std::size_t at = 0;
  // The head ends before the tag and length of the data. Its length makes parsing stop there.
  std::size_t head_bytes = data.begin;
  if (data.bytes > 0) {
    std::string length;
    AppendVarint(kDataTag, length);
    AppendVarint(data.bytes, length);
    head_bytes -= std::min(head_bytes, length.size());
  }
  if (head_bytes > kMaxFragmentHeaderBytes) {
    return InvalidArgument("a batch part with a header of " + std::to_string(head_bytes) +
                           " bytes");
  }
  for (const grpc::Slice& slice : *slices) {
    const std::size_t end = at + slice.size();
    if (at < head_bytes) {
      head.append(reinterpret_cast<const char*>(slice.begin()),
                  std::min(slice.size(), head_bytes - at));
    }
    if (data.bytes > 0 && end > data.begin) {
      const std::size_t skip = data.begin > at ? data.begin - at : 0;
      in.data.push_back(std::as_bytes(std::span(slice.begin() + skip, slice.size() - skip)));
    }
    at = end;
  }
  if (!in.message.ParseFromString(head))
    return InvalidArgument("a batch part with a malformed header");
  in.owner = std::move(slices);
  return in;
}

grpc::ByteBuffer EncodeWants(const v1::WantList& wants) { return ToByteBuffer(wants); }

Result<v1::WantList> DecodeWants(grpc::ByteBuffer& buffer) {
  grpc::ProtoBufferReader reader(&buffer);
  v1::WantList wants;
  if (!reader.status().ok() || !wants.ParseFromZeroCopyStream(&reader)) {
    return InvalidArgument("a malformed want list");
  }
  return wants;
}

void GatherInto(const IncomingFragment& fragment, std::span<std::byte> to) {
  std::size_t at = 0;
  for (const auto& slice : fragment.data) {
    std::memcpy(to.data() + at, slice.data(), slice.size());
    at += slice.size();
  }
}

}  // namespace millrace::wire
