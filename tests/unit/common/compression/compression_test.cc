#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "common/compression/compression.h"

namespace millrace {
namespace {

using Blob = std::vector<std::byte>;

/// Small numbers in words of four bytes, as batches have them.
Blob CompressibleBlob(std::size_t bytes) {
  std::minstd_rand random(5);
  Blob made(bytes);
  for (std::size_t i = 0; i < bytes; i += 4) made[i] = static_cast<std::byte>(random() % 4);
  return made;
}

/// Bytes that nothing makes smaller.
Blob RandomBlob(std::size_t bytes) {
  std::mt19937 random(7);
  Blob made(bytes);
  for (std::byte& byte : made) byte = static_cast<std::byte>(random());
  return made;
}

Blob Compressed(Compression compression, const Blob& bytes) {
  Compressor compressor;
  const auto made = compressor.Compress(compression, bytes);
  return {made.begin(), made.end()};
}

Status Decompressed(Compression compression, const Blob& from, Blob& to) {
  return Decompressor().Decompress(compression, from, to);
}

const auto kBoth = {Compression::kLz4, Compression::kZstd};

TEST_CASE("bytes come back as they were", "[compression]") {
  for (const Compression compression : kBoth) {
    Compressor compressor;
    Decompressor decompressor;
    for (const std::size_t size : {400, 4096, 100'001, 1 << 20}) {
      const Blob raw = CompressibleBlob(size);
      const auto small = compressor.Compress(compression, raw);
      INFO(CompressionName(compression) << ", " << size << " to " << small.size());
      REQUIRE(!small.empty());
      CHECK(small.size() < size * 2 / 3);
      Blob back(size);
      REQUIRE(decompressor.Decompress(compression, small, back).ok());
      CHECK(back == raw);
    }
  }
}

TEST_CASE("bytes that would hardly be smaller are not compressed", "[compression]") {
  for (const Compression compression : kBoth) {
    CHECK(Compressed(compression, RandomBlob(100'000)).empty());
    CHECK(Compressed(compression, Blob(15)).empty());
    CHECK(Compressed(compression, {}).empty());
  }
  CHECK(Compressed(Compression::kOff, CompressibleBlob(1000)).empty());
}

TEST_CASE("data that give more or fewer bytes than was said are refused", "[compression]") {
  for (const Compression compression : kBoth) {
    const Blob small = Compressed(compression, Blob(1 << 20));
    for (const std::size_t size : {std::size_t{0}, std::size_t{1000}, std::size_t{2} << 20}) {
      Blob to(size + 64, std::byte{0x5a});
      const Status status =
          Decompressor().Decompress(compression, small, std::span(to).first(size));
      INFO(status.ToString());
      CHECK(status.code() == StatusCode::kDataLoss);
      CHECK(status.message().find("expected " + std::to_string(size)) != std::string::npos);
      CHECK(std::all_of(to.begin() + static_cast<std::ptrdiff_t>(size), to.end(),
                        [](std::byte b) { return b == std::byte{0x5a}; }));
    }
  }
}

TEST_CASE("data that were cut off are refused", "[compression]") {
  for (const Compression compression : kBoth) {
    const Blob raw = CompressibleBlob(5000);
    const Blob small = Compressed(compression, raw);
    for (std::size_t size = 0; size < small.size(); size += 7) {
      Blob to(raw.size());
      CHECK_FALSE(Decompressed(compression,
                               {small.begin(), small.begin() + static_cast<std::ptrdiff_t>(size)},
                               to)
                      .ok());
    }
  }
}

TEST_CASE("damaged data are refused, or give other bytes and harm nothing", "[compression]") {
  std::minstd_rand random(3);
  for (const Compression compression : kBoth) {
    const Blob raw = CompressibleBlob(3000);
    const Blob small = Compressed(compression, raw);
    for (int i = 0; i < 2000; ++i) {
      Blob damaged = small;
      damaged[random() % damaged.size()] ^= static_cast<std::byte>(1u << random() % 8);
      Blob to(raw.size());
      const Status status = Decompressed(compression, damaged, to);
      CHECK((status.ok() || status.code() == StatusCode::kDataLoss));
    }
  }
}

TEST_CASE("only one frame of the present format of Zstandard is taken", "[compression]") {
  const Blob raw = CompressibleBlob(1000);
  const Blob small = Compressed(Compression::kZstd, raw);
  Blob two = small;
  two.insert(two.end(), small.begin(), small.end());
  Blob to(2 * raw.size());
  CHECK(Decompressed(Compression::kZstd, two, to).message().find("exactly one frame") !=
        std::string::npos);
  Blob old = small;
  old[0] = std::byte{0x27};  // version 0.7
  to.resize(raw.size());
  CHECK(Decompressed(Compression::kZstd, old, to).code() == StatusCode::kDataLoss);
  // A frame that is skipped gives no bytes.
  const std::uint8_t skipped[] = {0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0};
  Blob frame(sizeof skipped);
  std::memcpy(frame.data(), skipped, sizeof skipped);
  to.clear();
  CHECK_FALSE(Decompressed(Compression::kZstd, frame, to).ok());
}

TEST_CASE("data of one compression are none of the other", "[compression]") {
  const Blob raw = CompressibleBlob(1000);
  Blob to(raw.size());
  CHECK_FALSE(Decompressed(Compression::kZstd, Compressed(Compression::kLz4, raw), to).ok());
}

TEST_CASE("a compression has a name, and a wrong name stands for none", "[compression]") {
  for (const Compression one : {Compression::kOff, Compression::kLz4, Compression::kZstd}) {
    CHECK(CompressionOf(CompressionName(one)) == one);
  }
  for (const char* wrong : {"gzip", "", "ZSTD"}) CHECK(CompressionOf(wrong) == Compression::kOff);
}

}  // namespace
}  // namespace millrace
