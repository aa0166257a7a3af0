// Writes the fields of protobuf messages one by one, as protobuf serializes them.
//
// The values of a repeated field come from a function that calls a visitor for each value. It is
// called once for the size and once for the bytes. REQUIRES: it gives the same values each time.
#pragma once

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace millrace::wire_fields {

using Out = google::protobuf::io::CodedOutputStream;
using Lite = google::protobuf::internal::WireFormatLite;

inline std::size_t LengthTagSize(int field, std::size_t bytes) {
  return Out::VarintSize32(Lite::MakeTag(field, Lite::WIRETYPE_LENGTH_DELIMITED)) +
         Out::VarintSize64(bytes);
}
inline void WriteLengthTag(int field, std::size_t bytes, Out& out) {
  out.WriteTag(Lite::MakeTag(field, Lite::WIRETYPE_LENGTH_DELIMITED));
  out.WriteVarint64(bytes);
}

/// Size of a field with a string or message of `bytes` bytes.
inline std::size_t LengthFieldSize(int field, std::size_t bytes) {
  return LengthTagSize(field, bytes) + bytes;
}
inline void WriteString(int field, std::string_view text, Out& out) {
  WriteLengthTag(field, text.size(), out);
  if (!text.empty()) out.WriteRaw(text.data(), static_cast<int>(text.size()));
}

/// Size of the varints of a packed field. `each(visit)` calls visit(std::uint64_t).
template <class Each>
std::size_t PackedBytes(const Each& each) {
  std::size_t bytes = 0;
  each([&bytes](std::uint64_t value) { bytes += Out::VarintSize64(value); });
  return bytes;
}
/// Nothing is written if there are no values.
template <class Each>
void WritePacked(int field, const Each& each, Out& out) {
  const std::size_t bytes = PackedBytes(each);
  if (bytes == 0) return;
  WriteLengthTag(field, bytes, out);
  each([&out](std::uint64_t value) { out.WriteVarint64(value); });
}

/// The encoding of a sint64 value.
inline std::uint64_t ZigZag(std::int64_t value) { return Lite::ZigZagEncode64(value); }

}  // namespace millrace::wire_fields
