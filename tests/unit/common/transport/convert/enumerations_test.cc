// The compiler checks that the numbers of each pair of enumerations agree. These tests are about
// numbers that only newer programs know.
#include <catch2/catch.hpp>

#include "common/transport/convert/spans.h"
#include "common/transport/convert/wait_causes.h"

namespace millrace {
namespace {

TEST_CASE("every cause of waiting comes back, and has the protocol's name", "[convert]") {
  for (std::size_t i = 0; i < kWaitCauses; ++i) {
    const auto cause = static_cast<WaitCause>(i);
    CHECK(FromProto(ToProto(cause)) == cause);
  }
  CHECK(ToProto(WaitCause::kNone) == v1::WAIT_CAUSE_UNSPECIFIED);
  CHECK(ToProto(WaitCause::kTransfer) == v1::WAIT_TRANSFER);
}

TEST_CASE("a cause that this program does not know is none", "[convert]") {
  v1::Wait wait;
  REQUIRE(wait.ParseFromString(std::string("\x08\x63", 2)));  // cause 99
  CHECK(FromProto(wait.cause()) == WaitCause::kNone);
}

TEST_CASE("a kind of span that this program does not know has a number of its own", "[convert]") {
  v1::Spans columns;
  AppendTo(columns, Span{});
  columns.set_kind(0, 99);
  CHECK(SpanAt(columns, 0).kind == static_cast<SpanKind>(kSpanKinds));
}

}  // namespace
}  // namespace millrace
