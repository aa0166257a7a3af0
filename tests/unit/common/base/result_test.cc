#include <catch2/catch.hpp>

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

}  // namespace
}  // namespace millrace
