// The shapes of generated proofs, and the sizes of the closures of their proof states.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "server/kinds/coq/generator/generator.h"
#include "tests/support/dataset_fixture.h"
#include "tests/unit/server/kinds/coq/generator/plain_dataset.h"

namespace millrace {
namespace {

using test::EdgeLabel;
using test::NodeLabel;
using test::PlainDataset;
using test::PlainEdge;
using test::PlainFile;
using test::PlainNode;
using test::PlainOutcome;
using test::PlainStep;
using test::TempDir;

PlainDataset GeneratedProofs() {
  TempDir dir;
  GeneratorOptions options;
  options.seed = 4;
  GeneratorReport report;
  REQUIRE(GenerateDataset(dir.path(), options, &report).ok());
  return test::ReadPlainDataset(dir.path());
}

std::string WithoutAt(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), '@'), text.end());
  return text;
}

/// The global context of proofs of `definition`, computed plainly, definition by definition.
class GlobalContext {
 public:
  GlobalContext(const PlainDataset& dataset, std::uint32_t file, std::uint32_t definition)
      : dataset_(dataset) {
    Chain(file, dataset.files[file].definitions.at(definition).previous);
    Require(file, definition);
  }

  bool Has(PlainNode node) const { return nodes_.count(node) == 1; }

 private:
  void Chain(std::uint32_t file, std::uint32_t from) {
    const PlainFile& plain = dataset_.files[file];
    for (; from < plain.labels.size(); from = plain.definitions.at(from).previous) {
      nodes_.insert({file, from});
      Require(file, from);
    }
  }

  void Require(std::uint32_t file, std::uint32_t definition) {
    for (std::uint32_t required : dataset_.files[file].definitions.at(definition).required) {
      if (files_.insert(required).second) Chain(required, dataset_.files[required].representative);
    }
  }

  const PlainDataset& dataset_;
  std::set<PlainNode> nodes_;
  std::set<std::uint32_t> files_;
};

}  // namespace

TEST_CASE("closures of proof states have about 31 nodes, and some more than 1024", "[generator]") {
  const PlainDataset dataset = GeneratedProofs();
  std::uint64_t nodes = 0;
  std::uint64_t states = 0;
  std::size_t beyond = 0;
  std::map<PlainNode, std::size_t> known;
  for (const PlainOutcome* outcome : dataset.Examples()) {
    const auto [it, first] = known.try_emplace(outcome->root, 0);
    if (first) it->second = dataset.Closure(outcome->root).size();
    nodes += it->second;
    ++states;
    beyond += it->second > 1024;
  }
  const double mean = static_cast<double>(nodes) / static_cast<double>(states);
  CHECK(mean > 27);
  CHECK(mean < 35);
  CHECK(beyond >= 5);
  CHECK(beyond * 200 < states);
}

TEST_CASE("tactics are known and unknown, with no, one and several outcomes", "[generator]") {
  const PlainDataset dataset = GeneratedProofs();
  std::size_t unknown_with_outcomes = 0;
  std::map<std::size_t, std::size_t> known;
  for (const PlainFile& file : dataset.files) {
    for (const PlainStep& step : file.steps) {
      if (step.known) ++known[step.outcomes.size()];
      unknown_with_outcomes += !step.known && !step.outcomes.empty();
    }
  }
  CHECK(unknown_with_outcomes > 50);
  CHECK(known[0] > 50);
  CHECK(known[1] > 10'000);
  CHECK(known[2] > 100);
  CHECK(known.rbegin()->first > 16);
}

TEST_CASE("a tactic always has the same number of arguments, and some are rare", "[generator]") {
  const PlainDataset dataset = GeneratedProofs();
  std::map<std::int64_t, std::set<std::size_t>> arguments;
  std::map<std::int64_t, std::size_t> uses;
  for (const PlainFile& file : dataset.files) {
    for (const PlainStep& step : file.steps) {
      if (!step.known || step.outcomes.empty()) continue;
      ++uses[step.ident];
      for (const PlainOutcome& outcome : step.outcomes) {
        arguments[step.ident].insert(outcome.arguments.size());
      }
    }
  }
  std::set<std::size_t> numbers;
  for (const auto& [ident, counts] : arguments) {
    CHECK(counts.size() == 1);
    numbers.insert(counts.begin(), counts.end());
  }
  CHECK(numbers == std::set<std::size_t>{0, 1, 2, 5});
  std::size_t rare = 0;
  std::size_t most = 0;
  for (const auto& [ident, count] : uses) {
    rare += count < 4;
    most = std::max(most, count);
  }
  CHECK(rare >= 5);
  CHECK(most > 1000);
}

TEST_CASE("arguments are local, global, unresolvable and sometimes neither", "[generator]") {
  const PlainDataset dataset = GeneratedProofs();
  std::size_t local = 0;
  std::size_t global = 0;
  std::size_t definition_elsewhere = 0;
  std::size_t neither = 0;
  std::size_t unresolvable = 0;
  std::size_t looked_at = 0;
  PlainNode last{~0u, ~0u};
  std::optional<GlobalContext> context;
  for (const PlainOutcome* outcome : dataset.Examples()) {
    if (outcome->arguments.empty()) continue;
    // A sample is enough, because contexts are slow to compute in this way.
    if (++looked_at % 16 > 3 || looked_at > 16'000) continue;
    if (last != PlainNode{outcome->file, outcome->definition}) {
      context.emplace(dataset, outcome->file, outcome->definition);
      last = {outcome->file, outcome->definition};
    }
    for (const auto& [resolvable, node] : outcome->arguments) {
      if (!resolvable) {
        ++unresolvable;
      } else if (std::find(outcome->context.begin(), outcome->context.end(), node) !=
                 outcome->context.end()) {
        ++local;
      } else if (context->Has(node)) {
        ++global;
      } else {
        ++(dataset.label(node) == NodeLabel::DEFINITION ? definition_elsewhere : neither);
      }
    }
  }
  CHECK(local > 500);
  CHECK(global > 500);
  CHECK(unresolvable > 30);
  CHECK(neither > 3);
  CHECK(definition_elsewhere > 0);
  CHECK(definition_elsewhere * 5 < global);
}

TEST_CASE("some steps are unfaithful, and some differ in '@' alone", "[generator]") {
  const PlainDataset dataset = GeneratedProofs();
  std::size_t same = 0;
  std::size_t differ_in_at = 0;
  std::size_t unfaithful = 0;
  for (const PlainFile& file : dataset.files) {
    for (const PlainStep& step : file.steps) {
      if (!step.known) continue;
      if (step.text == step.interm_text) {
        ++same;
      } else if (WithoutAt(step.text) == WithoutAt(step.interm_text)) {
        ++differ_in_at;
      } else {
        ++unfaithful;
      }
    }
  }
  CHECK(same > 10'000);
  CHECK(differ_in_at > 500);
  CHECK(unfaithful > 300);
}

TEST_CASE("a proof state's context is what its root's edges lead to", "[generator]") {
  const PlainDataset dataset = GeneratedProofs();
  std::size_t with_context = 0;
  std::size_t twice = 0;
  std::size_t of_other_file = 0;
  std::size_t beyond_limit = 0;
  for (const PlainOutcome* outcome : dataset.Examples()) {
    REQUIRE(dataset.label(outcome->root) == NodeLabel::PROOF_STATE);
    std::multiset<PlainNode> elements;
    for (const PlainEdge& edge : dataset.children(outcome->root)) {
      if (edge.label == EdgeLabel::CONTEXT_ELEM) elements.insert(edge.target);
    }
    REQUIRE(elements == std::multiset<PlainNode>(outcome->context.begin(), outcome->context.end()));
    with_context += !elements.empty();
    twice += std::set<PlainNode>(elements.begin(), elements.end()).size() < elements.size();
    of_other_file += outcome->root.first != outcome->file;
    beyond_limit += elements.size() >= 1024;
  }
  CHECK(with_context > 15'000);
  CHECK(twice >= 1);
  CHECK(of_other_file > 20);
  CHECK(beyond_limit >= 1);
  CHECK(beyond_limit < 50);
}

}  // namespace millrace
