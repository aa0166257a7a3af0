// The keys of sampled neighbourhoods in the text of a pipeline.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/server/plan/text/pipeline_text.h"

namespace millrace::test {
namespace {

using Catch::Contains;
using Keys = std::vector<std::string>;

std::string Roots(const std::string& closure) {
  return "millrace: 1\ndataset: g\nsource: {roots: some}\nbatch: {size: 8}\nclosure: {" + closure +
         "}\n";
}
std::string Sampled(const std::string& more = "") {
  return Roots("kind: neighbors, fanout: [15, 10]" + (more.empty() ? "" : ", " + more));
}
std::string CanonicalText(const std::string& yaml) { return MustParse(yaml).canonical_text(); }

TEST_CASE("what sampled neighbourhoods do by default is not part of the text", "[pipeline]") {
  const std::string plain = CanonicalText(Sampled());
  CHECK_THAT(plain, Contains("closure.kind=neighbors\n"));
  CHECK_THAT(plain, Contains("closure.fanout=[15, 10]\n"));
  CHECK(CanonicalText(Sampled("replace: false, merge: true, seed: 0")) == plain);
  CHECK(MustParse(Sampled()).unused_keys().empty());
  // Each key makes another text.
  for (const std::string more : {"replace: true", "merge: false", "seed: 1"}) {
    CHECK(CanonicalText(Sampled(more)) != plain);
  }
}

TEST_CASE("the default of a closure's size is none of a neighbourhood's", "[pipeline]") {
  CHECK_THAT(CanonicalText(Sampled("merge: false, max_subgraph_size: 1024")),
             Contains("closure.max_subgraph_size=1024\n"));
  CHECK_THAT(CanonicalText(Sampled("merge: false")), !Contains("max_subgraph_size"));
  CHECK_THAT(CanonicalText(Roots("max_subgraph_size: 1024")), !Contains("max_subgraph_size"));
  CHECK_THAT(CanonicalText(Roots("max_subgraph_size: 1023")),
             Contains("closure.max_subgraph_size=1023\n"));
}

TEST_CASE("the order of the labels of fan-outs means nothing", "[pipeline]") {
  const auto text = [](const std::string& fanout) {
    return CanonicalText(Roots("kind: neighbors, fanout: " + fanout));
  };
  CHECK(text("{writes: [5, -1], cites: [15, 10]}") == text("{cites: [15, 10], writes: [5, -1]}"));
  CHECK(text("{cites: [15, 10]}") != text("{cites: [10, 15]}"));
  CHECK(text("[15, 10]") != text("[10, 15]"));
  CHECK(text("[15, 15]") != text("[15]"));
}

TEST_CASE("a seed has 64 bits", "[pipeline]") {
  for (const std::string seed :
       {"9223372036854775807", "9223372036854775808", "18446744073709551615"}) {
    CHECK_THAT(CanonicalText(Sampled("seed: " + seed)), Contains("closure.seed=" + seed + "\n"));
  }
  CHECK(MustParse(Sampled(), "", {"closure.seed=18446744073709551615"}).digest() ==
        MustParse(Sampled("seed: 18446744073709551615")).digest());
  for (const std::string seed :
       {"-1", "18446744073709551616", "99999999999999999999999", "1.5", "1e3", "true", "010"}) {
    CHECK(ErrorOf(Sampled("seed: " + seed)) ==
          "p.yaml:5:52: closure.seed: expected an integer from 0 to 18446744073709551615, got '" +
              seed + "'");
  }
  CHECK_THAT(ErrorOf(Sampled("seed: '7'")), Contains("got the text '7'"));
}

TEST_CASE("keys of neighbourhoods are unused without them", "[pipeline]") {
  const auto unused = [](const std::string& yaml) { return MustParse(yaml).unused_keys(); };
  const Pipeline closure = MustParse(Roots("fanout: [2], replace: true, merge: false, seed: 3"));
  CHECK(closure.unused_keys() ==
        Keys{"closure.fanout", "closure.replace", "closure.merge", "closure.seed"});
  CHECK(closure.digest() == MustParse(Roots("order: bfs")).digest());
  CHECK(unused(Sampled("order: dfs, stop_at: [x]")) == Keys{"closure.stop_at", "closure.order"});
  CHECK(MustParse(Sampled("order: dfs, stop_at: [x]")).digest() == MustParse(Sampled()).digest());
}

TEST_CASE("sources that have no neighbourhoods know no kind of closure", "[pipeline]") {
  for (const std::string more : {"", ", fanout: [2]", ", max_subgraph_size: 77",
                                 ", max_subgraph_size: 1024", ", merge: true, seed: 5"}) {
    const std::string closure = "closure: {kind: neighbors" + more + "}\n";
    INFO(closure);
    const Pipeline coq = MustParse(Minimal(closure));
    const Keys& unused = coq.unused_keys();
    CHECK(std::count(unused.begin(), unused.end(), "closure.kind") == 1);
    const bool sized = more.find("77") != std::string::npos;
    const std::string same = sized ? "closure: {max_subgraph_size: 77}\n" : "";
    CHECK(coq.digest() == MustParse(Minimal(same)).digest());
    // Small graphs have no closure at all.
    const std::string graphs =
        "millrace: 1\ndataset: g\nsource: {graphs: small}\nbatch: {size: 8}\n";
    const Pipeline small = MustParse(graphs + closure);
    CHECK(small.digest() == MustParse(graphs).digest());
    CHECK(small.canonical_text() == CanonicalText(graphs));
  }
}

TEST_CASE("errors of a neighbourhood's keys say where, and what is expected", "[pipeline]") {
  CHECK(ErrorOf(Roots("kind: hops")) ==
        "p.yaml:5:17: closure.kind: expected one of closure, neighbors, got 'hops'");
  const std::string missing =
      "p.yaml:5:1: closure: the key closure.fanout is missing; expected how many neighbors are "
      "drawn of each node, hop by hop, such as [15, 10]";
  CHECK(ErrorOf(Roots("kind: neighbors")) == missing);
  CHECK(ErrorOf(Roots("kind: neighbors, fanout: null")) == missing);
  for (const std::string more : {"max_subgraph_size: 10", "max_subgraph_size: 1024"}) {
    CHECK_THAT(ErrorOf(Sampled(more)), Contains("closure.max_subgraph_size: expected merge: false "
                                                "beside it"));
  }
  for (const auto& [fanout, got] :
       std::vector<std::pair<std::string, std::string>>{{"[]", "a list"},
                                                        {"15", "'15'"},
                                                        {"all", "'all'"},
                                                        {"[all]", "'all'"},
                                                        {"['1']", "the text '1'"},
                                                        {"[1.5]", "'1.5'"},
                                                        {"[-2]", "'-2'"},
                                                        {"[1048577]", "'1048577'"},
                                                        {"[[1]]", "a list"}}) {
    CHECK_THAT(
        ErrorOf(Roots("kind: neighbors, fanout: " + fanout)),
        Contains("closure.fanout: expected a list of integers such as [9, 1], each from -1 to "
                 "1048576, or a map, got " +
                 got));
  }
  for (const std::string later : {"weights", "before", "draw"}) {
    CHECK(ErrorOf(Roots(later + ": x")) ==
          "p.yaml:5:11: closure." + later + " is not yet supported");
  }
}

}  // namespace
}  // namespace millrace::test
