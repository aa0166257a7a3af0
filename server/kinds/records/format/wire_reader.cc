#include "server/kinds/records/format/wire_reader.h"

namespace millrace {
namespace {

/// The most bytes of a tag, a length and a varint.
constexpr int kMostTagBytes = 5;
constexpr int kMostLengthBytes = 5;
constexpr int kMostVarintBytes = 10;

/// Reads up to `most` bytes of 7 bits each, the lowest first. Bits above the 64th are lost. False
/// if the last byte says that another one follows.
bool ReadSevenBits(const std::byte*& at, const std::byte* end, int most, std::uint64_t& value) {
  value = 0;
  for (int i = 0; i < most; ++i) {
    if (at == end) return false;
    const auto byte = static_cast<std::uint64_t>(*at++);
    value |= (byte & 0x7F) << (7 * i);
    if (byte < 0x80) return true;
  }
  return false;
}

}  // namespace

// Protobuf drops the bits of a tag above the 32nd.
bool WireReader::ReadTagSlowly(std::uint32_t& tag) {
  std::uint64_t value;
  if (!ReadSevenBits(at_, end_, kMostTagBytes, value)) return false;
  tag = static_cast<std::uint32_t>(value);
  return true;
}

bool WireReader::ReadVarintSlowly(std::uint64_t& value) {
  return ReadSevenBits(at_, end_, kMostVarintBytes, value);
}

bool WireReader::ReadLengthSlowly(std::size_t& length) {
  return ReadSevenBits(at_, end_, kMostLengthBytes, length);
}

bool WireReader::SkipField(std::uint32_t tag, int depth) {
  if (tag >> 3 == 0) return false;
  std::uint64_t value;
  std::span<const std::byte> bytes;
  switch (static_cast<WireType>(tag & 7)) {
    case WireType::kVarint:
      return ReadVarint(value);
    case WireType::kFixed64:
      return ReadFixed(8, bytes);
    case WireType::kBytes:
      return ReadBytes(bytes);
    case WireType::kFixed32:
      return ReadFixed(4, bytes);
    case WireType::kGroupBegin:
      break;
    default:
      return false;
  }
  if (depth == 0) return false;
  const std::uint32_t end = WireTag(tag >> 3, WireType::kGroupEnd);
  while (true) {
    std::uint32_t inner;
    if (!ReadTag(inner)) return false;
    if (inner == end) return true;
    if (!SkipField(inner, depth - 1)) return false;
  }
}

}  // namespace millrace
