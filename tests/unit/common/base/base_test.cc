#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "common/base/addresses.h"
#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/ids.h"
#include "common/base/log.h"
#include "common/base/result.h"

namespace millrace {
namespace {

Result<int> Half(int n) {
  if (n % 2 != 0) return InvalidArgument("odd");
  return n / 2;
}

Result<int> Quarter(int n) {
  MILLRACE_ASSIGN_OR_RETURN(const int half, Half(n));
  return Half(half);
}

TEST_CASE("a result passes an inner error on", "[result]") {
  CHECK(Quarter(8).value() == 2);
  CHECK(Quarter(6).status() == InvalidArgument("odd"));
  CHECK(Quarter(6).status().WithContext("quarter").ToString() == "INVALID_ARGUMENT: quarter: odd");
  CHECK(OkStatus().WithContext("x").ok());
}

TEST_CASE("digests and fingerprints read what they write and refuse the rest", "[ids]") {
  const Digest128 d{0x0123456789abcdefu, 0xfedcba9876543210u};
  CHECK(d.ToHex() == "0123456789abcdeffedcba9876543210");
  CHECK(Digest128::FromHex(d.ToHex()).value() == d);
  CHECK(Digest128::FromBytes(d.ToBytes()).value() == d);
  CHECK_FALSE(Digest128::FromHex("0123").ok());
  CHECK_FALSE(Digest128::FromHex(std::string(32, 'g')).ok());
  const Fingerprint f{d, {1, 2}};
  CHECK(Fingerprint::FromString(f.ToString()).value() == f);
  CHECK_FALSE(Fingerprint::FromString(d.ToHex()).ok());
}

TEST_CASE("numbers order by term, then by count", "[ids]") {
  CHECK(Number{1, 9} < Number{2, 0});
  CHECK(Number{2, 1} < Number{2, 2});
  CHECK_FALSE(Number{}.is_set());
}

TEST_CASE("the hash is XXH3-128, in pieces too", "[hash]") {
  // From the XXH3 reference implementation, for empty input.
  CHECK(Xxh3(std::string_view()).ToHex() == "99aa06d3014798d86001c324468d497f");
  Xxh3Stream stream;
  const std::string text(1000, 'x');
  stream.Update(std::as_bytes(std::span(text.data(), 300)));
  stream.Update(std::as_bytes(std::span(text.data() + 300, 700)));
  CHECK(stream.Finish() == Xxh3(text));
}

TEST_CASE("a fake clock moves only when told", "[clock]") {
  FakeClock clock;
  const Time t = clock.Now();
  CHECK(clock.Now() == t);
  clock.Advance(std::chrono::seconds(3));
  CHECK(ToSeconds(clock.Now() - t) == 3.0);
}

TEST_CASE("addresses are what lies between commas", "[addresses]") {
  using List = std::vector<std::string>;
  CHECK(SplitAddresses("a:1") == List{"a:1"});
  CHECK(SplitAddresses("a:1,[::1]:2,c:3") == List{"a:1", "[::1]:2", "c:3"});
  CHECK(SplitAddresses(",a:1,,b:2,") == List{"a:1", "b:2"});
  CHECK(SplitAddresses("") == List{""});
  CHECK(SplitAddresses(",") == List{","});
}

TEST_CASE("an address without a host or a port is refused, whichever of several it is",
          "[addresses]") {
  for (const char* good : {"a:1", "a:7700,b:65535", "[::1]:7700", "unix:/run/x", "dns:///a:1"}) {
    CHECK(CheckAddresses("address", good).ok());
  }
  for (const char* bad : {"", "a", "a:", ":7700", "a:0", "a:65536", "a:1,b", "a:x", "a:1x"}) {
    CHECK(CheckAddresses("address", bad).code() == StatusCode::kInvalidArgument);
  }
  CHECK(CheckAddresses("address", "a:1,b").message() ==
        "address 'b': expected host:port, such as 10.0.0.1:7700");
}

TEST_CASE("an unknown log level is refused with the known ones", "[log]") {
  CHECK(ParseLogLevel("warning").value() == LogLevel::kWarning);
  CHECK(ParseLogLevel("loud").status().message() ==
        "log level 'loud' is unknown: expected debug, info, warning, error or off");
}

}  // namespace
}  // namespace millrace
