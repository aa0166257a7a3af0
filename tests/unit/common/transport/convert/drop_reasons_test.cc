#include "common/transport/convert/drop_reasons.h"

#include <catch2/catch.hpp>

namespace millrace {
namespace {

TEST_CASE("a spec names the reasons of all kinds of datasets and of its own, by their numbers",
          "[convert]") {
  v1::Spec spec;
  AddDropReasons({}, spec);
  CHECK(std::vector<std::string>(spec.drop_reasons().begin(), spec.drop_reasons().end()) ==
        std::vector<std::string>{"", "too_large", "", "excluded"});
  spec.clear_drop_reasons();
  AddDropReasons(DropReasonNames({"torn", "", "", "", "too_old"}), spec);
  CHECK(std::vector<std::string>(spec.drop_reasons().begin(), spec.drop_reasons().end()) ==
        std::vector<std::string>{"torn", "too_large", "", "excluded", "too_old"});
}

TEST_CASE("a reason of a newer server has the name that its spec gives it", "[convert]") {
  v1::Spec spec;
  AddDropReasons({}, spec);
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
