#include "tests/unit/server/plan/text/pipeline_text.h"

namespace millrace::test {

TEST_CASE("an unknown key names its place, what was meant and what is allowed", "[pipeline]") {
  CHECK(
      ErrorOf(Minimal("shufle: {seed: 0}\n")) ==
      "p.yaml:5:1: unknown key 'shufle' (did you mean shuffle?); expected one of dataset, source, "
      "chunk, split, filter, pack, shuffle, closure, edges, features, edge_features, targets, batch, "
      "balance, cache, "
      "fields, exclude, tensors, output, pad, branches, mix, tables, variants");
  CHECK(ErrorOf(Minimal("closure: {order: bfs, ordr: dfs}\n")) ==
        "p.yaml:5:23: unknown key 'closure.ordr' (did you mean order?); expected one of "
        "max_subgraph_size, order, stop_at, kind, fanout, replace, merge, seed, "
        "stop_at_definitions");
  CHECK(ErrorOf(Minimal("zzz: 1\n")).starts_with("p.yaml:5:1: unknown key 'zzz'; expected one of"));
}

TEST_CASE("a bad value names the key, what is allowed and what was found", "[pipeline]") {
  CHECK(ErrorOf(Minimal("closure: {order: bsf}\n")) ==
        "p.yaml:5:18: closure.order: expected one of bfs, dfs, got 'bsf' (did you mean bfs?)");
  CHECK(ErrorOf(Minimal("closure: {max_subgraph_size: 0}\n")) ==
        "p.yaml:5:30: closure.max_subgraph_size: expected an integer from 1 to 1048576, got '0'");
  CHECK(ErrorOf(Minimal("closure: {max_subgraph_size: 1048577}\n")).starts_with("p.yaml:5:30:"));
  CHECK(ErrorOf("millrace: 1\ndataset: d\nsource: proofstates\nbatch: {size: 8}\n") ==
        "p.yaml:3:9: source: expected one of roots, graphs, records, tokens, proof_states, "
        "definitions, "
        "python, got "
        "'proofstates' (did you "
        "mean proof_states?)");
  CHECK(
      ErrorOf(Minimal("split: {method: hash, proportions: [9, 0]}\n")).starts_with("p.yaml:5:40:"));
}

TEST_CASE("a value of the wrong type is refused", "[pipeline]") {
  for (const char* value : {"'8'", "8.0", "1e3", "0x10", "010", "+8", "8k", "true", "[8]", "{a: 1}",
                            "99999999999999999999", "-1", "1_000"}) {
    const std::string yaml = std::string("millrace: 1\ndataset: d\nsource: definitions\nbatch:\n") +
                             "  size: " + value + "\n";
    CHECK(ErrorOf(yaml).starts_with("p.yaml:5:9: batch.size: expected an integer from 1 to"));
  }
  for (const char* value : {"yes", "on", "1", "'true'", "null", "[]"}) {
    const std::string yaml = Minimal(std::string("edges:\n  add_self_edges: ") + value + "\n");
    CHECK(ErrorOf(yaml).starts_with(
        "p.yaml:6:19: edges.add_self_edges: expected true or false, got"));
  }
  CHECK(ErrorOf(Minimal("closure: bfs\n")) ==
        "p.yaml:5:10: closure: expected a map with the keys max_subgraph_size, order, "
        "stop_at, kind, fanout, replace, merge, seed, stop_at_definitions, got 'bfs'");
  CHECK(ErrorOf(Minimal("exclude: {files: a.bin}\n")).find("expected a list of texts") !=
        std::string::npos);
  CHECK(ErrorOf(Minimal("split: {method: file_prefix, prefixes: [a, b]}\n"))
            .starts_with("p.yaml:5:41: split.prefixes: expected a list of lists of texts"));
  CHECK(ErrorOf(Minimal("split: {method: hash, proportions: []}\n")).starts_with("p.yaml:5:36:"));
  CHECK(ErrorOf(Minimal("split: {method: hash, proportions: [9, 1], take: []}\n"))
            .starts_with("p.yaml:5:50:"));
}

TEST_CASE("null in the file is no value for a parameter with a default", "[pipeline]") {
  // The reference's configuration has null where this one has `none`.
  CHECK(ErrorOf(Minimal("edges: {symmetrization: null}\n")) ==
        "p.yaml:5:25: edges.symmetrization: expected one of none, undirected, bidirectional, got "
        "null");
}

TEST_CASE("a key written twice is refused", "[pipeline]") {
  CHECK(ErrorOf(Minimal("shuffle: {seed: 1}\nshuffle: {seed: 2}\n")) ==
        "p.yaml:6:1: duplicate key 'shuffle', first written at line 5");
  CHECK(ErrorOf(Minimal("shuffle: {seed: 1}\nshuffle.seed: 2\n")) ==
        "p.yaml:6:1: duplicate key 'shuffle.seed', 'shuffle.seed' first written at line 5");
  CHECK(ErrorOf(Minimal("variants:\n  v: {shuffle: null, shuffle.seed: 2}\n")) ==
        "p.yaml:6:22: duplicate key 'shuffle.seed', 'shuffle' first written at line 6");
  CHECK(ErrorOf(Minimal("variants:\n  v: {shuffle.seed: 2, shuffle: null}\n")) ==
        "p.yaml:6:24: duplicate key 'shuffle', 'shuffle.seed' first written at line 6");
}

TEST_CASE("a stage without a value is refused, for it is no way to leave it out", "[pipeline]") {
  CHECK(
      ErrorOf(Minimal("shuffle:\n")) ==
      "p.yaml:5:1: shuffle has no value; expected a map with the keys seed, block, window, {} for "
      "their defaults, "
      "or null for no such stage");
  CHECK(ErrorOf(Minimal("variants:\n  v: {shuffle: }\n")).find("has no value") !=
        std::string::npos);
  CHECK(ErrorOf(Minimal(), "", {"shuffle="}).find("has no value") != std::string::npos);
}

TEST_CASE("a dataset id is what every shell, file system and log takes as it is", "[pipeline]") {
  for (const std::string id : {"\"a b\"", "\"a\\e[31m\"", "a/b", "\"\\n\""}) {
    CHECK(ErrorOf("millrace: 1\ndataset: " + id + "\nsource: definitions\nbatch: {size: 8}\n")
              .find("p.yaml:2:10: dataset: expected an id of at most 128 letters") == 0);
  }
  CHECK(IsDatasetId(std::string(128, 'x')));
  CHECK_FALSE(IsDatasetId(std::string(129, 'x')));
  CHECK_FALSE(IsDatasetId(""));
}

TEST_CASE("a split has at most 256 labels", "[pipeline]") {
  std::string shares = "1";
  for (int i = 1; i < 257; ++i) shares += ", 1";
  CHECK(ErrorOf(Minimal("split: {method: hash, proportions: [" + shares + "]}\n")) ==
        "p.yaml:5:36: split.proportions: expected at most 256 shares, got 257");
}

TEST_CASE("a number beyond 64 bits is told its bound", "[pipeline]") {
  CHECK(ErrorOf(Minimal("shuffle: {seed: 9223372036854775808}\n")) ==
        "p.yaml:5:17: shuffle.seed: expected an integer of at least 0, got '9223372036854775808', "
        "which is more than 9223372036854775807");
}

TEST_CASE("a missing key is named with what it takes", "[pipeline]") {
  CHECK(ErrorOf("dataset: d\n") ==
        "p.yaml:1:1: the key millrace, the format's version, is missing; expected 'millrace: 1'");
  CHECK(ErrorOf("millrace: 1\nsource: definitions\nbatch: {size: 8}\n") ==
        "p.yaml:1:1: the key dataset is missing; expected a dataset id");
  CHECK(ErrorOf("millrace: 1\ndataset: d\nbatch: {size: 8}\n") ==
        "p.yaml:1:1: the key source is missing; expected one of roots, graphs, records, tokens, "
        "proof_states, "
        "definitions, python");
  CHECK(ErrorOf("") ==
        "p.yaml:1:1: expected a pipeline, a map that begins with 'millrace: 1', got "
        "null");
  CHECK(ErrorOf("- millrace\n").find("got a list") != std::string::npos);
}

TEST_CASE("a required key that a later layer sets to null is missing", "[pipeline]") {
  CHECK(ErrorOf(Minimal(), "", {"source=null"}).find("the key source is missing") !=
        std::string::npos);
  const std::string split = Minimal("split: {method: hash, proportions: [9, 1]}\n");
  CHECK(ErrorOf(split, "", {"split.method=null"}).find("the key split.method is missing") !=
        std::string::npos);
  CHECK(MustParse(Minimal("split: {method: disabled}\n"), "", {"split.method=null"}).digest() ==
        MustParse(Minimal()).digest());
}

TEST_CASE("another format version is refused before anything else", "[pipeline]") {
  CHECK(ErrorOf("unknown: 1\nmillrace: 2\n") ==
        "p.yaml:2:11: millrace: this build reads version 1 of the format, got '2'");
  CHECK(
      ErrorOf("millrace: '1'\n").starts_with("p.yaml:1:11: millrace: this build reads version 1"));
}

TEST_CASE("exactly one of size and global_size is required", "[pipeline]") {
  CHECK(
      ErrorOf("millrace: 1\ndataset: d\nsource: definitions\n") ==
      "p.yaml:1:1: batch: expected batch.size (examples per rank), batch.global_size (per step) or "
      "batch.bucket, got none");
  CHECK(ErrorOf("millrace: 1\ndataset: d\nsource: definitions\nbatch: {remainder: keep}\n")
            .starts_with("p.yaml:4:1: batch: expected batch.size"));
  CHECK(
      ErrorOf("millrace: 1\ndataset: d\nsource: definitions\nbatch: {size: 8, global_size: 16}\n")
          .starts_with("p.yaml:4:31: batch.global_size: expected batch.size or batch.global_size, "
                       "got both"));
}

TEST_CASE("what a split's method needs and gives is checked", "[pipeline]") {
  CHECK(ErrorOf(Minimal("split: {method: hash}\n")) ==
        "p.yaml:5:17: split.method: hash needs split.proportions, such as [9, 1]");
  CHECK(ErrorOf(Minimal("split: {method: file_prefix}\n"))
            .starts_with("p.yaml:5:17: split.method: file_prefix needs split.prefixes"));
  CHECK(ErrorOf(Minimal("split: {proportions: [9, 1]}\n")) ==
        "p.yaml:5:1: the key split.method is missing; expected one of hash, file_prefix, disabled");
  CHECK(ErrorOf(Minimal("split: {method: hash, proportions: [8, 1, 1], take: [0, 3]}\n")) ==
        "p.yaml:5:53: split.take: there is no label 3; split.method hash gives the labels 0 to 2 "
        "here");
  CHECK(ErrorOf(Minimal("split: {method: file_prefix, prefixes: [[a]], take: 2}\n"))
            .find("gives the labels 0 to 1") != std::string::npos);
  CHECK(ErrorOf(Minimal("split: {method: disabled, take: 1}\n")).find("there is no label 1") !=
        std::string::npos);
  CHECK(ErrorOf(Minimal("split: {method: hash, proportions: [9, 1], take: -1}\n"))
            .find("expected an integer from 0") != std::string::npos);
}

TEST_CASE("the keys of a group are written below it or one by one", "[pipeline][bucket]") {
  const std::string whole = "millrace: 1\ndataset: d\nsource: definitions\n";
  const Pipeline below =
      MustParse(whole + "batch: {bucket: {by: file, count: 4, size: 8}, remainder: keep}\n");
  const Pipeline single =
      MustParse(whole + "batch.bucket.by: file\nbatch.bucket.count: 4\nbatch.bucket.size: 8\n", "",
                {"batch.remainder=keep"});
  CHECK(below.canonical_text() == single.canonical_text());
  CHECK(below.canonical_text().find("batch.bucket.by=\"file\"\nbatch.bucket.count=4\n") !=
        std::string::npos);
  const Pipeline changed =
      MustParse(Minimal(), "",
                {"batch={size: null, bucket: {by: file, bounds: [3], size: 8}}",
                 "batch.bucket=null", "batch.size=8"});
  CHECK(changed.digest() == MustParse(Minimal()).digest());
}

TEST_CASE("a wrong key or value of a group names its place", "[pipeline][bucket]") {
  CHECK(ErrorOf(Minimal("batch.bucket: {by: file, sise: 3}\n")) ==
        "p.yaml:5:26: unknown key 'batch.bucket.sise' (did you mean size?); expected one of by, "
        "bounds, count, budget, size, max_size, together, above");
  CHECK(ErrorOf(Minimal("batch.bucket: 3\n")) ==
        "p.yaml:5:15: batch.bucket: expected a map with the keys by, bounds, count, budget, size, "
        "max_size, together, above, or null; got '3'");
  CHECK(ErrorOf(Minimal("batch.bucket:\n")).find("batch.bucket: expected a map with the keys") !=
        std::string::npos);
  CHECK(ErrorOf("millrace: 1\ndataset: d\nsource: definitions\nbatch: {bucket: {by: file, bounds: "
                "[3, 3], size: 8}}\n") ==
        "p.yaml:4:36: batch.bucket.bounds: expected ascending bounds, got 3 before 3");
  CHECK(ErrorOf(Minimal("batch.bucket: {by: file, count: 2, size: 3}\n"))
            .find("size: expected batch.size or batch.bucket, got both; set one of them to null") !=
        std::string::npos);
  CHECK(ErrorOf(Minimal(), "", {"batch={size: null, bucket: {by: file, size: 3}}"})
            .find("expected batch.bucket.bounds or batch.bucket.count, got neither") !=
        std::string::npos);
  CHECK(ErrorOf(Minimal(), "",
                {"batch={size: null, bucket: {by: file, count: 1, size: 3, budget: 9}}"})
            .find("expected batch.bucket.budget or batch.bucket.size, got both") !=
        std::string::npos);
  CHECK(ErrorOf(Minimal(), "", {"batch={size: null, bucket: {count: 1, size: 3}}"})
            .find("batch.bucket.by is missing") != std::string::npos);
  CHECK(ErrorOf(Minimal("balance: {group: 3}\n")).find("the key balance.by is missing") !=
        std::string::npos);
}

TEST_CASE("keys of later formats are refused as not yet supported", "[pipeline]") {
  for (const char* key : {"map", "select", "repeat", "batch.budget", "batch.short"}) {
    CHECK(ErrorOf(Minimal(std::string("variants: {v: {") + key + ": 1}}\n")) ==
          std::string("p.yaml:5:16: ") + key + " is not yet supported");
    CHECK(ErrorOf(Minimal(), "", {std::string(key) + "=1"}) ==
          std::string("override '") + key + "=1': " + key + " is not yet supported");
  }
}

TEST_CASE("a cache is in memory or on disk", "[pipeline]") {
  CHECK(ErrorOf(Minimal("cache: {examples: tape}\n")) ==
        "p.yaml:5:19: cache.examples: expected one of memory, disk, got 'tape'");
  CHECK(ErrorOf(Minimal("cache: {}\n")).find("the key cache.examples is missing") !=
        std::string::npos);
  CHECK(ErrorOf(Minimal("cache: {batches: memory}\n")).find("unknown key 'cache.batches'") !=
        std::string::npos);
}

TEST_CASE("an override's error names the override", "[pipeline]") {
  CHECK(ErrorOf(Minimal(), "", {"batch.size=x"}) ==
        "override 'batch.size=x': batch.size: expected an integer from 1 to 1048576, got 'x'");
  CHECK(ErrorOf(Minimal(), "", {"batch.sise=4"}) ==
        "override 'batch.sise=4': unknown key 'batch.sise' (did you mean size?); expected one of "
        "size, "
        "global_size, remainder, bucket");
  CHECK(
      ErrorOf(Minimal(), "", {"batch.global_size=4"})
          .starts_with("override 'batch.global_size=4': batch.global_size: expected batch.size or "
                       "batch.global_size, got both"));
  CHECK(ErrorOf(Minimal(), "", {"shuffle"}) ==
        "override 'shuffle': expected key=value, such as batch.size=256");
  CHECK(ErrorOf(Minimal(), "", {"=3"}).find("expected key=value") != std::string::npos);
  CHECK(ErrorOf(Minimal(), "", {"split.take=[1"}).find("is a bracket not closed?") !=
        std::string::npos);
  CHECK(ErrorOf(Minimal(), "", {"variants={}"}).find("can only be set at the top of the file") !=
        std::string::npos);
  CHECK(
      ErrorOf(Minimal(), "", {"batch=null"}).starts_with("override 'batch=null': batch: expected"));
}

TEST_CASE("a variant that is not there is named with those that are", "[pipeline]") {
  const std::string yaml = Minimal("variants:\n  valid: {shuffle: null}\n  test: {}\n");
  CHECK(
      ErrorOf(yaml, "vaild") ==
      "p.yaml:5:1: there is no variant 'vaild' (did you mean valid?); expected one of valid, test");
  CHECK(ErrorOf(Minimal(), "valid") ==
        "p.yaml:1:1: there is no variant 'valid'; the file has none");
}

TEST_CASE("a mistake in a variant is found though it is not chosen", "[pipeline]") {
  CHECK(ErrorOf(Minimal("variants:\n  v: {batch.size: many}\n")) ==
        "p.yaml:6:19: batch.size: expected an integer from 1 to 1048576, got 'many'");
  CHECK(ErrorOf(Minimal("variants:\n  v: {millrace: 1}\n")) ==
        "p.yaml:6:7: millrace can only be set at the top of the file");
  CHECK(ErrorOf(Minimal("variants:\n  v: 3\n"))
            .starts_with("p.yaml:6:6: variants.v: expected a map"));
  CHECK(ErrorOf(Minimal("variants: [v]\n")).starts_with("p.yaml:5:11: variants: expected a map"));
}

TEST_CASE("checks across keys look at the outcome of all layers", "[pipeline]") {
  const std::string yaml = Minimal("variants:\n  wide: {batch: {size: null, global_size: 64}}\n");
  CHECK(MustParse(yaml, "wide").Find("batch")->params.GetInt("global_size") == 64);
  CHECK(MustParse(Minimal(), "", {"batch.size=null", "batch.global_size=64"})
            .Find("batch")
            ->params.GetInt("global_size") == 64);
}

}  // namespace millrace::test
