#include "common/transport/convert/drop_reasons.h"

#include <catch2/catch.hpp>

namespace millrace {
namespace {

TEST_CASE("a spec names every reason that this program knows, by its number", "[convert]") {
  v1::Spec spec;
  AddDropReasons(spec);
  REQUIRE(spec.drop_reasons_size() == 4);
  CHECK(spec.drop_reasons(v1::CONTEXT_CUT_OFF - 1) == "context_cut_off");
  CHECK(spec.drop_reasons(v1::TOO_LARGE - 1) == "too_large");
  CHECK(spec.drop_reasons(v1::UNLABELLED_DEFINITION - 1) == "unlabelled_definition");
  CHECK(spec.drop_reasons(v1::EXCLUDED - 1) == "excluded");
}

TEST_CASE("a reason of a newer server has the name that its spec gives it", "[convert]") {
  v1::Spec spec;
  AddDropReasons(spec);
  spec.add_drop_reasons("too_old");
  const DropReasonNames names = DropReasonsOf(spec);
  CHECK(names.NameOf(DropReason{5}) == "too_old");
  CHECK(names.NameOf(DropReason::kExcluded) == "excluded");
  CHECK(names.NameOf(DropReason{6}) == "reason 6");
}

TEST_CASE("a count's reason has the name that the count has, or else the spec's", "[convert]") {
  v1::DroppedCount count;
  count.set_reason(static_cast<v1::DropReason>(17));
  CHECK(NameOf(count, {}) == "reason 17");
  CHECK(NameOf(count, DropReasonNames(std::vector<std::string>(17, "newer"))) == "newer");
  count.set_name("too_old");
  CHECK(NameOf(count, {}) == "too_old");
  count.set_name("\x1b[2J");
  CHECK(NameOf(count, {}) == "reason 17");
}

TEST_CASE("a reason goes onto the wire by its number, whether it has a name or not", "[convert]") {
  CHECK(ToProto(DropReason::kTooLarge) == v1::TOO_LARGE);
  CHECK(static_cast<int>(ToProto(DropReason{17})) == 17);
}

}  // namespace
}  // namespace millrace
