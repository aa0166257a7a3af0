#include "common/base/suggestion.h"

#include <catch2/catch.hpp>

namespace millrace {
namespace {

TEST_CASE("a mistyped word is known by few changes", "[suggestion]") {
  const std::vector<std::string> words = {"shuffle", "source", "x"};
  CHECK(Nearest("shufle", words) == "shuffle");
  CHECK(Nearest("suorce", words) == "source");
  CHECK(Nearest("closure", words).empty());
  CHECK(Nearest("y", words).empty());  // a word may not be changed as a whole
  CHECK(Nearest("", words).empty());
  CHECK(Suggestion("sorce", words) == " (did you mean source?)");
  CHECK(Suggestion("closure", words).empty());
}

}  // namespace
}  // namespace millrace
