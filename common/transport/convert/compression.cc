#include "common/transport/convert/compression.h"

namespace millrace {

std::optional<Compression> FromProto(v1::Compression compression) {
  switch (compression) {
    case v1::COMPRESSION_OFF:
      return Compression::kOff;
    case v1::COMPRESSION_LZ4:
      return Compression::kLz4;
    case v1::COMPRESSION_ZSTD:
      return Compression::kZstd;
    default:
      return std::nullopt;
  }
}

v1::Compression ToProto(Compression compression) {
  switch (compression) {
    case Compression::kOff:
      return v1::COMPRESSION_OFF;
    case Compression::kLz4:
      return v1::COMPRESSION_LZ4;
    case Compression::kZstd:
      return v1::COMPRESSION_ZSTD;
  }
  return v1::COMPRESSION_OFF;
}

}  // namespace millrace
