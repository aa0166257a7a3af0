#include <catch2/catch.hpp>

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

}  // namespace
}  // namespace millrace
