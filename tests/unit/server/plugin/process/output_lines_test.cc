#include "server/plugin/process/output_lines.h"

#include <catch2/catch.hpp>

#include <chrono>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace millrace {
namespace {

using std::chrono::seconds;

struct Told {
  std::vector<std::string> lines;
  OutputLines output{[this](std::string_view line) { lines.emplace_back(line); }};
  Time now{seconds(100)};
};

TEST_CASE("output is told line by line", "[plugin_output]") {
  Told told;
  told.output.Add("one\ntw", told.now);
  CHECK(told.lines == std::vector<std::string>{"one"});
  told.output.Add("o\n\nlast", told.now);
  CHECK(told.lines == std::vector<std::string>{"one", "two", ""});
  told.output.Finish(told.now);
  CHECK(told.lines.back() == "last");
}

TEST_CASE("a long line is cut", "[plugin_output]") {
  Told told;
  for (int i = 0; i < 500; ++i) told.output.Add("0123456789", told.now);
  CHECK(told.lines.empty());
  told.output.Add("\nnext\n", told.now);
  REQUIRE(told.lines.size() == 2);
  CHECK(told.lines[0].substr(990) == "0123456789 … (4000 bytes more)");
  CHECK(told.lines[1] == "next");
}

TEST_CASE("of too many lines the number is told", "[plugin_output]") {
  Told told;
  for (int i = 0; i < 1000; ++i) told.output.Add("0123456789\n", told.now);
  CHECK(told.lines.size() == 200);
  SECTION("when there is room for the next line") {
    told.now = told.now + seconds(1);
    told.output.Add("later\n", told.now);
    REQUIRE(told.lines.size() == 202);
    CHECK(told.lines[200] == "[800 lines with 8000 bytes were left out]");
    CHECK(told.lines[201] == "later");
  }
  SECTION("after a while") {
    told.output.Tick(told.now + seconds(1));
    CHECK(told.lines.size() == 200);
    told.output.Tick(told.now + seconds(3));
    REQUIRE(told.lines.size() == 201);
    told.output.Tick(told.now + seconds(30));
    CHECK(told.lines.size() == 201);
  }
  SECTION("at the end") {
    told.output.Finish(told.now);
    REQUIRE(told.lines.size() == 201);
  }
}

TEST_CASE("twenty lines a second are told in the long run", "[plugin_output]") {
  Told told;
  for (int second = 0; second < 100; ++second) {
    told.now = told.now + seconds(1);
    for (int i = 0; i < 100; ++i) told.output.Add("x\n", told.now);
  }
  const auto plain = std::count(told.lines.begin(), told.lines.end(), "x");
  CHECK(plain >= 2100);
  CHECK(plain <= 2220);
}

TEST_CASE("the last bytes are kept whatever was told", "[plugin_output]") {
  Told told;
  for (int i = 0; i < 10'000; ++i) told.output.Add(fmt::format("line {}\n", i), told.now);
  const std::string words = told.output.LastOutput();
  CHECK(words.size() <= 4096);
  CHECK(words.size() > 4000);
  CHECK(words.substr(words.size() - 9) == "line 9999");
  told.output.Add(std::string(100'000, 'y'), told.now);
  CHECK(told.output.LastOutput() == std::string(4096, 'y'));
}

TEST_CASE("lines are plain text", "[plugin_output]") {
  Told told;
  told.output.Add("a\x1b\xff\r\n", told.now);
  CHECK(told.lines[0] == "a\ufffd\ufffd\ufffd");
}

}  // namespace
}  // namespace millrace
