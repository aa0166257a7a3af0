#include "common/transport/convert/status_json.h"

#include <catch2/catch.hpp>

namespace millrace::test {
namespace {

TEST_CASE("a status as JSON has every field by its own name, and large numbers as strings",
          "[convert]") {
  v1::ServiceStatus status;
  status.set_term(1ull << 60);
  status.add_workers()->set_name("w");
  const std::string text = *StatusJson(status, true);
  CHECK(text.find("\"term\":\"1152921504606846976\"") != std::string::npos);
  CHECK(text.find("\"sent_batches\":\"0\"") != std::string::npos);
  CHECK(text.find("\"consumers\":[]") != std::string::npos);
  CHECK(text.find('\n') == std::string::npos);
  CHECK(StatusJson(status, false)->find("\n \"term\"") != std::string::npos);
}

}  // namespace
}  // namespace millrace::test
