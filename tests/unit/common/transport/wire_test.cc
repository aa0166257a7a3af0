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

OutgoingFragment MakeFragment(std::span<const std::byte> data, std::shared_ptr<const void> owner) {
  OutgoingFragment out;
  out.message.mutable_at()->set_epoch(7);
  out.message.mutable_at()->set_example(512);
  out.message.set_total_bytes(data.size());
  out.message.set_digest("0123456789abcdef");
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

TEST_CASE("a fragment is sent from where it lies and arrives whole, however it is sliced",
          "[wire]") {
  rc::prop("round trip", [] {
    const auto size = *rc::gen::inRange<std::size_t>(0, 5000);
    const auto slice = *rc::gen::inRange<std::size_t>(1, 700);
    auto data = std::make_shared<std::vector<std::byte>>(Bytes(size));
    grpc::ByteBuffer sent = wire::EncodeFragment(MakeFragment(*data, data));
    grpc::ByteBuffer received = Reslice(Flat(sent), slice);
    Result<IncomingFragment> fragment = wire::DecodeFragment(received);
    RC_ASSERT(fragment.ok());
    RC_ASSERT(fragment->message.at().example() == 512u);
    RC_ASSERT(fragment->message.digest() == "0123456789abcdef");
    RC_ASSERT(fragment->data_bytes() == size);
    std::vector<std::byte> gathered(size);
    wire::GatherInto(*fragment, gathered);
    RC_ASSERT(gathered == *data);
  });
}

TEST_CASE("encoding a fragment copies no data and keeps its owner until the buffer is gone",
          "[wire]") {
  auto data = std::make_shared<std::vector<std::byte>>(Bytes(1 << 20));
  const std::byte* where = data->data();
  {
    grpc::ByteBuffer buffer = wire::EncodeFragment(MakeFragment(*data, data));
    CHECK(data.use_count() == 2);
    std::vector<grpc::Slice> slices;
    REQUIRE(buffer.Dump(&slices).ok());
    CHECK(reinterpret_cast<const std::byte*>(slices.back().begin()) == where);
    CHECK(slices.back().size() == data->size());
  }
  CHECK(data.use_count() == 1);
}

TEST_CASE("a fragment whose data are cut short or not last is refused", "[wire]") {
  auto data = std::make_shared<std::vector<std::byte>>(Bytes(100));
  const std::string good = Flat(wire::EncodeFragment(MakeFragment(*data, data)));
  for (std::size_t length = 0; length < good.size(); ++length) {
    grpc::ByteBuffer cut = Reslice(good.substr(0, length), 64);
    Result<IncomingFragment> fragment = wire::DecodeFragment(cut);
    // If the cut lies between two fields, the message is still valid, but it has no data.
    if (fragment.ok()) CHECK(fragment->data_bytes() == 0);
  }
  grpc::ByteBuffer more = Reslice(good + std::string("\x08\x01", 2), 64);
  CHECK(wire::DecodeFragment(more).status().code() == StatusCode::kInvalidArgument);
}

TEST_CASE("flipped bytes of a fragment's head never crash the decoder", "[wire]") {
  auto data = std::make_shared<std::vector<std::byte>>(Bytes(50));
  const std::string good = Flat(wire::EncodeFragment(MakeFragment(*data, data)));
  int refused = 0;
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      grpc::ByteBuffer buffer = Reslice(bad, 33);
      Result<IncomingFragment> fragment = wire::DecodeFragment(buffer);
      if (!fragment.ok()) {
        ++refused;
        continue;
      }
      std::vector<std::byte> gathered(fragment->data_bytes());
      wire::GatherInto(*fragment, gathered);
    }
  }
  CHECK(refused > 0);
}

}  // namespace
}  // namespace millrace
