#include "server/plan/tensors/transfer_cut.h"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace millrace {
namespace {

using Cut = std::vector<std::size_t>;
using Names = std::vector<std::string>;

/// Tries every set of tensors.
class ExhaustiveCut {
 public:
  explicit ExhaustiveCut(const std::vector<CutTensor>& tensors) : tensors_(tensors) {}

  Cut Find() {
    std::uint64_t best = std::numeric_limits<std::uint64_t>::max();
    std::size_t nearest = 0;
    Cut found;
    for (std::uint32_t set = 0; set < 1U << tensors_.size(); ++set) {
      if (!IsValid(set)) continue;
      const std::uint64_t weight = Weight(set);
      const std::size_t behind = EndsBehind(set);
      if (weight > best || (weight == best && behind >= nearest)) continue;
      best = weight;
      nearest = behind;
      found.clear();
      for (std::size_t i = 0; i < tensors_.size(); ++i) {
        if (Has(set, i)) found.push_back(i);
      }
    }
    return found;
  }

 private:
  static bool Has(std::uint32_t set, std::size_t tensor) { return (set >> tensor & 1) != 0; }

  std::uint64_t Weight(std::uint32_t set) const {
    std::uint64_t weight = 0;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (Has(set, i)) weight += tensors_[i].weight;
    }
    return weight;
  }

  /// Whether every path from the worker to the consumer crosses the set.
  bool IsValid(std::uint32_t set) const {
    std::vector<bool> out(tensors_.size(), false);
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const CutTensor& tensor = tensors_[i];
      const bool in =
          tensor.at_worker || std::any_of(tensor.inputs.begin(), tensor.inputs.end(),
                                          [&](std::size_t input) { return out[input]; });
      if (tensor.at_consumer && (in || Has(set, i))) return false;
      out[i] = in && !Has(set, i);
      if (out[i] && tensor.output) return false;
    }
    return true;
  }

  /// How many ends of tensors lead to the consumer without crossing the set.
  std::size_t EndsBehind(std::uint32_t set) const {
    std::size_t behind = 0;
    std::vector<bool> out(tensors_.size(), false);
    for (std::size_t i = tensors_.size(); i-- > 0;) {
      const CutTensor& tensor = tensors_[i];
      if (tensor.output) out[i] = true;
      const bool in = tensor.at_consumer || (out[i] && !Has(set, i));
      if (in) {
        for (const std::size_t input : tensor.inputs) out[input] = true;
      }
      behind += (out[i] ? 1 : 0) + (in ? 1 : 0);
    }
    return behind;
  }

  const std::vector<CutTensor>& tensors_;
};

TEST_CASE("the transfer cut is what exhaustive search finds", "[transfer cut]") {
  rc::prop("on every small graph", [] {
    std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
    const auto below = [&](std::size_t end) { return static_cast<std::size_t>(random() % end); };
    std::vector<CutTensor> tensors(1 + below(9));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      CutTensor& tensor = tensors[i];
      tensor.weight = 1 + below(4);  // few weights, so that several cuts are equal
      tensor.output = below(3) == 0;
      if (i == 0 || below(4) == 0) {
        tensor.at_worker = true;
        if (i == 0 || below(2) == 0) continue;
      }
      for (std::size_t input = 0; input <= below(3); ++input) tensor.inputs.push_back(below(i));
      if (!tensor.at_worker) tensor.at_consumer = below(6) == 0;
    }
    RC_ASSERT(LeastCut(tensors) == ExhaustiveCut(tensors).Find());
  });
}

TensorDefinition Define(std::string name, std::string operation, std::string input,
                        std::map<std::string, ParamValue> params, RunPlace at = RunPlace::kAny) {
  return {std::move(name), std::move(operation), {std::move(input)}, Params(std::move(params)), at};
}

TensorGraphText Chess() {
  TensorGraphText text;
  text.sources = {{"d", ParseTensorType("bytes[194]").value()},
                  {"s", ParseTensorType("int64").value()}};
  text.definitions = {
      Define("bits", "bits", "d", {}),
      Define("board", "slice", "bits",
             {{"range", std::vector<std::int64_t>{0, 1536}}, {"dtype", std::string("float32")}}),
      Define("flags", "slice", "bits", {{"range", std::vector<std::int64_t>{1536, 1546}}}),
      Define("score", "cast", "s", {{"dtype", std::string("float32")}}),
  };
  return text;
}

Names CutNames(const TensorGraphText& text, const LookupTables& tables = {}) {
  const TensorGraph graph = TensorGraph::Bind(text, OperationTable::Default(), tables).value();
  Names names;
  const TransferCut transfer_cut = FindTransferCut(graph).value();
  for (const std::size_t tensor : transfer_cut.tensors) {
    names.push_back(graph.nodes()[tensor].name);
  }
  return names;
}

TEST_CASE("the fewest bytes travel, and each tensor is cut where it is least", "[transfer cut]") {
  CHECK(CutNames(Chess()) == Names{"d", "score"});
  TensorGraphText text = Chess();
  text.outputs = {{"flags"}};
  CHECK(CutNames(text) == Names{"flags"});
}

TEST_CASE("a tensor can be pinned to either place", "[transfer cut]") {
  TensorGraphText text = Chess();
  text.outputs = {{"score"}};
  text.definitions.back().at = RunPlace::kConsumer;
  CHECK(CutNames(text) == Names{"s"});
  text = Chess();
  text.outputs = {{"board"}};
  text.definitions[1].at = RunPlace::kWorker;
  CHECK(CutNames(text) == Names{"board"});
}

TEST_CASE("what is needed on both sides is made on both", "[transfer cut]") {
  TensorGraphText text = Chess();
  text.definitions[2].at = RunPlace::kWorker;
  const TensorGraph graph = TensorGraph::Bind(text).value();
  const TransferCut transfer_cut = FindTransferCut(graph).value();
  CHECK(CutNames(text) == Names{"d", "flags", "score"});
  const auto bits = static_cast<std::size_t>(
      std::find_if(graph.nodes().begin(), graph.nodes().end(),
                   [](const TensorNode& node) { return node.name == "bits"; }) -
      graph.nodes().begin());
  CHECK(transfer_cut.at_worker[bits]);
  CHECK(transfer_cut.at_consumer[bits]);
}

TEST_CASE("what only widens a source's tensor never travels", "[transfer cut]") {
  for (const DType dtype : {DType::kUint8, DType::kUint64}) {
    TensorGraphText text;
    TensorType type;
    type.dtype = dtype;
    text.sources = {{"n", type, true}};
    text.definitions = {
        Define("wide", "cast", "n", {{"dtype", std::string("float64")}}, RunPlace::kConsumer)};
    const TensorGraph graph = TensorGraph::Bind(text).value();
    const TransferCut transfer_cut = FindTransferCut(graph).value();
    REQUIRE(transfer_cut.tensors.size() == 1);
    CHECK(graph.nodes()[transfer_cut.tensors[0]].operation == nullptr);
  }
}

TEST_CASE("what only a worker can make is not for the consumer", "[transfer cut]") {
  const TensorType row = ParseTensorType("float32[100]").value();
  const LookupTables tables = {{"w", TensorView{&row, 0, {}, {}}}};
  TensorGraphText text = Chess();
  text.definitions.push_back(Define("v", "lookup", "s", {{"table", std::string("w")}}));
  CHECK(CutNames(text, tables) == Names{"d", "score", "v"});
  text.definitions.back().at = RunPlace::kConsumer;
  const TensorGraph graph = TensorGraph::Bind(text, OperationTable::Default(), tables).value();
  CHECK(FindTransferCut(graph).status().message() == "v: at: only a worker can make it");
}

TEST_CASE("ragged axes, nodes and edges have a weight of their own", "[transfer cut]") {
  TensorType type = ParseTensorType("float32[3]").value();
  CHECK(TransferWeight(type) == 12);
  type.ragged = true;
  CHECK(TransferWeight(type) == 768);
  type.ragged = false;
  type.rows = "nodes";
  CHECK(TransferWeight(type) == 768);
  type.rows = "edges";
  CHECK(TransferWeight(type) == 1536);
}

}  // namespace
}  // namespace millrace
