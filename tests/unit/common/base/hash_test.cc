#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

#include "common/base/hash.h"

namespace millrace {
namespace {

TEST_CASE("the hash is XXH3-128, in pieces too", "[hash]") {
  // The value comes from the XXH3 reference implementation, for empty input.
  CHECK(Xxh3(std::string_view()).ToHex() == "99aa06d3014798d86001c324468d497f");
  Xxh3Stream stream;
  const std::string text(1000, 'x');
  stream.Update(std::as_bytes(std::span(text.data(), 300)));
  stream.Update(std::as_bytes(std::span(text.data() + 300, 700)));
  CHECK(stream.Finish() == Xxh3(text));
}

TEST_CASE("the hash of long inputs is the same on every processor", "[hash]") {
  // These values come from the xxhsum of Debian's package xxhash, 0.8.1.
  std::string text;
  for (int i = 0; i < 100'000; ++i) text.push_back(static_cast<char>(i * 7 + i / 256));
  CHECK(Xxh3(text).ToHex() == "4e53faeda1b5812bb25cea78018497ff");
  CHECK(Xxh3_64(std::as_bytes(std::span(text))) == 0xb25cea78018497ffu);
  // The vectors of both widths, in one stream.
  Xxh3Stream stream;
  std::size_t at = 0;
  for (std::size_t piece = 1; at < text.size(); piece = piece * 3 % 5003) {
    const std::size_t size = std::min(piece, text.size() - at);
    stream.Update(std::as_bytes(std::span(text).subspan(at, size)));
    at += size;
  }
  CHECK(stream.Finish() == Xxh3(text));
}

}  // namespace
}  // namespace millrace
