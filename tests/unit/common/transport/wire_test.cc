#include <catch2/catch.hpp>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <cstring>
#include <numeric>

#include "common/transport/wire.h"

namespace millrace {
namespace {

std::vector<std::byte> Bytes(std::size_t n) {
  std::vector<std::byte> bytes(n);
  for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(i * 131 >> 3);
  return bytes;
}

OutgoingPart MakePart(std::span<const std::byte> data, std::shared_ptr<const void> owner) {
  OutgoingPart out;
  out.part.mutable_at()->set_epoch(7);
  out.part.mutable_at()->set_example(512);
  out.part.set_total_bytes(data.size());
  out.part.set_digest("0123456789abcdef");
  out.data = data;
  out.owner = std::move(owner);
  return out;
}

/// The same bytes in other slices, as a network might deliver them.
grpc::ByteBuffer Reslice(const std::string& bytes, std::size_t slice_bytes) {
  std::vector<grpc::Slice> slices;
  for (std::size_t at = 0; at < bytes.size(); at += slice_bytes) {
    slices.emplace_back(bytes.substr(at, slice_bytes));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string Flat(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  REQUIRE(buffer.Dump(&slices).ok());
  std::string flat;
  for (const grpc::Slice& s : slices) {
    flat.append(reinterpret_cast<const char*>(s.begin()), s.size());
  }
  return flat;
}

TEST_CASE("a part is sent from where it lies and arrives whole, however it is sliced", "[wire]") {
  rc::prop("round trip", [] {
    const auto size = *rc::gen::inRange<std::size_t>(0, 5000);
    const auto slice = *rc::gen::inRange<std::size_t>(1, 700);
    auto data = std::make_shared<std::vector<std::byte>>(Bytes(size));
    grpc::ByteBuffer sent = wire::EncodePart(MakePart(*data, data));
    grpc::ByteBuffer received = Reslice(Flat(sent), slice);
    Result<IncomingPart> part = wire::DecodePart(received);
    RC_ASSERT(part.ok());
    RC_ASSERT(part->part.at().example() == 512u);
    RC_ASSERT(part->part.digest() == "0123456789abcdef");
    RC_ASSERT(part->data_bytes() == size);
    std::vector<std::byte> gathered(size);
    wire::GatherInto(*part, gathered);
    RC_ASSERT(gathered == *data);
  });
}

TEST_CASE("encoding a part copies no data and keeps its owner until the buffer is gone", "[wire]") {
  auto data = std::make_shared<std::vector<std::byte>>(Bytes(1 << 20));
  const std::byte* where = data->data();
  {
    grpc::ByteBuffer buffer = wire::EncodePart(MakePart(*data, data));
    CHECK(data.use_count() == 2);
    std::vector<grpc::Slice> slices;
    REQUIRE(buffer.Dump(&slices).ok());
    CHECK(reinterpret_cast<const std::byte*>(slices.back().begin()) == where);
    CHECK(slices.back().size() == data->size());
  }
  CHECK(data.use_count() == 1);
}

TEST_CASE("a part whose data are cut short or not last is refused", "[wire]") {
  auto data = std::make_shared<std::vector<std::byte>>(Bytes(100));
  const std::string good = Flat(wire::EncodePart(MakePart(*data, data)));
  for (std::size_t length = 0; length < good.size(); ++length) {
    grpc::ByteBuffer cut = Reslice(good.substr(0, length), 64);
    Result<IncomingPart> part = wire::DecodePart(cut);
    // If the cut lies between two fields, the message is still valid, but it has no data.
    if (part.ok()) CHECK(part->data_bytes() == 0);
  }
  grpc::ByteBuffer more = Reslice(good + std::string("\x08\x01", 2), 64);
  CHECK(wire::DecodePart(more).status().code() == StatusCode::kInvalidArgument);
}

TEST_CASE("flipped bytes of a part's head never crash the decoder", "[wire]") {
  auto data = std::make_shared<std::vector<std::byte>>(Bytes(50));
  const std::string good = Flat(wire::EncodePart(MakePart(*data, data)));
  int refused = 0;
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      grpc::ByteBuffer buffer = Reslice(bad, 33);
      Result<IncomingPart> part = wire::DecodePart(buffer);
      if (!part.ok()) {
        ++refused;
        continue;
      }
      std::vector<std::byte> gathered(part->data_bytes());
      wire::GatherInto(*part, gathered);
    }
  }
  CHECK(refused > 0);
}

}  // namespace
}  // namespace millrace
