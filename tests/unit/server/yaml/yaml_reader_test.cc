#include "server/yaml/yaml_reader.h"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>
#include <catch2/catch.hpp>

namespace millrace {
namespace {

std::string ErrorOf(std::string_view text) {
  const auto tree = ReadYaml(text, "f");
  REQUIRE_FALSE(tree.ok());
  CHECK(tree.status().code() == StatusCode::kInvalidArgument);
  return tree.status().message();
}

std::string Repeated(std::string_view text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

}  // namespace

TEST_CASE("a tree knows the line and column of every key and value", "[yaml]") {
  const auto tree = ReadYaml("a: 1\nb:\n  - x\n  - 'y'\n", "f");
  REQUIRE(tree.ok());
  REQUIRE((*tree)->entries.size() == 2);
  const YamlEntry& b = (*tree)->entries[1];
  CHECK(b.key == "b");
  CHECK(b.mark.line == 2);
  CHECK(b.mark.column == 1);
  REQUIRE(b.value->items.size() == 2);
  CHECK(b.value->items[1]->mark.line == 4);
  CHECK(b.value->items[1]->mark.column == 5);
  CHECK(b.value->items[1]->quoted);
  CHECK_FALSE(b.value->items[0]->quoted);
}

TEST_CASE("an empty text is a null node", "[yaml]") {
  for (const char* text : {"", "\n", "# only a comment\n", "~", "null"}) {
    const auto tree = ReadYaml(text, "f");
    INFO(text);
    REQUIRE(tree.ok());
    CHECK((*tree)->kind == YamlNode::Kind::kNull);
  }
}

TEST_CASE("a quoted null is text", "[yaml]") {
  const auto tree = ReadYaml("'null'", "f");
  REQUIRE(tree.ok());
  CHECK((*tree)->kind == YamlNode::Kind::kScalar);
}

TEST_CASE("an alias shares the node of its anchor", "[yaml]") {
  const auto tree = ReadYaml("a: &x [1, 2]\nb: *x\n", "f");
  REQUIRE(tree.ok());
  CHECK((*tree)->entries[0].value == (*tree)->entries[1].value);
}

TEST_CASE("a duplicate key names both places", "[yaml]") {
  CHECK(ErrorOf("a: 1\nb: 2\na: 3\n") == "f:3:1: duplicate key 'a', first written at line 1");
}

TEST_CASE("what YAML can and a pipeline must not is refused with its place", "[yaml]") {
  CHECK(ErrorOf("a: &x {b: 1}\nc:\n  <<: *x\n").starts_with("f:3:3: the merge key '<<'"));
  CHECK(ErrorOf("a: 1\n---\nb: 2\n").starts_with("f:2:1: a second document"));
  CHECK(ErrorOf("a: !!int 5\n").find("tags are not supported") != std::string::npos);
  CHECK(ErrorOf("a: !mine {b: 1}\n").find("tags are not supported") != std::string::npos);
  CHECK(ErrorOf("? [a, b]\n: 1\n").find("a key has to be a name") != std::string::npos);
  CHECK(ErrorOf("&x a: 1\n").find("a key cannot have an anchor") != std::string::npos);
  CHECK(ErrorOf("a: &x b\n*x : 1\n").find("a key cannot be an alias") != std::string::npos);
  CHECK(ErrorOf("a: &x [1, *x]\n").find("an alias inside what it stands for") != std::string::npos);
}

TEST_CASE("text that is no YAML is refused with its place", "[yaml]") {
  CHECK(ErrorOf("a: [1, 2\n").find("not valid YAML") != std::string::npos);
  CHECK(ErrorOf("a: *nobody\n").find("not valid YAML") != std::string::npos);
  CHECK(ErrorOf("a: 1\n  b: 2\n").starts_with("f:2:"));
}

TEST_CASE("text that is no text is refused with its place", "[yaml]") {
  using namespace std::string_view_literals;
  CHECK(ErrorOf("a: 1\nb\0: 2"sv).starts_with("f:2:2: the control character 0x00"));
  CHECK(ErrorOf("a: 1\n\x04more: 2"sv).starts_with("f:2:1: the control character 0x04"));
  CHECK(ErrorOf("a: \xff\xfe"sv).starts_with("f:1:4: a byte that is not UTF-8"));
  CHECK(ErrorOf("a: \xc0\x80"sv).starts_with("f:1:4: a byte that is not UTF-8"));
  CHECK(ErrorOf("a: \xed\xa0\x80"sv).starts_with("f:1:4: a byte that is not UTF-8"));
  CHECK(ErrorOf("\x7f"
                "ELF\x02\x01"sv)
            .starts_with("f:1:1: the control character 0x7f"));
}

TEST_CASE("nesting, size and expanded aliases have limits", "[yaml]") {
  CHECK(ErrorOf("a: " + Repeated("[", 500) + Repeated("]", 500))
            .find("nested deeper than 16 levels") != std::string::npos);
  CHECK(ErrorOf("a: " + Repeated("{a: ", 500) + Repeated("}", 500)).find("nested deeper") !=
        std::string::npos);
  CHECK(ErrorOf(Repeated("[", 100'000)).find("is a bracket not closed?") != std::string::npos);
  CHECK(ErrorOf(Repeated("{a: ", 100'000)).find("is a bracket not closed?") != std::string::npos);
  CHECK(ErrorOf(Repeated("- ", 100'000)).find("nested deeper") != std::string::npos);
  CHECK(ErrorOf(std::string(kMaxYamlBytes + 1, ' ')).find("expected at most 1048576") !=
        std::string::npos);
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    const std::string below = "*a" + std::to_string(i - 1);
    laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + below +
              Repeated(", " + below, 9) + "]\n";
  }
  CHECK(ErrorOf(laughs).find("more than 100000 values") != std::string::npos);
}

TEST_CASE("no text crashes the reader", "[yaml][property]") {
  const auto piece = rc::gen::element<std::string>(
      "a", "b", ": ", ":", "- ", "-", "\n", "\n  ", "[", "]", "{", "}", ",", "&x ", "*x", "!",
      "!!s ", "'", "\"", "\\", "|", ">", "#", "%", "@", "---", "...", "?", "? ", "<<: ", "~", "\t",
      "\r\n", "\xef\xbb\xbf", "1", " ");
  rc::prop("random pieces of YAML are read or refused", [&] {
    const auto pieces = *rc::gen::container<std::vector<std::string>>(piece);
    std::string text;
    for (const std::string& p : pieces) text += p;
    const auto tree = ReadYaml(text, "f");
    RC_ASSERT(tree.ok() || tree.status().message().starts_with("f:"));
  });
  rc::prop("random bytes are read or refused", [] {
    const auto text = *rc::gen::arbitrary<std::string>();
    const auto tree = ReadYaml(text, "f");
    RC_ASSERT(tree.ok() || tree.status().message().starts_with("f:"));
  });
}

}  // namespace millrace
