#include <algorithm>
#include <map>
#include <random>

#include "tests/unit/server/plan/text/pipeline_text.h"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "common/base/hash.h"

namespace millrace::test {
namespace {

Digest128 DigestOf(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  return MustParse(yaml, "", overrides).digest();
}

std::vector<std::string> FingerprintsOf(const Pipeline& pipeline) {
  std::vector<std::string> fingerprints;
  for (const StageConfig& stage : pipeline.stages()) fingerprints.push_back(stage.fingerprint);
  return fingerprints;
}

/// A random choice of settings: stage -> key -> value. Only settings that have an effect are in it.
using Settings = std::map<std::string, std::map<std::string, std::string>>;

const std::map<std::string, std::map<std::string, std::string>> kDefaults = {
    {"filter",
     {{"exclude_none_arguments", "false"},
      {"exclude_not_faithful", "false"},
      {"required_tactic_occurrence", "1"},
      {"restrict_to_spine", "false"}}},
    {"closure", {{"max_subgraph_size", "1024"}, {"order", "bfs"}, {"stop_at_definitions", "true"}}},
    {"edges", {{"symmetrization", "bidirectional"}, {"add_self_edges", "true"}}},
    {"batch", {{"remainder", "drop"}}},
    {"fields", {{"global_context", "reference"}, {"text", "false"}}},
    {"exclude", {{"files", "[]"}}},
    {"split", {{"method", "disabled"}, {"seed", "0"}}},
};

class Writer {
 public:
  explicit Writer(std::uint64_t seed) : random_(seed) {}

  bool Coin() { return (random_() & 1) != 0; }
  std::uint64_t Below(std::uint64_t n) { return random_() % n; }

  Settings RandomSettings() {
    Settings s;
    const auto maybe = [&](const char* stage, const char* key, std::vector<std::string> values) {
      if (Coin()) s[stage][key] = values[Below(values.size())];
    };
    maybe("filter", "exclude_none_arguments", {"true"});
    maybe("filter", "exclude_not_faithful", {"true"});
    maybe("filter", "required_tactic_occurrence", {"2", "7"});
    maybe("filter", "restrict_to_spine", {"true"});
    maybe("closure", "max_subgraph_size", {"1", "32", "1048576"});
    maybe("closure", "order", {"dfs"});
    maybe("closure", "stop_at_definitions", {"false"});
    maybe("edges", "symmetrization", {"none", "undirected"});
    maybe("edges", "add_self_edges", {"false"});
    maybe("fields", "global_context", {"full", "none"});
    maybe("fields", "text", {"true"});
    maybe("exclude", "files", {"[a.bin]", "[a.bin, 'b c.bin']"});
    s["batch"][Coin() ? "size" : "global_size"] = std::to_string(1 + Below(1000));
    maybe("batch", "remainder", {"keep"});
    if (Coin()) s["shuffle"]["seed"] = std::to_string(Below(3));
    if (Coin()) {
      s["split"] = {{"method", "hash"}, {"proportions", Coin() ? "[9, 1]" : "[8, 1, 1]"}};
      maybe("split", "seed", {"1", "42"});
      maybe("split", "take", {"[0]", "[1]", "[0, 1]"});
    }
    return s;
  }

  /// Writes the settings in one of the many possible ways.
  std::string Write(Settings s) {
    for (const auto& [stage, keys] : kDefaults) {
      for (const auto& [key, value] : keys) {
        if (Coin()) s[stage].try_emplace(key, value);
      }
    }
    if (s["split"].size() > 0) s["split"].try_emplace("method", "disabled");
    std::vector<std::string> sections = {
        "millrace: 1\n", "dataset: d" + std::to_string(Below(9)) + "\n", "source: proof_states\n",
        "variants: {v: {shuffle: null}}\n"};
    for (const auto& [stage, keys] : s) {
      if (!keys.empty()) sections.push_back(WriteStage(stage, keys));
    }
    std::shuffle(sections.begin(), sections.end(), random_);
    std::string yaml = Coin() ? "%YAML 1.2\n---\n" : "";
    for (const std::string& section : sections) yaml += section + (Coin() ? "# a comment\n\n" : "");
    return yaml;
  }

 private:
  std::string Spelled(const std::string& key, const std::string& value) {
    if (value == "true" && Coin()) return "True";
    if (key == "take" && value == "[0]" && Coin()) return "0";
    if (key == "take" && value == "[0, 1]" && Coin()) return "[1, 0, 1]";
    if (value == "[a.bin, 'b c.bin']" && Coin()) return "[\"b c.bin\", 'a.bin', a.bin]";
    if (value == "dfs" && Coin()) return "'dfs'";
    return Coin() ? value : "&anchor" + std::to_string(anchors_++) + " " + value;
  }

  std::string WriteStage(const std::string& stage, const std::map<std::string, std::string>& keys) {
    std::vector<std::pair<std::string, std::string>> order(keys.begin(), keys.end());
    std::shuffle(order.begin(), order.end(), random_);
    const std::uint64_t form = Below(3);
    std::string text = form == 0 ? stage + ": {" : form == 1 ? stage + ":\n" : "";
    for (std::size_t i = 0; i < order.size(); ++i) {
      const std::string value = Spelled(order[i].first, order[i].second);
      if (form == 0) text += (i == 0 ? "" : ", ") + order[i].first + ": " + value;
      if (form == 1) text += "  " + order[i].first + ": " + value + "   # why\n";
      if (form == 2) text += stage + "." + order[i].first + ": " + value + "\n";
    }
    return text + (form == 0 ? "}\n" : "");
  }

  std::mt19937_64 random_;
  int anchors_ = 0;
};

}  // namespace

TEST_CASE("the canonical text is sorted lines of what differs from the defaults", "[pipeline]") {
  const Pipeline pipeline = MustParse(
      "batch: {size: 512, remainder: drop}\nsource: proof_states\ndataset: stdlib\nmillrace: 1\n"
      "shuffle: {seed: 0}\nclosure: {order: dfs, max_subgraph_size: 1024}\n"
      "split: {method: hash, proportions: [9, 1], take: 1}\n"
      "exclude: {files: [\"b\\\"c.bin\", a.bin, a.bin]}\n");
  CHECK(pipeline.canonical_text() ==
        "batch.size=512\n"
        "closure.order=dfs\n"
        "exclude.files=[\"a.bin\", \"b\\\"c.bin\"]\n"
        "semantics=1\n"
        "shuffle.seed=0\n"
        "source=proof_states\n"
        "split.method=hash\n"
        "split.proportions=[9, 1]\n"
        "split.take=[1]\n");
  CHECK(pipeline.digest() == Xxh3(pipeline.canonical_text()));
  CHECK(pipeline.dataset() == "stdlib");
  CHECK(pipeline.source() == "proof_states");
  CHECK(pipeline.excluded_files() == std::vector<std::string>{"a.bin", "b\"c.bin"});
}

TEST_CASE("the lines of a canonical text, as overrides, give the same pipeline", "[pipeline]") {
  rc::prop("canonical lines read back", [](std::uint64_t seed) {
    Writer writer(seed);
    const Pipeline pipeline = MustParse(writer.Write(writer.RandomSettings()));
    std::vector<std::string> overrides;
    std::string line;
    for (const char c : pipeline.canonical_text()) {
      if (c != '\n') {
        line += c;
        continue;
      }
      if (!line.starts_with("semantics=")) overrides.push_back(line);
      line.clear();
    }
    RC_ASSERT(MustParse("millrace: 1\ndataset: other\n", "", overrides).canonical_text() ==
              pipeline.canonical_text());
  });
}

TEST_CASE("equal pipelines written differently have one digest", "[pipeline]") {
  rc::prop("two spellings of the same settings", [](std::uint64_t seed) {
    Writer writer(seed);
    const Settings settings = writer.RandomSettings();
    const std::string one = writer.Write(settings);
    const std::string other = writer.Write(settings);
    RC_LOG() << one << "\nand\n" << other;
    const Pipeline a = MustParse(one);
    const Pipeline b = MustParse(other);
    RC_ASSERT(a.canonical_text() == b.canonical_text());
    RC_ASSERT(a.digest() == b.digest());
    RC_ASSERT(a.order_digest() == b.order_digest());
    RC_ASSERT(FingerprintsOf(a) == FingerprintsOf(b));
    RC_ASSERT(a.unused_keys().empty() || settings.count("split") == 0);
  });
}

TEST_CASE("different settings have different digests", "[pipeline]") {
  rc::prop("two choices of settings", [](std::uint64_t seed) {
    Writer writer(seed);
    const Settings one = writer.RandomSettings();
    const Settings other = writer.RandomSettings();
    RC_PRE(one != other);
    RC_ASSERT(DigestOf(writer.Write(one)) != DigestOf(writer.Write(other)));
  });
}

TEST_CASE("every single setting changes the digest", "[pipeline]") {
  std::vector<Digest128> digests = {DigestOf(Minimal())};
  for (const char* override : {"source=definitions",
                               "split={method: hash, proportions: [9, 1]}",
                               "split={method: file_prefix, prefixes: [[a], [b, c]]}",
                               "split={method: file_prefix, prefixes: [[a, b], [c]]}",
                               "split={method: hash, proportions: [9, 1], seed: 1}",
                               "split={method: hash, proportions: [9, 1], take: 1}",
                               "filter.exclude_none_arguments=true",
                               "filter.exclude_not_faithful=true",
                               "filter.required_tactic_occurrence=2",
                               "filter.restrict_to_spine=true",
                               "shuffle={}",
                               "shuffle.seed=1",
                               "closure.max_subgraph_size=1025",
                               "closure.order=dfs",
                               "closure.stop_at_definitions=false",
                               "edges.symmetrization=none",
                               "edges.symmetrization=undirected",
                               "edges.add_self_edges=false",
                               "batch.size=9",
                               "batch={size: null, global_size: 8}",
                               "batch.remainder=keep",
                               "fields.global_context=full",
                               "fields.global_context=none",
                               "fields.text=true",
                               "exclude.files=[a]",
                               "exclude.files=[b]"}) {
    INFO(override);
    const Digest128 digest = DigestOf(Minimal(), {override});
    CHECK(std::find(digests.begin(), digests.end(), digest) == digests.end());
    digests.push_back(digest);
  }
}

TEST_CASE("keys of one kind are in no digest of a pipeline over another", "[pipeline]") {
  const std::string graph = "millrace: 1\ndataset: d\nsource: {roots: all}\nbatch: {size: 8}\n";
  for (const char* override :
       {"closure.stop_at_definitions=false", "fields.text=true", "filter.restrict_to_spine=true"}) {
    INFO(override);
    CHECK(DigestOf(graph, {override}) == DigestOf(graph));
    CHECK(MustParse(graph, "", {override}).unused_keys().size() == 1);
  }
  for (const char* override : {"closure.stop_at=[1]", "features=[x]", "targets=[y]"}) {
    INFO(override);
    CHECK(DigestOf(Minimal(), {override}) == DigestOf(Minimal()));
    CHECK(MustParse(Minimal(), "", {override}).unused_keys().size() == 1);
  }
}

TEST_CASE("a shuffle with its default seed is not the absence of a shuffle", "[pipeline]") {
  CHECK(DigestOf(Minimal("shuffle: {}\n")) == DigestOf(Minimal("shuffle: {seed: 0}\n")));
  CHECK(DigestOf(Minimal("shuffle: {}\n")) != DigestOf(Minimal()));
  CHECK(DigestOf(Minimal("shuffle: null\n")) == DigestOf(Minimal()));
  CHECK(MustParse(Minimal()).Find("shuffle") == nullptr);
}

TEST_CASE("layers go file, variant, overrides in their order; null resets", "[pipeline]") {
  const std::string yaml = Minimal(
      "shuffle: {seed: 3}\nclosure: {order: dfs}\n"
      "variants:\n  v: {shuffle: null, closure.order: null, batch: {size: 16}}\n");
  const Pipeline file = MustParse(yaml);
  CHECK(file.Find("shuffle")->params.GetInt("seed") == 3);
  CHECK(file.variants() == std::vector<std::string>{"v"});
  const Pipeline variant = MustParse(yaml, "v");
  CHECK(variant.canonical_text() == "batch.size=16\nsemantics=1\nsource=proof_states\n");
  const Pipeline overridden =
      MustParse(yaml, "v", {"batch.size=32", "batch.size=64", "shuffle={}", " dataset = e "});
  CHECK(overridden.Find("batch")->params.GetInt("size") == 64);
  CHECK(overridden.Find("shuffle")->params.GetInt("seed") == 0);
  CHECK(overridden.dataset() == "e");
}

TEST_CASE("a map in a later layer changes only the keys it names", "[pipeline]") {
  const Pipeline pipeline = MustParse(
      Minimal("split: {method: hash, proportions: [9, 1], seed: 5}\n"), "", {"split={take: 1}"});
  CHECK(pipeline.Find("split")->params.GetInt("seed") == 5);
  CHECK(pipeline.Find("split")->params.GetInts("take") == std::vector<std::int64_t>{1});
}

TEST_CASE("the dataset id is in no digest", "[pipeline]") {
  CHECK(DigestOf(Minimal()) == DigestOf(Minimal(), {"dataset=elsewhere"}));
}

TEST_CASE("exclude is in the digest, but not in the order digest nor in fingerprints",
          "[pipeline]") {
  const Pipeline all = MustParse(Minimal());
  const Pipeline fewer = MustParse(Minimal("exclude: {files: [a.bin]}\n"));
  CHECK(all.digest() == all.order_digest());
  CHECK(all.digest() != fewer.digest());
  CHECK(all.order_digest() == fewer.order_digest());
  CHECK(FingerprintsOf(all) == FingerprintsOf(fewer));
}

TEST_CASE("a fingerprint changes with its stage and with every stage before it", "[pipeline]") {
  const Pipeline base = MustParse(Minimal("shuffle: {}\n"));
  const Pipeline changed = MustParse(Minimal("shuffle: {}\n"), "", {"closure.order=dfs"});
  for (const char* stage : {"source", "split", "filter", "shuffle"}) {
    CHECK(base.Find(stage)->fingerprint == changed.Find(stage)->fingerprint);
  }
  for (const char* stage : {"closure", "edges", "batch", "fields"}) {
    CHECK(base.Find(stage)->fingerprint != changed.Find(stage)->fingerprint);
  }
  const Pipeline reseeded = MustParse(Minimal("shuffle: {seed: 1}\n"));
  CHECK(base.Find("shuffle")->fingerprint != reseeded.Find("shuffle")->fingerprint);
}

TEST_CASE("keys without meaning for the source are accepted, listed and in no digest",
          "[pipeline]") {
  const std::string definitions =
      "millrace: 1\ndataset: d\nsource: definitions\nbatch: {size: 8}\n";
  const Pipeline plain = MustParse(definitions);
  const Pipeline more = MustParse(definitions +
                                  "filter: {exclude_not_faithful: true, "
                                  "required_tactic_occurrence: 3}\nfields: {text: true}\n");
  CHECK(plain.unused_keys().empty());
  CHECK(more.unused_keys() == std::vector<std::string>{"filter.exclude_not_faithful",
                                                       "filter.required_tactic_occurrence",
                                                       "fields.text"});
  CHECK(plain.digest() == more.digest());
  CHECK(FingerprintsOf(plain) == FingerprintsOf(more));
  // Settings that are not in the digest must not reach the plan.
  CHECK_FALSE(more.Find("fields")->params.GetBool("text"));
  CHECK(DigestOf(definitions, {"filter.restrict_to_spine=true"}) != plain.digest());
}

TEST_CASE("keys of another split method are accepted, listed and in no digest", "[pipeline]") {
  const std::string split = "split: {method: hash, proportions: [9, 1], prefixes: [[a]]}\n";
  CHECK(MustParse(Minimal(split)).unused_keys() == std::vector<std::string>{"split.prefixes"});
  const Pipeline disabled = MustParse(Minimal(split), "", {"split.method=disabled"});
  CHECK(disabled.unused_keys() == std::vector<std::string>{"split.proportions", "split.prefixes"});
  CHECK(disabled.digest() == DigestOf(Minimal()));
}

TEST_CASE("the digests of ten pipelines stay what they are", "[pipeline]") {
  // A change here gives every cursor and every running job another pipeline. If the bytes of
  // batches change, kSemantics or a stage's version must rise, and these values change with it.
  const std::string all =
      "millrace: 1\ndataset: stdlib\nsource: proof_states\n"
      "split: {method: hash, proportions: [9, 1], seed: 0, take: 0}\n"
      "filter: {exclude_none_arguments: false, exclude_not_faithful: false, "
      "required_tactic_occurrence: 1, restrict_to_spine: false}\n"
      "shuffle: {seed: 0}\n"
      "closure: {max_subgraph_size: 1024, order: bfs, stop_at_definitions: true}\n"
      "edges: {symmetrization: bidirectional, add_self_edges: true}\n"
      "batch: {size: 512, remainder: drop}\nfields: {global_context: reference}\n"
      "variants:\n  valid: {split.take: 1, shuffle: null, batch.remainder: keep}\n"
      "exclude: {files: []}\n";
  const auto with = [&](std::vector<std::string> overrides) {
    return MustParse(all, "", overrides).digest().ToHex();
  };
  CHECK(with({}) == "57d533360ce1317fbef25a184deb7958");
  CHECK(MustParse(all, "valid").digest().ToHex() == "7fd3b6621721c0ff1d73ef2d629a0d6a");
  CHECK(DigestOf(Minimal()).ToHex() == "ae40eb905e65ae968166b8b02e089455");
  CHECK(with({"source=definitions"}) == "75f7c1eaea7b38da99b623386f5fe557");
  CHECK(with({"split={proportions: [8, 1, 1], seed: 42}",
              "closure={max_subgraph_size: 32, order: dfs}",
              "edges={symmetrization: none, add_self_edges: false}"}) ==
        "fb398de70fdad20e1d5d79081bbf05fc");
  CHECK(with({"split=null",
              "filter={exclude_none_arguments: true, exclude_not_faithful: true, "
              "required_tactic_occurrence: 3, restrict_to_spine: true}",
              "closure.max_subgraph_size=256", "edges.add_self_edges=false"}) ==
        "b1455b229d792834a10b512af5597b29");
  CHECK(with({"split={method: file_prefix, prefixes: [[theories/p0, theories/p1], [theories/p2]], "
              "take: [1, 2]}"}) == "e0266332bf9ed87f772369d91ef2f3ef");
  CHECK(with({"batch={size: null, global_size: 4096, remainder: keep}", "shuffle.seed=7"}) ==
        "b0fa3958458dbf7f8591737973d3bdc7");
  CHECK(with({"closure={order: dfs, stop_at_definitions: false, max_subgraph_size: 512}",
              "edges.symmetrization=undirected", "fields={global_context: full, text: true}"}) ==
        "18775cd62de9a2e57c39ffe8eb44f539");
  CHECK(with({"exclude.files=[theories/Init/Logic.bin]", "fields.global_context=none"}) ==
        "84010f3486bbc595308ffd7b904e2fff");
}

}  // namespace millrace::test
