#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "common/base/addresses.h"

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
  for (const char* good : {"a:1", "a:7700,b:65535", "[::1]:7700", "unix:/run/x", "dns:///a:1"}) {
    CHECK(CheckAddresses("address", good).ok());
  }
  for (const char* bad : {"", "a", "a:", ":7700", "a:0", "a:65536", "a:1,b", "a:x", "a:1x"}) {
    CHECK(CheckAddresses("address", bad).code() == StatusCode::kInvalidArgument);
  }
  CHECK(CheckAddresses("address", "a:1,b").message() ==
        "address 'b': expected host:port, such as 10.0.0.1:7700");
}

}  // namespace
}  // namespace millrace
