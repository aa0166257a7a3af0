// Pipelines with branches: what may stand where, and what their digests are made of.

#include "tests/unit/server/plan/text/pipeline_text.h"

namespace millrace::test {
namespace {

/// Two branches over the datasets x and y, followed by more lines.
std::string TwoBranches(const std::string& more = "", const std::string& in_a = "") {
  return "millrace: 1\n"
         "branches:\n"
         "  a: {dataset: x, source: proof_states, shuffle: {seed: 1}" +
         in_a +
         "}\n"
         "  b: {dataset: y, source: proof_states, split: {method: hash, proportions: [9, 1], take: "
         "0}}\n"
         "mix: {weights: {a: 14, b: 6}, epoch: {of: a}}\n"
         "batch: {size: 8}\n" +
         more;
}

std::string WithoutMix(const std::string& mix) {
  return "millrace: 1\nbranches:\n  a: {dataset: x, source: proof_states}\n  b: {dataset: y, "
         "source: proof_states}\nbatch: {size: 8}\n" +
         mix;
}

}  // namespace

TEST_CASE("a pipeline with branches has a pipeline for each, and their mix", "[pipeline][mix]") {
  const Pipeline pipeline = MustParse(TwoBranches());
  REQUIRE(pipeline.branches().size() == 2);
  CHECK(pipeline.datasets() == std::vector<std::string>{"x", "y"});
  CHECK(pipeline.Find("source") == nullptr);
  CHECK(pipeline.Find("batch") != nullptr);
  const Pipeline& a = *pipeline.branches()[0].pipeline;
  CHECK(pipeline.branches()[0].name == "a");
  CHECK(a.dataset() == "x");
  CHECK(a.source() == "proof_states");
  CHECK(a.Find("shuffle") != nullptr);
  CHECK(a.Find("batch") == nullptr);
  CHECK(pipeline.branches()[1].pipeline->Find("shuffle") == nullptr);
  CHECK(pipeline.mix().weights == std::vector<std::uint64_t>{14, 6});
  CHECK(pipeline.mix().all_of == std::optional<std::size_t>(0));
  CHECK(pipeline.canonical_text() ==
        "batch.size=8\n"
        "branches.a.shuffle.seed=1\n"
        "branches.a.source=proof_states\n"
        "branches.b.source=proof_states\n"
        "branches.b.split.method=hash\n"
        "branches.b.split.proportions=[9, 1]\n"
        "branches.b.split.take=[0]\n"
        "branches=[\"a\", \"b\"]\n"
        "mix.epoch={of: a}\n"
        "mix.weights={a: 7, b: 3}\n"
        "semantics=1\n");
}

TEST_CASE("equal mixes have equal digests, and the order of branches counts", "[pipeline][mix]") {
  const Pipeline pipeline = MustParse(TwoBranches());
  CHECK(MustParse(TwoBranches(), "", {"mix.weights={a: 7, b: 3}"}).digest() == pipeline.digest());
  CHECK(MustParse(TwoBranches(), "", {"branches.a.dataset=z"}).digest() == pipeline.digest());
  for (const char* change :
       {"mix.weights.a=15", "mix.seed=1", "mix.epoch=100", "mix.epoch=shortest",
        "branches.a.shuffle.seed=2", "branches.b.split.take=1", "branches.a.closure.order=dfs"}) {
    CAPTURE(change);
    const Pipeline changed = MustParse(TwoBranches(), "", {change});
    CHECK(changed.digest() != pipeline.digest());
    CHECK(changed.order_digest() != pipeline.order_digest());
  }
  // These leave every example in its place.
  for (const char* change : {"tables=joint", "branches.a.exclude.examples=[3]",
                             "branches.a.tensors.t={cast: tactic, "
                             "dtype: float32}"}) {
    CAPTURE(change);
    const Pipeline changed = MustParse(TwoBranches(), "", {change});
    CHECK(changed.digest() != pipeline.digest());
    CHECK(changed.order_digest() == pipeline.order_digest());
  }
  const Pipeline turned = MustParse(
      "millrace: 1\nbranches:\n  b: {dataset: y, source: proof_states, split: {method: hash, "
      "proportions: [9, 1], take: 0}}\n  a: {dataset: x, source: proof_states, shuffle: {seed: "
      "1}}\nmix: {weights: {a: 7, b: 3}, epoch: {of: a}}\nbatch: {size: 8}\n");
  CHECK(turned.digest() != pipeline.digest());
}

TEST_CASE("a key outside the branches holds for each", "[pipeline][mix]") {
  const Pipeline pipeline = MustParse(TwoBranches("fields: {text: true}\n"));
  for (const PipelineBranch& branch : pipeline.branches()) {
    CHECK(branch.pipeline->Find("fields")->params.GetBool("text"));
  }
  CHECK(pipeline.Find("fields") == nullptr);
}

TEST_CASE("variants and overrides change, add and remove branches", "[pipeline][mix]") {
  const std::string yaml = TwoBranches(
      "variants:\n"
      "  more: {branches.c: {dataset: z, source: proof_states}, mix.weights.c: 1}\n"
      "  less: {branches.b: null, mix.weights.b: null}\n"
      "  other: {branches: {b: {split: {take: 1}}}, mix: {epoch: shortest}}\n");
  CHECK(MustParse(yaml, "more").datasets() == std::vector<std::string>{"x", "y", "z"});
  CHECK(MustParse(yaml, "less").branches().size() == 1);
  const Pipeline other = MustParse(yaml, "other");
  CHECK(other.branches()[1].pipeline->canonical_text().find("split.take=[1]") != std::string::npos);
  CHECK(other.mix().shortest);
  const Pipeline none = MustParse(TwoBranches(), "",
                                  {"branches=null", "mix=null", "dataset=d", "source=definitions"});
  CHECK(none.digest() == MustParse("millrace: 1\ndataset: d\nsource: definitions\nbatch: {size: "
                                   "8}\n")
                             .digest());
}

TEST_CASE("what does not belong beside branches, or into one, is refused", "[pipeline][mix]") {
  CHECK(ErrorOf(TwoBranches("source: definitions\n")) ==
        "p.yaml:7:9: source stands in the branches of a pipeline that has any");
  CHECK(ErrorOf(TwoBranches("dataset: d\n")) ==
        "p.yaml:7:1: dataset stands in the branches of a pipeline that has any");
  CHECK(ErrorOf(TwoBranches("shuffle: {}\n")) ==
        "p.yaml:7:1: shuffle stands in the branches of a pipeline that has any");
  CHECK(ErrorOf(TwoBranches("balance: {by: nodes}\n")) ==
        "p.yaml:7:15: balance beside branches is not yet supported");
  CHECK(ErrorOf(TwoBranches("chunk: {tensor: state_text, size: 4}\n"))
            .ends_with("chunk beside branches is not yet supported"));
  CHECK(ErrorOf(TwoBranches(), "", {"batch={bucket: {by: nodes, count: 2, size: 4}}"}) ==
        "override 'batch={bucket: {by: nodes, count: 2, size: 4}}': batch.bucket beside branches "
        "is not yet supported");
  CHECK(ErrorOf(TwoBranches("", ", batch: {size: 4}")) ==
        "p.yaml:3:61: branches.a: batch stands outside the branches; expected one of dataset, "
        "source, split, filter, pack, shuffle, closure, edges, features, cache, exclude, tensors");
  CHECK(ErrorOf(TwoBranches("", ", spilt: {}"))
            .starts_with("p.yaml:3:61: branches.a: unknown key 'spilt' (did you mean split?)"));
  CHECK(ErrorOf(TwoBranches("", ", source: definitions"))
            .starts_with("p.yaml:3:61: duplicate key 'source'"));
  CHECK(ErrorOf("millrace: 1\nbranches: {a: {source: proof_states}}\nmix: {weights: {a: 1}, "
                "epoch: 1}\nbatch: {size: 8}\n") ==
        "p.yaml:2:12: the key branches.a.dataset is missing; expected a dataset id");
  CHECK(ErrorOf("millrace: 1\nbranches: {a: {dataset: x}}\nmix: {weights: {a: 1}, epoch: 1}\n"
                "batch: {size: 8}\n")
            .starts_with("p.yaml:2:12: the key source is missing"));
  CHECK(ErrorOf("millrace: 1\nbranches: {2a: {}}\n")
            .starts_with("p.yaml:2:12: branches: a name is one word"));
  CHECK(ErrorOf("millrace: 1\nbranches: [a]\n")
            .starts_with("p.yaml:2:11: branches: expected a "
                         "map from names"));
  CHECK(ErrorOf("millrace: 1\nbranches: {a: b}\n")
            .starts_with("p.yaml:2:15: branches.a: expected a map with the keys of a branch"));
  CHECK(ErrorOf(Minimal("mix: {epoch: 3}\n")) ==
        "p.yaml:5:7: mix: it means something only beside branches, and the pipeline has none");
  CHECK(ErrorOf(Minimal("tables: joint\n")).starts_with("p.yaml:5:1: tables: it means"));
}

TEST_CASE("the keys of a mix are checked", "[pipeline][mix]") {
  CHECK(ErrorOf(WithoutMix("")) ==
        "p.yaml:2:1: the key mix.weights.a is missing; expected an integer from 1 to 1048576");
  CHECK(ErrorOf(WithoutMix("mix: {weights: {a: 1, b: 1}}\n"))
            .starts_with("p.yaml:2:1: the key mix.epoch is missing; expected how many examples"));
  CHECK(ErrorOf(WithoutMix("mix: {weights: {a: 0, b: 1}, epoch: 1}\n")) ==
        "p.yaml:6:20: mix.weights.a: expected an integer from 1 to 1048576, got '0'");
  CHECK(ErrorOf(WithoutMix("mix: {weights: {a: 1, b: 1, c: 2}, epoch: 1}\n")) ==
        "p.yaml:6:29: mix.weights: there is no branch 'c'; expected a, b");
  CHECK(ErrorOf(WithoutMix("mix: {weights: {a: 1, b: 1}, epoch: {of: c}}\n"))
            .starts_with("p.yaml:6:42: mix.epoch.of: there is no branch 'c'"));
  CHECK(ErrorOf(WithoutMix("mix: {weights: {a: 1, b: 1}, epoch: longest}\n"))
            .starts_with("p.yaml:6:37: mix.epoch: expected how many examples an epoch has: a "
                         "number, {of: BRANCH}"));
  CHECK(ErrorOf(WithoutMix("mix: {weight: {a: 1, b: 1}}\n"))
            .starts_with("p.yaml:6:7: unknown key 'mix.weight' (did you mean weights?)"));
  CHECK(ErrorOf(WithoutMix("mix: 3\n")).starts_with("p.yaml:6:6: mix: expected a map"));
  CHECK(ErrorOf(WithoutMix("mix: {weights: 3}\n")).starts_with("p.yaml:6:16: mix.weights: "));
  CHECK(ErrorOf(WithoutMix("mix: {weights: {a: 1, b: 1}, epoch: 1, seed: -1}\n"))
            .starts_with("p.yaml:6:46: mix.seed: expected an integer"));
  CHECK(ErrorOf(WithoutMix("mix: {weights: {a: 1, b: 1}, epoch: 1}\ntables: equal\n"))
            .starts_with("p.yaml:7:9: tables: expected joint"));
}

}  // namespace millrace::test
