#include "common/compression/compression.h"

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <string>

#include <lz4.h>
#include <zstd.h>

namespace millrace {
namespace {

constexpr int kZstdLevel = 1;
// Bytes that shrink by less are sent as they are.
constexpr std::size_t kLeastGain = 16;

struct NamedCompression {
  Compression compression;
  std::string_view name;
};
constexpr std::array kNames = {NamedCompression{Compression::kZstd, "zstd"},
                               NamedCompression{Compression::kLz4, "lz4"},
                               NamedCompression{Compression::kOff, "off"}};

Status Bad(Compression compression, std::size_t from, std::size_t to, const std::string& why) {
  return DataLoss("a part of " + std::to_string(from) + " bytes of " +
                  std::string(CompressionName(compression)) + ", expected " + std::to_string(to) +
                  " bytes when decompressed: " + why);
}

Status DecompressLz4(std::span<const std::byte> from, std::span<std::byte> to) {
  constexpr std::size_t kMost = std::numeric_limits<int>::max();
  if (from.size() > kMost || to.size() > kMost) {
    return Bad(Compression::kLz4, from.size(), to.size(), "too large");
  }
  const int got = LZ4_decompress_safe(reinterpret_cast<const char*>(from.data()),
                                      reinterpret_cast<char*>(to.data()),
                                      static_cast<int>(from.size()), static_cast<int>(to.size()));
  if (got < 0) return Bad(Compression::kLz4, from.size(), to.size(), "malformed, or too many");
  if (static_cast<std::size_t>(got) != to.size()) {
    return Bad(Compression::kLz4, from.size(), to.size(), "got " + std::to_string(got));
  }
  return OkStatus();
}

}  // namespace

std::string_view CompressionName(Compression compression) {
  for (const NamedCompression& named : kNames) {
    if (named.compression == compression) return named.name;
  }
  return "unknown";
}

Compression CompressionOf(std::string_view name) {
  for (const NamedCompression& named : kNames) {
    if (named.name == name) return named.compression;
  }
  return Compression::kOff;
}

Compressor::Compressor() = default;
Compressor::~Compressor() = default;
void Compressor::Free::operator()(ZSTD_CCtx_s* context) const { ZSTD_freeCCtx(context); }

std::span<const std::byte> Compressor::Compress(Compression compression,
                                                std::span<const std::byte> bytes) {
  const std::size_t most = bytes.size() - bytes.size() / kLeastGain;
  if (compression == Compression::kOff || most == bytes.size() ||
      bytes.size() > static_cast<std::size_t>(LZ4_MAX_INPUT_SIZE)) {
    return {};
  }
  if (out_.size() < most) out_.resize(most);
  if (compression == Compression::kLz4) {
    const int got = LZ4_compress_default(reinterpret_cast<const char*>(bytes.data()),
                                         reinterpret_cast<char*>(out_.data()),
                                         static_cast<int>(bytes.size()), static_cast<int>(most));
    return std::span(out_).first(got > 0 ? static_cast<std::size_t>(got) : 0);
  }
  if (zstd_ == nullptr) zstd_.reset(ZSTD_createCCtx());
  if (zstd_ == nullptr) throw std::bad_alloc();
  const std::size_t got =
      ZSTD_compressCCtx(zstd_.get(), out_.data(), most, bytes.data(), bytes.size(), kZstdLevel);
  return std::span(out_).first(ZSTD_isError(got) != 0 ? 0 : got);
}

Decompressor::Decompressor() = default;
Decompressor::~Decompressor() = default;
Decompressor::Decompressor(Decompressor&&) noexcept = default;
Decompressor& Decompressor::operator=(Decompressor&&) noexcept = default;
void Decompressor::Free::operator()(ZSTD_DCtx_s* context) const { ZSTD_freeDCtx(context); }

Status Decompressor::Decompress(Compression compression, std::span<const std::byte> from,
                                std::span<std::byte> to) {
  if (compression == Compression::kLz4) return DecompressLz4(from, to);
  // The library also reads frames of old versions, and several frames one after another. Nobody
  // sends either.
  constexpr std::array<std::uint8_t, 4> kMagic = {0x28, 0xb5, 0x2f, 0xfd};
  const std::span<const std::byte> magic = std::as_bytes(std::span(kMagic));
  if (from.size() < magic.size() || !std::equal(magic.begin(), magic.end(), from.begin())) {
    return Bad(compression, from.size(), to.size(), "it does not begin as one");
  }
  if (ZSTD_findFrameCompressedSize(from.data(), from.size()) != from.size()) {
    return Bad(compression, from.size(), to.size(), "it is not exactly one frame");
  }
  if (zstd_ == nullptr) zstd_.reset(ZSTD_createDCtx());
  if (zstd_ == nullptr) return ResourceExhausted("no memory to decompress with");
  const std::size_t got =
      ZSTD_decompressDCtx(zstd_.get(), to.data(), to.size(), from.data(), from.size());
  if (ZSTD_isError(got) != 0) {
    return Bad(compression, from.size(), to.size(), ZSTD_getErrorName(got));
  }
  if (got != to.size()) {
    return Bad(compression, from.size(), to.size(), "got " + std::to_string(got));
  }
  return OkStatus();
}

}  // namespace millrace
