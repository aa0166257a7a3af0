// Makes fragments of batches smaller for thin links, and makes them whole again.
//
// Each fragment is compressed alone, so that a stream may change its compression between two
// fragments, and a reader needs no more memory than the fragment. Digests cover the uncompressed
// bytes, so nothing here checks that the bytes are right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/result.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace millrace {

/// How the bytes of a fragment are written.
enum class Compression : std::uint8_t {
  kOff,   // uncompressed
  kLz4,   // an LZ4 block
  kZstd,  // a Zstandard frame, level 1
};

/// "off", "lz4" or "zstd".
std::string_view CompressionName(Compression compression);
/// The compression of that name; kOff for any other text.
Compression CompressionOf(std::string_view name);

/// Not thread-safe: one for each thread. It keeps its memory, about a megabyte.
class Compressor {
 public:
  Compressor();
  ~Compressor();
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  /// The compressed bytes, which are valid until the next call. Empty if they would not be at least
  /// a sixteenth smaller: then the bytes are better sent uncompressed.
  std::span<const std::byte> Compress(Compression compression, std::span<const std::byte> bytes);

 private:
  struct Free {
    void operator()(ZSTD_CCtx_s* context) const;
  };

  std::unique_ptr<ZSTD_CCtx_s, Free> zstd_;  // null until it is needed
  std::vector<std::byte> out_;
};

/// Not thread-safe: one for each stream. It takes memory only for Zstandard.
class Decompressor {
 public:
  Decompressor();
  ~Decompressor();
  Decompressor(Decompressor&&) noexcept;
  Decompressor& operator=(Decompressor&&) noexcept;

  /// Fills `to`. DataLoss if the bytes are no data of this compression, or do not give exactly as
  /// many bytes; `to` may be changed then. REQUIRES: compression is not kOff.
  Status Decompress(Compression compression, std::span<const std::byte> from,
                    std::span<std::byte> to);

 private:
  struct Free {
    void operator()(ZSTD_DCtx_s* context) const;
  };

  std::unique_ptr<ZSTD_DCtx_s, Free> zstd_;  // null until it is needed
};

}  // namespace millrace
