#include "server/web/web_tls.h"

#include <catch2/catch.hpp>

#include "server/web/gzip.h"

namespace millrace::test {
namespace {

TEST_CASE("a token comes as a bearer's, or as the password that a browser asks for", "[web]") {
  CHECK(TokenOf("Bearer s3cret") == "s3cret");
  CHECK(TokenOf("Basic Ym9iOnMzY3JldA==") == "s3cret");  // bob:s3cret
  CHECK(TokenOf("Basic OnMzY3JldDo=") == "s3cret:");     // :s3cret:
  CHECK(TokenOf("Basic czNjcmV0").empty());              // s3cret, without a colon
  for (const char* none : {"", "Basic ", "Basic !!!!", "Basic abc", "Digest x", "bearer x"}) {
    CAPTURE(none);
    CHECK(TokenOf(none).empty());
  }
}

TEST_CASE("no certificate shows nothing", "[web]") {
  const Shown shown = ShownByCertificate(nullptr);
  CHECK_FALSE(shown.certificate);
  CHECK(shown.common_name.empty());
}

TEST_CASE("gzip is used where the peer takes it", "[web]") {
  CHECK(TakesGzip("gzip, deflate, br"));
  CHECK(TakesGzip("deflate, gzip;q=0.5"));
  CHECK_FALSE(TakesGzip(""));
  CHECK_FALSE(TakesGzip("deflate, br"));
  CHECK_FALSE(TakesGzip("gzip;q=0"));
  CHECK(Gzip("").substr(0, 2) == "\x1f\x8b");
}

}  // namespace
}  // namespace millrace::test
