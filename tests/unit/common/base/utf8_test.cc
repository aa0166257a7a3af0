#include "common/base/utf8.h"

#include <catch2/catch.hpp>

namespace millrace {
namespace {

TEST_CASE("UTF-8 is told from what is not", "[utf8]") {
  for (const char* good :
       {"", "abc", "\xC3\xA9", "\xE2\x88\x80", "\xF0\x9F\x8C\x8A", "\xEF\xBF\xBF"}) {
    CHECK(IsUtf8(good));
  }
  for (const char* bad : {"\x80", "\xC3", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80",
                          "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "a\xFF"}) {
    CHECK_FALSE(IsUtf8(bad));
  }
}

TEST_CASE("a text is cut between characters", "[utf8]") {
  const auto cut = [](std::string text, std::size_t most) {
    CutUtf8(text, most);
    return text;
  };
  CHECK(cut("abc", 3) == "abc");
  CHECK(cut("abcd", 3) == "abc");
  CHECK(cut("ab\xC3\xA9", 3) == "ab");
  CHECK(cut("a\xF0\x9F\x8C\x8A", 4) == "a");
  CHECK(cut("\xE2\x88\x80", 2).empty());
}

}  // namespace
}  // namespace millrace
