#include "server/yaml/tree_text.h"

#include <catch2/catch.hpp>

#include <fmt/format.h>

#include <string>

#include "tests/unit/server/plan/text/pipeline_text.h"

namespace millrace::test {
namespace {

YamlNode YamlOf(const std::string& yaml) {
  const auto node = ReadYaml(yaml, "y");
  INFO(node.status().message());
  REQUIRE(node.ok());
  return **node;
}

std::string JsonOf(const std::string& yaml) { return WriteTree(YamlOf(yaml)).json; }

TEST_CASE("equal values of any shape have one text, keys sorted by their bytes", "[tree_text]") {
  CHECK(JsonOf("{b: 1, a: {d: x, c: [1, {z: 2, y: 3}]}, B: null}") ==
        R"({"B": null, "a": {"c": [1, {"y": 3, "z": 2}], "d": "x"}, "b": 1})");
  CHECK(JsonOf("b:\n  - 1\na: 'x'\n") == JsonOf("{a: \"x\", b: [1]}"));
}

TEST_CASE("plain scalars are what they look like, and quoted ones are texts", "[tree_text]") {
  CHECK(JsonOf("[1, -2, 1.50, 1e3, true, False, ~, null, yes, int64, '1', \"true\", '']") ==
        R"([1, -2, 1.5, 1000.0, true, false, null, null, "yes", "int64", "1", "true", ""])");
  CHECK(JsonOf("[a\"b, 'line\nbreak', \xC3\xA9]") == "[\"a\\\"b\", \"line break\", \"\xC3\xA9\"]");
  CHECK(JsonOf("{}") == "{}");
  CHECK(JsonOf("[]") == "[]");
}

TEST_CASE("keys of a tree have their places, but for those within lists", "[tree_text]") {
  const TreeText text = WriteTree(YamlOf("a:\n  b: 1\nc: [{d: 2}]\n"));
  REQUIRE(text.marks.size() == 3);
  CHECK(text.marks.at("a").line == 1);
  CHECK(text.marks.at("a.b").line == 2);
  CHECK(text.marks.at("a.b").column == 3);
  CHECK(text.marks.at("c").line == 3);
}

TEST_CASE("numbers that would become others are refused with their place", "[tree_text]") {
  for (const char* odd : {"99999999999999999999", "007", "-08", ".inf", "-.inf", ".nan"}) {
    INFO(odd);
    const TreeText text = WriteTree(YamlOf(fmt::format("a: 1\nb: {}\n", odd)));
    REQUIRE(text.error.has_value());
    CHECK(text.error->mark.line == 2);
    CHECK(text.error->message ==
          fmt::format("expected a finite number of at most 64 bits without leading zeros, or a "
                      "quoted text; got {}",
                      odd));
    CHECK_FALSE(WriteTree(YamlOf(fmt::format("a: 1\nb: '{}'\n", odd))).error.has_value());
  }
}

/// A pipeline over records; `source` begins in line 3, column 9.
std::string RecordsYaml(const std::string& source, const std::string& more = "") {
  return "millrace: 1\ndataset: d\nsource: " + source + "\nbatch: {size: 8}\n" + more;
}

TEST_CASE("errors in the features of records have the place of what is wrong", "[tree_text]") {
  CHECK(ErrorOf(RecordsYaml("{records: {a: int64, b: int46}}"))
            .starts_with("p.yaml:3:30: source.records.b: the type \"int46\": column 1: "));
  CHECK(ErrorOf(RecordsYaml("{records: {a: {type: int64, defualt: 0}}}")) ==
        "p.yaml:3:37: source.records.a.defualt: unknown key; expected {feature: \"…\", type: "
        "\"…\", default: …}");
  CHECK(ErrorOf(RecordsYaml("{records: {a: {type: uint8[2, 2], default: 0}}}"))
            .starts_with("p.yaml:3:"));
  CHECK(ErrorOf(RecordsYaml("{records: {a: {type: \"int64[2]\", default: [1]}}}"))
            .starts_with("p.yaml:3:42: source.records.a.default: the default [1] does not fit"));
  CHECK(ErrorOf(RecordsYaml("{records: {example_id: int64}}")) ==
        "p.yaml:3:20: source.records.example_id: batches have something else of this name; choose "
        "another one");
  CHECK(ErrorOf(RecordsYaml("{records: {a: \"int64[*]\", a_splits: int64}}"))
            .starts_with("p.yaml:3:35: source.records.a_splits: "));
  CHECK(ErrorOf(RecordsYaml("\n  records:\n    a: int64\n    b: float64"))
            .starts_with("p.yaml:6:5: source.records.b: records hold bytes, int64 and float32"));
  CHECK(ErrorOf(RecordsYaml("{records: {a: {type: int64, default: 99999999999999999999}}}"))
            .starts_with("p.yaml:3:46: source.records: expected a finite number"));
}

TEST_CASE("records need features, which are a map", "[tree_text]") {
  const std::string expected = "expected a map from names to types";
  CHECK_THAT(ErrorOf(RecordsYaml("{records: {}}")),
             Catch::StartsWith("p.yaml:3:19: source.records: " + expected));
  CHECK_THAT(ErrorOf(RecordsYaml("records")), Catch::Contains("source"));
  CHECK_THAT(ErrorOf(RecordsYaml("{records: null}")), Catch::StartsWith("p.yaml:3:"));
  CHECK_THAT(ErrorOf(RecordsYaml("{records: [a]}")),
             Catch::StartsWith("p.yaml:3:19: source.records"));
  CHECK_THAT(ErrorOf(RecordsYaml("{records: int64}")),
             Catch::StartsWith("p.yaml:3:19: source.records"));
}

TEST_CASE("a key with dots sets what stands in a tree", "[tree_text]") {
  const std::string plugin = "{python: \"m:Source\", args: {n: 6, of: {a: 1, b: x}}}";
  const auto canonical = [](const std::string& source, const std::vector<std::string>& overrides) {
    return MustParse(RecordsYaml(source), "", overrides).canonical_text();
  };
  CHECK(canonical(plugin, {"source.args.n=3"}) ==
        canonical("{python: \"m:Source\", args: {n: 3, of: {a: 1, b: x}}}", {}));
  CHECK(canonical(plugin, {"source.args.of.b=[1, 2]", "source.args.more.c=y"}) ==
        canonical("{python: \"m:Source\", args: {n: 6, of: {a: 1, b: [1, 2]}, more: {c: y}}}", {}));
  CHECK(canonical("{python: \"m:Source\"}", {"source.args.n=3"}) ==
        canonical("{python: \"m:Source\", args: {n: 3}}", {}));
  CHECK(canonical("{records: {a: int64}}", {"source.records.b=float32"}) ==
        canonical("{records: {a: int64, b: float32}}", {}));
  CHECK_THAT(ErrorOf(RecordsYaml(plugin), "", {"source.args.n.x=3"}),
             Catch::Contains("source.args.n: expected a map in which to set x, got '6'"));
  CHECK_THAT(ErrorOf(RecordsYaml("{records: {a: int64}}"), "", {"source.records.b=int46"}),
             Catch::Contains("override 'source.records.b=int46': source.records.b: the type"));
  CHECK_THAT(ErrorOf(RecordsYaml(plugin), "", {"source.arks.n=3"}),
             Catch::Contains("unknown key 'source.arks.n'"));
}

TEST_CASE("options stand beside the source that has them, and no other", "[tree_text]") {
  const auto canonical = [](const std::string& source) {
    return MustParse(RecordsYaml(source)).canonical_text();
  };
  const std::string plain = canonical("{records: {a: int64}}");
  CHECK(canonical("{records: {a: int64}, on_error: fail}") == plain);
  CHECK(canonical("{on_error: drop, records: {a: int64}}") != plain);
  CHECK(canonical("{on_error: drop, records: {a: int64}}") ==
        canonical("{records: {a: int64}, on_error: drop}"));
  CHECK_THAT(ErrorOf(RecordsYaml("{records: {a: int64}, on_error: skip}")),
             Catch::StartsWith("p.yaml:3:41: source.on_error: expected one of fail, drop, got "
                               "'skip'"));
  CHECK(MustParse(RecordsYaml("{roots: all, on_error: drop}")).unused_keys() ==
        std::vector<std::string>{"source.on_error"});
  CHECK_THAT(ErrorOf(RecordsYaml("{records: {a: int64}, graphs: all}")),
             Catch::Contains("graphs beside records"));
  CHECK_THAT(ErrorOf(RecordsYaml("{on_error: drop}")), Catch::StartsWith("p.yaml:3:9: source: "));
}

TEST_CASE("the order and the style of features mean nothing", "[tree_text]") {
  const auto digest = [](const std::string& source) {
    return MustParse(RecordsYaml(source)).digest();
  };
  CHECK(digest("{records: {a: int64, b: 'str'}}") ==
        digest("\n  records:\n    b: str\n    a: int64"));
  CHECK(digest("{records: {a: int64}}") != digest("{records: {a: float32}}"));
  CHECK(digest("{records: {a: int64}}") != digest("{records: {b: int64}}"));
}

TEST_CASE("features stand in the canonical text as one value", "[tree_text]") {
  CHECK(
      MustParse(RecordsYaml("{records: {b: 'str', a: {type: int64, default: 3}}, on_error: drop}"))
          .canonical_text() ==
      "batch.size=8\nsemantics=1\nsource.on_error=drop\nsource.records={\"a\": {\"default\": 3, "
      "\"type\": \"int64\"}, \"b\": \"str\"}\nsource=records\n");
}

TEST_CASE("features are overridden as a whole", "[tree_text]") {
  const std::string yaml = RecordsYaml("{records: {a: int64}}");
  CHECK(MustParse(yaml, "", {"source={records: {b: str}}"}).digest() ==
        MustParse(RecordsYaml("{records: {b: str}}")).digest());
  CHECK_THAT(ErrorOf(yaml, "", {"source={records: {b: int46}}"}),
             Catch::Contains("source.records.b: the type \"int46\""));
}

}  // namespace
}  // namespace millrace::test
