// Reads protobuf's wire format within one message, as strictly as protobuf's own parser does.
//
// Thread-compatible. It refers to the bytes that it reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace millrace {

/// The form of a field, which its tag has beside the number.
enum class WireType : std::uint8_t {
  kVarint,
  kFixed64,
  kBytes,
  kGroupBegin,
  kGroupEnd,
  kFixed32,
};
constexpr std::uint32_t WireTag(std::uint32_t field, WireType type) {
  return field << 3 | static_cast<std::uint32_t>(type);
}

/// How deep messages and groups may nest below the outermost message.
inline constexpr int kMostNestedMessages = 100;

class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> message)
      : at_(message.data()), end_(message.data() + message.size()) {}

  bool AtEnd() const { return at_ == end_; }

  /// Each of these is false if the message is not well formed at this place. The reader cannot be
  /// used any more then.
  bool ReadTag(std::uint32_t& tag);
  bool ReadVarint(std::uint64_t& value);
  /// A length and as many bytes.
  bool ReadBytes(std::span<const std::byte>& bytes);
  /// A fixed number of bytes.
  bool ReadFixed(std::size_t size, std::span<const std::byte>& bytes);
  /// Skips the rest of a field with this tag. `depth`: how many groups may nest in it.
  bool SkipField(std::uint32_t tag, int depth);

 private:
  bool ReadTagSlowly(std::uint32_t& tag);
  bool ReadVarintSlowly(std::uint64_t& value);
  bool ReadLengthSlowly(std::size_t& length);

  const std::byte* at_;
  const std::byte* end_;
};

inline bool WireReader::ReadTag(std::uint32_t& tag) {
  if (at_ == end_) return false;
  tag = static_cast<std::uint32_t>(*at_);
  if (tag >= 0x80) return ReadTagSlowly(tag);
  ++at_;
  return true;
}

inline bool WireReader::ReadVarint(std::uint64_t& value) {
  if (at_ == end_) return false;
  value = static_cast<std::uint64_t>(*at_);
  if (value >= 0x80) {
    if (end_ - at_ < 2 || static_cast<std::uint64_t>(at_[1]) >= 0x80)
      return ReadVarintSlowly(value);
    value = (value & 0x7F) | static_cast<std::uint64_t>(at_[1]) << 7;
    ++at_;
  }
  ++at_;
  return true;
}

inline bool WireReader::ReadFixed(std::size_t size, std::span<const std::byte>& bytes) {
  if (static_cast<std::size_t>(end_ - at_) < size) return false;
  bytes = {at_, size};
  at_ += size;
  return true;
}

inline bool WireReader::ReadBytes(std::span<const std::byte>& bytes) {
  if (at_ == end_) return false;
  auto length = static_cast<std::size_t>(*at_);
  if (length < 0x80) {
    ++at_;
  } else if (end_ - at_ >= 2 && static_cast<std::size_t>(at_[1]) < 0x80) {
    length = (length & 0x7F) | static_cast<std::size_t>(at_[1]) << 7;
    at_ += 2;
  } else if (!ReadLengthSlowly(length)) {
    return false;
  }
  return ReadFixed(length, bytes);
}

}  // namespace millrace
