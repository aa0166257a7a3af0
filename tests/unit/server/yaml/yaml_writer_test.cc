#include "server/yaml/yaml_writer.h"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>
#include <catch2/catch.hpp>

#include "server/yaml/yaml_reader.h"

namespace millrace {
namespace {

/// The texts that YAML reads if `scalar` is a value of a map and an item of a list.
std::vector<std::string> ReadBack(const std::string& scalar) {
  const auto tree = ReadYaml("a: " + scalar + "  # more\nb: [x, " + scalar + "]\n", "f");
  INFO(scalar);
  REQUIRE(tree.ok());
  return {(*tree)->entries[0].value->scalar, (*tree)->entries[1].value->items[1]->scalar};
}

TEST_CASE("a text is plain where it may be, in quotes otherwise", "[yaml]") {
  CHECK(YamlText("127.0.0.1:7700") == "127.0.0.1:7700");
  CHECK(YamlText("/data/stdlib") == "/data/stdlib");
  CHECK(YamlText("") == "\"\"");
  CHECK(YamlText("null") == "\"null\"");
  CHECK(YamlText("a, b") == "\"a, b\"");
  CHECK(YamlText("a: b") == "\"a: b\"");
  CHECK(YamlText("say \"x\"") == R"(say "x")");
  CHECK(YamlText("\"x\"") == R"("\"x\"")");
}

TEST_CASE("a text reads back as it is, in a map and in a list", "[yaml]") {
  for (const std::string text :
       {"",     "~",   "-",   "- a", "#a",    "a #b", "a#b",   "a:",   ":a",       "[a",
        "a]",   "{a}", "a,b", "'a'", "\"a\"", "a\\b", "a\nb",  "a\tb", " a",       "a ",
        "&a",   "*a",  "!a",  "%a",  "@a",    "`a",   "?",     "? a",  "|",        ">",
        "true", "010", "é",   "---", "...",   "<<",   "C:\\x", "\x7f", "[::]:7701"}) {
    CAPTURE(text);
    CHECK(ReadBack(YamlText(text)) == std::vector<std::string>{text, text});
  }
  rc::prop("any ASCII", [] {
    const auto text = *rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127));
    RC_ASSERT(ReadBack(YamlText(text)) == std::vector<std::string>({text, text}));
  });
}

TEST_CASE("a list has every text in quotes and reads back", "[yaml]") {
  CHECK(YamlList({}) == "[]");
  const std::vector<std::string> texts = {"a/b.bin", "c \"d\", e", "f\ng\x7f"};
  CHECK(YamlList(std::span(texts).first(1)) == R"(["a/b.bin"])");
  const auto tree = ReadYaml("exclude: {files: " + YamlList(texts) + "}\n", "f");
  REQUIRE(tree.ok());
  std::vector<std::string> read;
  for (const YamlPtr& item : (*tree)->entries[0].value->entries[0].value->items) {
    read.push_back(item->scalar);
  }
  CHECK(read == texts);
}

}  // namespace
}  // namespace millrace
