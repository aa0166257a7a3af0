#include "common/base/addresses.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace millrace {
namespace {

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
  for (const char* good : {"a:1", "a:7700,b:65535", "[::1]:7700", "unix:/run/x", "dns:///a:1",
                           "ipv4:10.0.0.1:7700", "dns:7700"}) {
    INFO(good);
    CHECK(CheckAddresses("address", good).ok());
  }
  for (const char* bad : {"", "a", "a:", ":7700", "a:0", "a:65536", "a:1,b", "a:x", "a:1x"}) {
    INFO(bad);
    CHECK(CheckAddresses("address", bad).code() == StatusCode::kInvalidArgument);
  }
  CHECK(CheckAddresses("address", "a:1,b").message() ==
        "address 'b': expected host:port, such as 10.0.0.1:7700 or [2001:db8::1]:7700");
}

TEST_CASE("a host and a port are told apart at the last colon", "[addresses]") {
  CHECK(ParseHostPort("a.example:7700") == HostPort{"a.example", 7700});
  CHECK(ParseHostPort("[::1]:0") == HostPort{"::1", 0});
  for (const char* bad : {"", ":", "a", "a:", ":1", "[::1]", "[]:1", "a:-1", "a:65536", "a:+1",
                          "a: 1", "[a]]:1", "a]:1"}) {
    INFO(bad);
    CHECK(!ParseHostPort(bad));
  }
}

TEST_CASE("an IPv6 address stands in brackets, or its last group would be the port",
          "[addresses]") {
  CHECK(!ParseHostPort("::1:7700"));
  CHECK(!IsHostPort("2001:db8::1:7700", 1));
  CHECK(IsHostPort("[2001:db8::1]:7700", 1));
  CHECK(!CheckAddresses("address", "::1:7700").ok());
}

TEST_CASE("a port of 0 is one to listen on, not to connect to", "[addresses]") {
  CHECK(IsHostPort("a:0", 0));
  CHECK(!IsHostPort("a:0", 1));
}

TEST_CASE("a host keeps its brackets, and its address can have another port", "[addresses]") {
  CHECK(HostOf("a:1") == "a");
  CHECK(HostOf("[::1]:7700") == "[::1]");
  CHECK(HostOf("[::1]") == "[::1]");
  CHECK(HostOf("a") == "a");
  CHECK(WithPort("[::]:0", 7700) == "[::]:7700");
  CHECK(WithPort("0.0.0.0:0", 1) == "0.0.0.0:1");
}

TEST_CASE("loopback is localhost and the numbers of its network, however they are written",
          "[addresses]") {
  for (const char* own : {"127.0.0.1:1", "127.8.9.10:1", "127.1:1", "localhost:1", "LocalHost:1",
                          "[::1]:1", "[0:0:0:0:0:0:0:1]:1", "[::ffff:127.0.0.1]:1"}) {
    INFO(own);
    CHECK(IsLoopback(own));
  }
  for (const char* other : {"10.0.0.1:1", "127.example.com:1", "localhost.example.com:1", "[::]:1",
                            "[::2]:1", "0.0.0.0:1", "", ":1", "*:1", "unix:/127.0.0.1:1"}) {
    INFO(other);
    CHECK(!IsLoopback(other));
  }
}

TEST_CASE("a wildcard is *, and all zeros, however they are written", "[addresses]") {
  for (const char* all : {"0.0.0.0:1", "0:1", "*:1", "[::]:1", "[0:0:0:0:0:0:0:0]:1", "[::0]:1",
                          "[::ffff:0.0.0.0]:1", "0.0.0.0", "[::]"}) {
    INFO(all);
    CHECK(IsWildcard(all));
  }
  for (const char* one : {"127.0.0.1:1", "0.0.0.1:1", "[::1]:1", "a:1", "*.example:1", "", ":1"}) {
    INFO(one);
    CHECK(!IsWildcard(one));
  }
}

}  // namespace
}  // namespace millrace
