#include "common/batch/layout/drop_reasons.h"

#include <catch2/catch.hpp>

namespace millrace {
namespace {

TEST_CASE("without a spec, reasons have this program's names, others their numbers",
          "[drop_reasons]") {
  const DropReasonNames names;
  CHECK(names.NameOf(DropReason::kTooLarge) == "too_large");
  CHECK(names.NameOf(DropReason{17}) == "reason 17");
  CHECK(names.NameOf(std::uint64_t{0}) == "reason 0");
  CHECK(names.Find(17).empty());
}

TEST_CASE("a spec's name goes before this program's", "[drop_reasons]") {
  const DropReasonNames names({"cut_off", "", "", "", "too_old"});
  CHECK(names.NameOf(DropReason{1}) == "cut_off");
  CHECK(names.NameOf(DropReason::kTooLarge) == "too_large");
  CHECK(names.NameOf(DropReason{5}) == "too_old");
  CHECK(names.NameOf(DropReason{6}) == "reason 6");
}

TEST_CASE("text that may not stand in a log or on a terminal names no reason",
          "[drop_reasons][hostile]") {
  CHECK(IsDropReasonName("too_large_2"));
  for (const std::string& bad :
       {std::string(), std::string("a b"), std::string("A"), std::string("a\"b"),
        std::string("\x1b[2J"), std::string(65, 'a')}) {
    INFO(bad);
    CHECK_FALSE(IsDropReasonName(bad));
    CHECK(DropReasonNames({"", "", "", "", bad}).NameOf(DropReason{5}) == "reason 5");
  }
  CHECK(IsDropReasonName(std::string(64, 'a')));
}

TEST_CASE("names of numbers that no batch may have are not kept", "[drop_reasons][hostile]") {
  const DropReasonNames names(std::vector<std::string>(1000, "many"));
  CHECK(names.NameOf(std::uint64_t{63}) == "many");
  CHECK(names.NameOf(std::uint64_t{64}) == "reason 64");
}

}  // namespace
}  // namespace millrace
