// The data of a compressed fragment, as a hostile worker may send them, and what the compressor
// makes of any bytes.
//
// Byte 0 of an input is the compression, bytes 1 to 3 are how many bytes the data are said to stand
// for.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "common/compression/compression.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"

namespace millrace::fuzz {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;

using Bytes = std::vector<std::byte>;

/// Checks that bytes which the compressor makes smaller come back as they were.
void CheckRoundTrip(Compression compression, std::span<const std::byte> bytes) {
  static Compressor compressor;
  static Decompressor decompressor;
  const std::span<const std::byte> small = compressor.Compress(compression, bytes);
  if (small.empty()) return;
  Require(small.size() < bytes.size(), "compressed bytes are fewer");
  Bytes back(bytes.size());
  RequireOk(decompressor.Decompress(compression, small, back), "own bytes are decompressed");
  Require(std::equal(back.begin(), back.end(), bytes.begin(), bytes.end()),
          "bytes come back as they were");
}

std::string Seed(Compression compression, const Bytes& bytes) {
  Compressor compressor;
  const auto small = compressor.Compress(compression, bytes);
  std::string seed(1, compression == Compression::kZstd ? '\1' : '\0');
  for (int shift = 0; shift < 24; shift += 8) {
    seed += static_cast<char>(bytes.size() >> shift);
  }
  return seed.append(reinterpret_cast<const char*>(small.data()), small.size());
}

}  // namespace

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (const Compression compression : {Compression::kLz4, Compression::kZstd}) {
    for (const std::size_t size : {100, 1000, 4000}) {
      Bytes zeros(size);
      Bytes numbers(size);
      for (std::size_t i = 0; i < size; i += 4) numbers[i] = static_cast<std::byte>(i * i / 7);
      seeds.push_back(Seed(compression, zeros));
      seeds.push_back(Seed(compression, numbers));
    }
  }
  return seeds;
}

}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  fuzz::Input in(data, size);
  const Compression compression = in.Byte() % 2 == 0 ? Compression::kLz4 : Compression::kZstd;
  const std::size_t expected = in.Number(3) % (fuzz::kMostBytes + 1);
  const std::span<const std::byte> bytes =
      std::as_bytes(std::span(in.rest().data(), in.rest().size()));
  // Memory of exactly the size, so that a sanitizer sees what is written beside it.
  const auto to = std::make_unique<std::byte[]>(expected);
  Decompressor decompressor;
  const Status status = decompressor.Decompress(compression, bytes, {to.get(), expected});
  fuzz::Require(status.ok() || status.code() == StatusCode::kDataLoss, "the error is DataLoss");
  if (status.ok()) fuzz::CheckRoundTrip(compression, {to.get(), expected});
  fuzz::CheckRoundTrip(compression, bytes);
  return 0;
}
