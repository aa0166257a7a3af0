// Every operation of the table, in random chains with one another, computed at the worker and at
// the consumer as plans do it: from what a writer holds, through the batch that travels, to what is
// delivered. The values are those of the whole program run in one piece.

#include <rapidcheck.h>
#include <rapidcheck/catch.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/expand/delivery.h"
#include "common/expand/expand.h"
#include "common/operations/python_function.h"
#include "server/plan/tensors/tensor_plan.h"
#include "tests/unit/common/operations/run_graph.h"

namespace millrace {
namespace {

using test::Ints;
using test::NamedTensors;
using test::Tensor;
using UseParams = std::map<std::string, ParamValue>;

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  /// In [begin, end).
  std::int64_t In(std::int64_t begin, std::int64_t end) {
    return begin + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(end - begin));
  }
  bool One(std::int64_t in) { return In(0, in) == 0; }
  template <class T>
  const T& Of(const std::vector<T>& all) {
    return all[static_cast<std::size_t>(In(0, static_cast<std::int64_t>(all.size())))];
  }
  std::string DTypeText() { return std::string(DTypeName(static_cast<DType>(In(0, kDTypes)))); }
  Ints Some(std::int64_t least, std::int64_t most, std::int64_t begin, std::int64_t end) {
    Ints numbers(static_cast<std::size_t>(In(least, most + 1)));
    for (std::int64_t& number : numbers) number = In(begin, end);
    return numbers;
  }

 private:
  std::mt19937_64 engine_;
};

// --- The source ------------------------------------------------------------------------------

enum SourceColumn : std::size_t {
  kBytes,
  kCount,
  kSmall,
  kTokens,
  kTokenSplits,
  kWave,
  kWaveSplits,
  kFlag,
  kNodeLabel,
  kNodeSplits,
  kFeature,
  kWeight
};

std::vector<TensorSpec> SourceTensors() {
  std::vector<TensorSpec> tensors(12);
  const auto set = [&](SourceColumn column, const char* path, DType dtype, const char* rows,
                       Expansion expansion = Expansion::kKeep) {
    TensorSpec& spec = tensors[column];
    spec.path = path;
    spec.dtype = dtype;
    spec.dimension = rows;
    spec.expansion = expansion;
    spec.min = IsInteger(dtype) ? DTypeMin(dtype) : 0;
    spec.max = IsInteger(dtype) ? DTypeMax(dtype) : 0;
  };
  const auto cut = [&](SourceColumn column, SourceColumn splits, const char* path) {
    tensors[column].kind = TensorKind::kRaggedValues;
    tensors[column].splits = path;
    set(splits, path, DType::kUint16, "batch+1", Expansion::kWiden);
    tensors[splits].kind = TensorKind::kSplits;
  };
  set(kBytes, "bytes", DType::kUint8, "batch");
  tensors[kBytes].inner = {4};
  set(kCount, "count", DType::kUint16, "batch", Expansion::kWiden);
  set(kSmall, "small", DType::kInt8, "batch");
  set(kTokens, "tokens", DType::kUint8, "tokens", Expansion::kWiden);
  cut(kTokens, kTokenSplits, "tokens_splits");
  set(kWave, "a/wave", DType::kFloat32, "wave");
  tensors[kWave].inner = {2};
  cut(kWave, kWaveSplits, "wave_splits");
  set(kFlag, "flag", DType::kBool, "batch");
  set(kNodeLabel, "node_label", DType::kUint8, "nodes", Expansion::kWiden);
  cut(kNodeLabel, kNodeSplits, "node_splits");
  set(kFeature, "node_feature/x", DType::kFloat32, "nodes");
  tensors[kFeature].inner = {3};
  tensors[kFeature].kind = TensorKind::kRaggedValues;
  tensors[kFeature].splits = "node_splits";
  set(kWeight, "weight", DType::kFloat64, "batch");
  tensors[kWeight].inner = {2, 2};
  return tensors;
}

struct OperandRow {
  std::vector<std::uint8_t> bytes;
  std::uint16_t count = 0;
  std::int8_t small = 0;
  std::vector<std::uint8_t> tokens;
  std::vector<float> wave;  // pairs
  bool flag = false;
  std::vector<std::uint8_t> node_label;
  std::vector<float> feature;  // three a node
  std::vector<double> weight;
};

std::vector<OperandRow> RandomRows(Dice& dice, std::size_t count) {
  std::vector<OperandRow> examples(count);
  for (OperandRow& example : examples) {
    for (int i = 0; i < 4; ++i) example.bytes.push_back(static_cast<std::uint8_t>(dice.In(0, 256)));
    example.count = static_cast<std::uint16_t>(dice.In(0, 65536));
    example.small = static_cast<std::int8_t>(dice.In(-1, 4));
    for (std::int64_t n = dice.In(0, 5); n > 0; --n) {
      example.tokens.push_back(static_cast<std::uint8_t>(dice.In(0, 256)));
    }
    // As long as the tokens now and then, so that both stand in one operation.
    const std::size_t pairs =
        dice.One(2) ? example.tokens.size() : static_cast<std::size_t>(dice.In(0, 4));
    for (std::size_t i = 0; i < 2 * pairs; ++i) {
      example.wave.push_back(static_cast<float>(dice.In(-3000, 3000)) / 8);
    }
    example.flag = dice.One(2);
    for (std::int64_t n = dice.In(0, 4); n > 0; --n) {
      example.node_label.push_back(static_cast<std::uint8_t>(dice.In(0, 4)));
      for (int i = 0; i < 3; ++i) {
        example.feature.push_back(static_cast<float>(dice.In(-200, 200)) / 16);
      }
    }
    for (int i = 0; i < 4; ++i) example.weight.push_back(static_cast<double>(dice.In(-9, 9)) / 4);
  }
  return examples;
}

void WriteRows(const std::vector<OperandRow>& examples, BatchWriter& writer) {
  writer.Begin(Fingerprint{}, 1, 100, static_cast<std::uint32_t>(examples.size()));
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const OperandRow& example = examples[i];
    writer.AppendBytes(kBytes, std::as_bytes(std::span(example.bytes)));
    writer.AppendOne(kCount, example.count);
    writer.AppendOne(kSmall, example.small);
    for (const std::uint8_t token : example.tokens) writer.AppendOne(kTokens, token);
    writer.AppendBytes(kWave, std::as_bytes(std::span(example.wave)));
    writer.AppendOne(kFlag, example.flag ? 1 : 0);
    for (const std::uint8_t label : example.node_label) writer.AppendOne(kNodeLabel, label);
    writer.AppendBytes(kFeature, std::as_bytes(std::span(example.feature)));
    writer.AppendBytes(kWeight, std::as_bytes(std::span(example.weight)));
    writer.EndExample(ExampleId(i));
  }
}

template <class T, class Field>
std::vector<T> JoinedRows(std::span<const OperandRow> examples, Field OperandRow::*field) {
  std::vector<T> all;
  for (const OperandRow& example : examples) {
    if constexpr (std::is_arithmetic_v<Field>) {
      all.push_back(static_cast<T>(example.*field));
    } else {
      for (const auto value : example.*field) all.push_back(static_cast<T>(value));
    }
  }
  return all;
}

template <class T, class Field>
Tensor RaggedOf(const std::string& type, std::span<const OperandRow> examples,
                Field OperandRow::*field) {
  std::vector<std::vector<T>> rows;
  for (const OperandRow& example : examples) {
    rows.emplace_back((example.*field).begin(), (example.*field).end());
  }
  return test::Ragged(type, rows);
}

/// The source's tensors as operations read them.
NamedTensors Operands(std::span<const OperandRow> examples) {
  const std::size_t rows = examples.size();
  const auto labels = JoinedRows<std::int64_t>(examples, &OperandRow::node_label);
  NamedTensors operands = {
      {"bytes",
       test::Dense("uint8[4]", rows, JoinedRows<std::uint8_t>(examples, &OperandRow::bytes))},
      {"count", test::Dense("int64", rows, JoinedRows<std::int64_t>(examples, &OperandRow::count))},
      {"small", test::Dense("int8", rows, JoinedRows<std::int8_t>(examples, &OperandRow::small))},
      {"tokens", RaggedOf<std::int64_t>("int64[*]", examples, &OperandRow::tokens)},
      {"a/wave", RaggedOf<float>("float32[*, 2]", examples, &OperandRow::wave)},
      {"flag", test::Dense("bool", rows, JoinedRows<std::uint8_t>(examples, &OperandRow::flag))},
      {"node_label", test::Dense("int64", labels.size(), labels)},
      {"node_feature/x",
       test::Dense("float32[3]", labels.size(), JoinedRows<float>(examples, &OperandRow::feature))},
      {"weight",
       test::Dense("float64[2, 2]", rows, JoinedRows<double>(examples, &OperandRow::weight))}};
  for (const char* const of_nodes : {"node_label", "node_feature/x"}) {
    operands.at(of_nodes).type.rows = "nodes";
  }
  return operands;
}

// --- Random uses of operations ---------------------------------------------------------------

struct Known {
  std::string name;
  TensorType type;
};
using AllKnown = std::vector<Known>;

struct Use {
  std::vector<std::string> inputs;
  UseParams params;
};
using MakeUse = std::function<Use(Dice&, const AllKnown&)>;

ParamValue TextValue(const std::string& text) { return text; }

std::int64_t AnyAxis(Dice& dice, const TensorType& type) {
  const auto rank = static_cast<std::int64_t>(type.rank());
  return dice.In(-rank, rank);
}

/// Any tensor, preferably one of these.
template <class Wanted>
const Known& Preferred(Dice& dice, const AllKnown& all, const Wanted& wanted) {
  for (int i = 0; i < 20; ++i) {
    const Known& one = dice.Of(all);
    if (wanted(one.type)) return one;
  }
  return dice.Of(all);
}

/// Several names, preferably of tensors of the type of the first one.
std::vector<std::string> AnyAlike(Dice& dice, const AllKnown& all) {
  const Known& first = dice.Of(all);
  std::vector<std::string> names = {first.name};
  for (std::int64_t more = dice.In(0, 3); more > 0; --more) {
    names.push_back(
        Preferred(dice, all, [&](const TensorType& type) { return type == first.type; }).name);
  }
  return names;
}

/// A name as a pipeline writes it.
std::string Dotted(std::string name) {
  std::replace(name.begin(), name.end(), '/', '.');
  return name;
}

Use AnyExpression(Dice& dice, const AllKnown& all) {
  static const std::vector<std::string> kTexts = {"A + B * c",
                                                  "A ? B : c",
                                                  "max(A, B) / 3",
                                                  "tanh(A / 100) + sin(B)",
                                                  "A > B",
                                                  "-A + !B",
                                                  "round(A * 0.3) - c",
                                                  "exp(-abs(A)) * float32(B)",
                                                  "1 + 2 * c",
                                                  "int64(A) % 7",
                                                  "sqrt(abs(A)) == sqrt(abs(B))",
                                                  "sign(A) * floor(B / 8)",
                                                  "A && B || c",
                                                  "float64(A) - B",
                                                  "cos(A) < log(abs(B) + 1)"};
  std::string text;
  const Known& first = dice.Of(all);
  const Known& second = Preferred(dice, all, [&](const TensorType& type) {
    return type.rows == first.type.rows &&
           (type.inner == first.type.inner || (type.inner.empty() && !type.ragged));
  });
  for (const char c : dice.Of(kTexts)) {
    if (c == 'A') {
      text += Dotted(first.name);
    } else if (c == 'B') {
      text += Dotted(second.name);
    } else {
      text += c;
    }
  }
  Use use;
  use.params = {{"expr", TextValue(text)},
                {"with", std::map<std::string, ParamNumber>{{"c", dice.In(-3, 4)}}}};
  return use;
}

/// A use of each operation, by name. Most of them can be bound.
const std::map<std::string, MakeUse>& Uses() {
  static const std::map<std::string, MakeUse> uses = {
      {"bits",
       [](Dice& dice, const AllKnown& all) -> Use {
         const auto is_bytes = [](const TensorType& type) { return type.dtype == DType::kUint8; };
         return {{Preferred(dice, all, is_bytes).name},
                 {{"order", TextValue(dice.One(2) ? "msb" : "lsb")}}};
       }},
      {"slice",
       [](Dice& dice, const AllKnown& all) -> Use {
         const Known& one = dice.Of(all);
         return {{one.name},
                 {{"range", dice.Some(2, 2, -3, 5)}, {"axis", AnyAxis(dice, one.type)}}};
       }},
      {"take",
       [](Dice& dice, const AllKnown& all) -> Use {
         const Known& one = dice.Of(all);
         const ParamValue index =
             dice.One(3) ? ParamValue(dice.In(-2, 2)) : ParamValue(dice.Some(1, 4, -2, 2));
         return {{one.name}, {{"index", index}, {"axis", AnyAxis(dice, one.type)}}};
       }},
      {"reshape",
       [](Dice& dice, const AllKnown& all) -> Use {
         static const std::vector<Ints> kShapes = {{-1}, {2, -1}, {1, -1}, {-1, 2}, {1}, {}};
         return {{dice.Of(all).name}, {{"shape", dice.Of(kShapes)}}};
       }},
      {"transpose",
       [](Dice& dice, const AllKnown& all) -> Use {
         const Known& one = Preferred(dice, all, [](const TensorType& t) { return t.rank() > 2; });
         Ints axes(one.type.rank());
         for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(i);
         const std::ptrdiff_t first = one.type.ragged ? 2 : 1;
         std::shuffle(axes.begin() + std::min<std::ptrdiff_t>(first, std::ssize(axes)), axes.end(),
                      std::mt19937_64(static_cast<std::uint64_t>(dice.In(0, 1000))));
         return {{one.name}, {{"axes", axes}}};
       }},
      {"cast",
       [](Dice& dice, const AllKnown& all) -> Use {
         return {{dice.Of(all).name}, {{"dtype", TextValue(dice.DTypeText())}}};
       }},
      {"view",
       [](Dice& dice, const AllKnown& all) -> Use {
         return {{dice.Of(all).name}, {{"dtype", TextValue(dice.DTypeText())}}};
       }},
      {"expr", AnyExpression},
      {"one_hot",
       [](Dice& dice, const AllKnown& all) -> Use {
         const auto is_small = [](const TensorType& type) { return type.dtype == DType::kInt8; };
         const bool any = dice.One(8);
         return {{any           ? dice.Of(all).name
                  : dice.One(3) ? "node_label"
                                : Preferred(dice, all, is_small).name},
                 {{"depth", dice.In(4, 7)}}};
       }},
      {"concat",
       [](Dice& dice, const AllKnown& all) -> Use {
         const std::vector<std::string> names = AnyAlike(dice, all);
         return {names, {{"axis", dice.In(-2, 3)}}};
       }},
      {"stack",
       [](Dice& dice, const AllKnown& all) -> Use {
         const std::vector<std::string> names = AnyAlike(dice, all);
         return {names, {{"axis", dice.In(-2, 4)}}};
       }},
      {"length",
       [](Dice& dice, const AllKnown& all) -> Use {
         return {{Preferred(dice, all, [](const TensorType& type) { return type.ragged; }).name},
                 {}};
       }},
      {"lookup", [](Dice& dice, const AllKnown& all) -> Use {
         const bool any = dice.One(8);
         return {{any           ? dice.Of(all).name
                  : dice.One(2) ? "tokens"
                                : "node_label"},
                 {{"table", TextValue(dice.One(2) ? "rows" : "numbers")}}};
       }}};
  return uses;
}

/// Steps after an operation; most of them suit it.
void AddAfterSteps(Dice& dice, UseParams& params) {
  if (dice.One(8)) params.emplace("squeeze", true);
  if (dice.One(8)) params.emplace("shape", Ints{-1, 2});
  if (dice.One(4))
    params.emplace("scale", dice.One(2) ? ParamValue(dice.In(0, 4)) : ParamValue(-0.75));
  if (dice.One(4))
    params.emplace("offset",
                   dice.One(2) ? ParamValue(Ints{1, 2}) : ParamValue(dice.In(0, 3)));
  if (dice.One(3)) params.emplace("dtype", TextValue(dice.DTypeText()));
}

std::vector<std::string> InputsOfExpression(const OperationType& operation,
                                            const UseParams& params) {
  const auto inputs = operation.inputs_of(Params(params));
  return inputs.ok() ? *inputs : std::vector<std::string>();
}

/// A random graph: definitions that read the source and one another. Each of them can be bound.
class RandomGraph {
 public:
  RandomGraph(Dice& dice, const NamedTensors& operands, const LookupTables& tables)
      : dice_(dice), tables_(tables) {
    for (const auto& [name, tensor] : operands) {
      text_.sources.push_back({name, tensor.type});
      known_.push_back({name, tensor.type});
    }
  }

  /// Adds a use of the operation; false if none was found that can be bound.
  bool Add(const OperationType& operation) {
    for (int i = 0; i < 30; ++i) {
      Use use = Uses().at(operation.name)(dice_, known_);
      AddAfterSteps(dice_, use.params);
      if (operation.inputs_of) use.inputs = InputsOfExpression(operation, use.params);
      TensorDefinition definition{"t" + std::to_string(text_.definitions.size()), operation.name,
                                  use.inputs, Params(use.params)};
      if (TryToAdd(definition)) return true;
    }
    return false;
  }

  const std::vector<TensorDefinition>& definitions() const { return text_.definitions; }
  const TensorType& TypeOf(const std::string& name) const {
    return std::find_if(known_.begin(), known_.end(),
                        [&](const Known& one) { return one.name == name; })
        ->type;
  }

 private:
  bool TryToAdd(const TensorDefinition& definition) {
    TensorGraphText text = text_;
    text.definitions.push_back(definition);
    text.outputs = {{definition.name}};
    const auto graph = TensorGraph::Bind(text, OperationTable::Default(), tables_);
    if (!graph.ok()) return false;
    const TensorType& type = graph->nodes()[graph->outputs().front().node].type;
    if (type.UnitElements() > 400) return false;  // chains of `bits` and `stack` grow
    if (type.inner.size() > 6) return false;      // as many as a batch takes
    known_.push_back({definition.name, type});
    text_.definitions.push_back(definition);
    return true;
  }

  Dice& dice_;
  const LookupTables& tables_;
  TensorGraphText text_;
  AllKnown known_;
};

// --- Comparing -------------------------------------------------------------------------------

Ints IntegersOf(const DeliveredTensor& tensor) {
  Ints values;
  for (std::size_t i = 0; i < tensor.bytes / DTypeSize(tensor.dtype); ++i) {
    values.push_back(tensor.ValueAt(i));
  }
  return values;
}

/// What a padded tensor has to have: the rows of the ragged one, filled up with `value`.
std::vector<std::byte> FilledRows(const Tensor& ragged, std::uint64_t extent, std::uint8_t value) {
  const std::size_t unit = ragged.type.UnitBytes();
  std::vector<std::byte> filled;
  const Tensor number = test::RunOperation("cast", {test::Dense<std::uint8_t>("uint8", 1, {value})},
                                           {{"dtype", std::string(DTypeName(ragged.type.dtype))}})
                            .value();
  for (std::size_t row = 0; row + 1 < ragged.splits.size(); ++row) {
    const auto begin = static_cast<std::size_t>(ragged.splits[row]);
    const auto end = static_cast<std::size_t>(ragged.splits[row + 1]);
    filled.insert(filled.end(), ragged.data() + begin * unit, ragged.data() + end * unit);
    for (std::size_t i = (end - begin) * unit; i < extent * unit; i += number.bytes) {
      filled.insert(filled.end(), number.data(), number.data() + number.bytes);
    }
  }
  return filled;
}

/// Where the operations of the table have run and were compared.
std::map<std::string, std::set<std::string>>& Compared() {
  static std::map<std::string, std::set<std::string>> compared;
  return compared;
}

struct Pads {
  std::map<std::string, Params> params;
  std::map<std::string, std::uint64_t> multiple;
  static constexpr std::uint8_t kValue = 1;
};

Pads RandomPads(Dice& dice, const RandomGraph& graph, const std::vector<std::string>& outputs) {
  Pads pads;
  for (const std::string& name : outputs) {
    if (!graph.TypeOf(name).ragged || dice.One(2)) continue;
    if (graph.TypeOf(name).inner.size() > 5) continue;
    const std::int64_t multiple = dice.In(1, 4);
    pads.multiple[name] = static_cast<std::uint64_t>(multiple);
    pads.params[Dotted(name)] =
        Params({{"multiple", multiple}, {"value", std::int64_t{Pads::kValue}}});
  }
  return pads;
}

void NotePlaces(const TensorPlan& plan) {
  for (std::size_t i = 0; i < plan.graph().nodes().size(); ++i) {
    const TensorNode& node = plan.graph().nodes()[i];
    if (node.operation == nullptr || node.implicit) continue;
    if (plan.transfer_cut().at_worker[i]) Compared()[node.operation->name].insert("worker");
    if (plan.transfer_cut().at_consumer[i]) Compared()[node.operation->name].insert("consumer");
  }
}

void CheckOutput(const DeliveredBatch& batch, const std::string& name, const Tensor& expected,
                 const Pads& pads) {
  const DeliveredTensor* const tensor = batch.Find(name);
  RC_ASSERT(tensor != nullptr);
  RC_ASSERT(tensor->dtype == expected.type.dtype);
  const std::vector<std::byte> got(tensor->data, tensor->data + tensor->bytes);
  if (const auto multiple = pads.multiple.find(name); multiple != pads.multiple.end()) {
    std::int64_t longest = 0;
    Ints lengths;
    for (std::size_t row = 0; row < expected.rows; ++row) {
      lengths.push_back(expected.splits[row + 1] - expected.splits[row]);
      longest = std::max(longest, lengths.back());
    }
    const std::uint64_t of = multiple->second;
    const std::uint64_t extent = (static_cast<std::uint64_t>(longest) + of - 1) / of * of;
    RC_ASSERT(tensor->kind == TensorKind::kDense);
    RC_ASSERT(tensor->shape[0] == expected.rows);
    RC_ASSERT(tensor->shape[1] == extent);
    RC_ASSERT(got == FilledRows(expected, extent, Pads::kValue));
    const DeliveredTensor* const length = batch.Find(Dotted(name) + ".length");
    RC_ASSERT(length != nullptr);
    RC_ASSERT(IntegersOf(*length) == lengths);
    return;
  }
  RC_ASSERT(got == std::vector<std::byte>(expected.data(), expected.data() + expected.bytes));
  RC_ASSERT(std::equal(tensor->shape.begin() + 1, tensor->shape.end(), expected.type.inner.begin(),
                       expected.type.inner.end()));
  if (expected.type.ragged) {
    RC_ASSERT(IntegersOf(*batch.Find(tensor->splits)) == expected.splits);
  } else if (expected.type.rows == "nodes") {
    RC_ASSERT(tensor->splits == "node_splits");
    RC_ASSERT(batch.Find("node_splits") != nullptr);
  }
}

TensorsPart PartOf(const RandomGraph& graph, const std::vector<std::string>& outputs,
                   const Pads& pads, Dice& dice) {
  TensorsPart part;
  part.definitions = graph.definitions();
  for (TensorDefinition& definition : part.definitions) {
    const auto place = static_cast<RunPlace>(dice.In(0, 3));
    const bool worker_only = part.operations->Find(definition.operation)->worker_only;
    if (place != RunPlace::kConsumer || !worker_only) definition.at = place;
  }
  part.outputs.emplace();
  for (const std::string& name : outputs) part.outputs->push_back(Dotted(name));
  part.pads = pads.params;
  return part;
}

/// Those that graphs of tensors have: functions of plugins are called before.
std::vector<OperationType> GraphOperations() {
  std::vector<OperationType> operations;
  for (const OperationType& operation : OperationTable::Default().operations()) {
    if (operation.name != kPythonOperation) operations.push_back(operation);
  }
  return operations;
}

TEST_CASE("every operation of the table has a use here", "[tensor_plan]") {
  std::set<std::string> table;
  for (const OperationType& operation : GraphOperations()) table.insert(operation.name);
  std::set<std::string> used;
  for (const auto& entry : Uses()) used.insert(entry.first);
  CHECK(used == table);
}

/// Compares one random graph over one random batch. False if a value could not be computed: then it
/// could not be computed anywhere.
bool CompareGraph(Dice& dice, const LookupTables& tables) {
  static const std::vector<OperationType> operations = GraphOperations();
  const std::vector<OperandRow> examples =
      RandomRows(dice, static_cast<std::size_t>(dice.In(0, 7)));
  RandomGraph graph(dice, Operands(examples), tables);
  for (std::int64_t n = dice.In(2, 9); n > 0; --n) {
    (void)graph.Add(operations[static_cast<std::size_t>(dice.In(0, std::ssize(operations)))]);
  }
  std::vector<std::string> outputs;
  for (const TensorDefinition& definition : graph.definitions()) {
    if (!dice.One(3)) outputs.push_back(definition.name);
  }
  for (const char* const name : {"bytes", "a/wave", "node_feature/x", "weight"}) {
    if (dice.One(4)) outputs.emplace_back(name);
  }
  if (outputs.empty()) return true;
  const Pads pads = RandomPads(dice, graph, outputs);
  const auto plan = TensorPlan::Compile(PartOf(graph, outputs, pads, dice), SourceTensors(),
                                        ExpandSpec{}, tables);
  if (!plan.ok()) RC_FAIL(plan.status().ToString());
  const DType index_dtype = dice.One(2) ? DType::kInt32 : DType::kInt64;
  const auto& consumer = (*plan)->consumer();
  const Delivery delivery = consumer
                                ? Delivery::Make((*plan)->tensors(), *consumer, index_dtype).value()
                                : Delivery(index_dtype);

  BufferPool pool;
  auto writer = BatchWriter::Create(SourceTensors(), ExpandSpec{}, pool).value();
  WriteRows(examples, writer);
  TensorGraphText whole;
  whole.definitions = graph.definitions();
  whole.outputs = outputs;
  const auto scratch = (*plan)->NewScratch();
  if (const Status computed = (*plan)->Compute(writer, *scratch); !computed.ok()) {
    RC_ASSERT(computed.code() == StatusCode::kDataLoss);
    RC_ASSERT(!test::RunGraph(whole, Operands(examples), tables).ok());
    return false;
  }
  const auto packed = (*plan)->Seal(writer, *scratch, pool);
  RC_ASSERT(packed.ok());
  const auto first = static_cast<std::size_t>(dice.In(0, std::ssize(examples) + 1));
  const auto left = static_cast<std::int64_t>(examples.size() - first);
  const auto count = static_cast<std::size_t>(dice.In(0, left + 1));
  bool all = true;
  for (const RowRange range : {RowRange{0, examples.size()}, RowRange{first, count}}) {
    const auto rows = std::span(examples).subspan(range.first, range.count);
    const auto expected = test::RunGraph(whole, Operands(rows), tables);
    const auto batch = Expand(**packed, delivery, pool, range);
    if (!batch.ok() && expected.ok()) RC_FAIL(batch.status().ToString());
    RC_ASSERT(batch.ok() == expected.ok());
    all = all && expected.ok();
    if (!expected.ok()) continue;
    for (const std::string& name : outputs) CheckOutput(**batch, name, expected->at(name), pads);
    NotePlaces(**plan);
  }
  return all;
}

TEST_CASE("every operation gives the same values at worker and consumer, padded or not",
          "[tensor_plan]") {
  const Tensor rows = test::Dense<float>("float32[2]", 256, std::vector<float>(512, 1.25F));
  Ints hundreds(256);
  for (std::size_t i = 0; i < hundreds.size(); ++i) {
    hundreds[i] = 100 * static_cast<std::int64_t>(i);
  }
  const Tensor numbers = test::Dense("int64", 256, hundreds);
  const LookupTables tables = {{"rows", rows.View()}, {"numbers", numbers.View()}};
  Compared().clear();
  int failed = 0;
  rc::prop("in any graph, for any part of any batch", [&] {
    for (int graph = 0; graph < 8; ++graph) {
      Dice dice(*rc::gen::noShrink(rc::gen::arbitrary<std::uint64_t>()));
      if (!CompareGraph(dice, tables)) ++failed;
    }
  });
  // Some values cannot be computed, and then they cannot anywhere.
  CHECK(failed > 0);
  for (const OperationType& operation : GraphOperations()) {
    INFO(operation.name);
    CHECK(Compared()[operation.name].contains("worker"));
    CHECK((operation.worker_only || Compared()[operation.name].contains("consumer")));
  }
}

}  // namespace
}  // namespace millrace
