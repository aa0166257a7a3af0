#include "tests/unit/common/expand/random_program.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <utility>

#include "common/batch/batch_writer.h"
#include "common/operands/operands.h"
#include "common/tensor/dtype_visit.h"

namespace millrace::test {
namespace {

class RandomProgramMaker {
 public:
  RandomProgramMaker(std::uint64_t seed, const RandomProgramOptions& options)
      : random_(seed), options_(options) {}

  RandomProgram Make(BufferPool& pool) {
    const std::int64_t sources = In(1, 5);
    for (std::int64_t i = 0; i < sources; ++i) AddSource(i);
    made_.packed = Pack(pool);
    return MakeProgram();
  }

  RandomProgram MakeOver(const ModelBatch& batch, BufferPool& pool) {
    made_.tensors = Tensors(batch.plan);
    made_.packed = test::Pack(batch, pool);
    return MakeProgram();
  }

 private:
  using Values = std::map<std::string, ParamValue>;
  using Ints = std::vector<std::int64_t>;

  RandomProgram MakeProgram() {
    for (const Operand& operand : OperandsOf(made_.tensors)) {
      made_.text.sources.push_back(operand.source);
    }
    const auto wanted =
        static_cast<std::size_t>(In(1, static_cast<std::int64_t>(options_.definitions) + 1));
    for (std::size_t tries = 0; tries < 4 * wanted; ++tries) {
      if (made_.text.definitions.size() == wanted) break;
      TryDefinition();
    }
    ChooseOutputs();
    return std::move(made_);
  }

  std::int64_t In(std::int64_t begin, std::int64_t end) {
    return begin + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(end - begin));
  }
  bool One(std::int64_t in) { return In(0, in) == 0; }
  DType AnyType() { return static_cast<DType>(In(0, kDTypes)); }

  void AddSource(std::int64_t number) {
    const bool ragged = One(2);
    const bool nodes = ragged && One(3);
    TensorSpec spec;
    spec.path = "s" + std::to_string(number);
    spec.dtype = One(3) ? DType::kUint8 : AnyType();
    spec.dimension = ragged ? (nodes ? "nodes" : spec.path) : "batch";
    spec.expansion = Expansion::kKeep;
    if (IsInteger(spec.dtype)) {
      spec.min = DTypeMin(spec.dtype);
      spec.max = DTypeMax(spec.dtype);
      if (One(2)) spec.expansion = Expansion::kWiden;
    }
    for (std::int64_t axis = In(0, 4); axis > 0; --axis) {
      spec.inner.push_back(static_cast<std::uint64_t>(One(4) ? In(1, 33) : In(1, 9)));
    }
    if (ragged) {
      spec.kind = TensorKind::kRaggedValues;
      spec.splits = spec.path + "_splits";
    }
    made_.tensors.push_back(spec);
    if (!ragged) return;
    TensorSpec splits;
    splits.path = spec.splits;
    splits.kind = TensorKind::kSplits;
    splits.dtype = DType::kUint32;
    splits.max = DTypeMax(splits.dtype);
    splits.dimension = "batch+1";
    made_.tensors.push_back(splits);
  }

  /// Any bits, or numbers near 0; NaNs of every kind too.
  std::uint64_t AnyBits(DType dtype, bool small) {
    if (dtype == DType::kBool) return random_() % 2;
    if (!small) return random_();
    if (IsFloat(dtype)) return ConvertTo(static_cast<double>(In(-3000, 3000)) / 8, dtype);
    return static_cast<std::uint64_t>(In(IsSigned(dtype) ? -1 : 0, 5));
  }

  static std::uint64_t ConvertTo(double value, DType dtype) {
    std::uint64_t bits = 0;
    VisitValues(dtype, [&](auto zero) {
      const auto converted = ConvertValue<decltype(zero)>(value);
      std::memcpy(&bits, &converted, sizeof converted);
    });
    return bits;
  }

  std::shared_ptr<const PackedBatch> Pack(BufferPool& pool) {
    auto writer = BatchWriter::Create(made_.tensors, {}, pool).value();
    const auto rows = static_cast<std::uint32_t>(options_.rows);
    writer.Begin({}, 3, 512, rows);
    std::vector<bool> small;
    for (std::size_t i = 0; i < made_.tensors.size(); ++i) small.push_back(One(2));
    for (std::uint32_t row = 0; row < rows; ++row) {
      for (std::size_t i = 0; i < made_.tensors.size(); ++i) {
        const TensorSpec& spec = made_.tensors[i];
        if (spec.kind == TensorKind::kSplits) continue;
        const std::int64_t units = spec.splits.empty() ? 1 : In(0, options_.longest);
        const std::uint64_t values = static_cast<std::uint64_t>(units) * spec.row_values();
        std::vector<std::byte> bytes;
        for (std::uint64_t v = 0; v < values; ++v) {
          const std::uint64_t bits = AnyBits(spec.dtype, small[i]);
          if (spec.expansion == Expansion::kWiden) {
            writer.AppendOne(i, Sized(bits, spec.dtype));
          } else {
            const auto* const from = reinterpret_cast<const std::byte*>(&bits);
            bytes.insert(bytes.end(), from, from + DTypeSize(spec.dtype));
          }
        }
        if (!bytes.empty()) writer.AppendBytes(i, bytes);
      }
      writer.EndExample(ExampleId(row));
    }
    return writer.Seal().value();
  }

  /// The bits as a number of the type, which a writer can append.
  static std::int64_t Sized(std::uint64_t bits, DType dtype) {
    std::int64_t value = 0;
    VisitValues(dtype, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (std::is_integral_v<T>) {
        // A writer has no uint64 beyond int64.
        value = static_cast<std::int64_t>(
            static_cast<T>(std::is_same_v<T, std::uint64_t> ? bits >> 1 : bits));
      }
    });
    return value;
  }

  /// The graph of everything that is defined.
  Result<TensorGraph> Bound(const TensorDefinition* more = nullptr) const {
    TensorGraphText text = made_.text;
    if (more != nullptr) text.definitions.push_back(*more);
    text.outputs.emplace();
    for (const SourceTensor& source : text.sources) text.outputs->push_back(source.name);
    for (const TensorDefinition& definition : text.definitions) {
      text.outputs->push_back(definition.name);
    }
    return TensorGraph::Bind(text);
  }

  /// A tensor that the next definition can read.
  std::pair<std::string, TensorType> AnyInput() {
    const TensorGraph graph = Bound().value();
    const std::vector<TensorOutput>& all = graph.outputs();
    const auto last = static_cast<std::int64_t>(all.size());
    const TensorOutput& output = all[static_cast<std::size_t>(In(0, last))];
    TensorType type = graph.nodes()[output.node].type;
    for (const SourceTensor& source : made_.text.sources) {
      if (source.name == output.name && source.widened) type.dtype = DType::kInt64;
    }
    return {output.name, type};
  }

  void TryDefinition() {
    const auto [input, type] = AnyInput();
    TensorDefinition definition = AnyOperation(input, type);
    definition.name = "t" + std::to_string(made_.text.definitions.size());
    const Result<TensorGraph> graph = Bound(&definition);
    if (!graph.ok()) return;
    for (const TensorNode& node : graph->nodes()) {
      if (node.type.UnitElements() > 4000) return;
    }
    made_.text.definitions.push_back(std::move(definition));
  }

  TensorDefinition AnyOperation(const std::string& input, const TensorType& type) {
    TensorDefinition made{"", "", {input}};
    Values params;
    const auto first = static_cast<std::int64_t>(type.ragged ? 2 : 1);
    const auto axes = static_cast<std::int64_t>(type.inner.size());
    const std::int64_t axis = axes == 0 ? 0 : In(0, axes);
    const std::int64_t extent = axes == 0 ? 1 : type.inner[static_cast<std::size_t>(axis)];
    switch (In(0, options_.host_operations ? 13 : 10)) {
      case 0:
        made.operation = "bits";
        params["order"] = std::string(One(2) ? "lsb" : "msb");
        break;
      case 1: {
        const std::int64_t a = In(0, extent);
        made.operation = "slice";
        params["range"] = Ints{a - extent, In(a + 1, extent + 1)};
        params["axis"] = first + axis;
        break;
      }
      case 2:
        made.operation = "slice";  // of rows, if they are ragged
        params["range"] = Ints{In(-4, 4), In(-4, 6)};
        break;
      case 3: {
        made.operation = "take";
        params["axis"] = first + axis;
        Ints index(static_cast<std::size_t>(In(1, 12)));
        for (std::int64_t& place : index) place = In(-extent, extent);
        if (One(4)) {
          params["index"] = index.front();
        } else {
          params["index"] = index;
        }
        break;
      }
      case 4:
        made.operation = "reshape";
        params["shape"] = One(2) ? Ints{-1} : Ints{1, -1, 1};
        break;
      case 5: {
        made.operation = "transpose";
        Ints all(static_cast<std::size_t>(first + axes));
        std::iota(all.begin(), all.end(), 0);
        std::shuffle(all.begin() + first, all.end(), random_);
        params["axes"] = all;
        break;
      }
      case 6:
        made.operation = "view";
        params["dtype"] = std::string(DTypeName(AnyType()));
        break;
      case 7:
        made.operation = "one_hot";
        params["depth"] = options_.wrong_values && One(3) ? In(1, 9) : In(256, 300);
        if (!options_.wrong_values)
          made.operation = type.dtype == DType::kUint8 ? "one_hot" : "length";
        if (made.operation == "length") params.clear();
        break;
      case 8:
        made.operation = "length";
        break;
      case 9:
        made.operation = "cast";
        params["dtype"] = std::string(DTypeName(AnyType()));
        break;
      case 10:
        made.operation = "expr";
        params["expr"] = input + " * 2 + 1";
        break;
      case 11:
        made.operation = "stack";
        params["axis"] = first;
        made.inputs.push_back(input);
        break;
      default:
        made.operation = "concat";
        made.inputs.push_back(input);
        break;
    }
    if (made.operation != "view") AddValues(params, type);
    made.params = Params(std::move(params));
    return made;
  }

  /// Scale, offset and dtype, now and then. Those that do not suit the tensor make no definition.
  void AddValues(Values& params, const TensorType& type) {
    if (One(2)) return;
    if (!params.contains("dtype") && One(2)) params["dtype"] = std::string(DTypeName(AnyType()));
    const auto last = static_cast<std::size_t>(type.inner.empty() ? 1 : type.inner.back());
    for (const char* const name : {"scale", "offset"}) {
      if (One(2)) continue;
      std::vector<ParamNumber> numbers;
      for (std::size_t i = 0; i < (One(2) ? 1 : last); ++i) {
        numbers.push_back(One(2) ? ParamNumber(static_cast<double>(In(-40, 40)) / 16)
                                 : ParamNumber(In(-1, 4)));
      }
      if (numbers.size() > 1 || One(8)) {
        params[name] = numbers;
      } else if (const auto* const whole = std::get_if<std::int64_t>(&numbers[0])) {
        params[name] = *whole;
      } else {
        params[name] = std::get<double>(numbers[0]);
      }
    }
  }

  void ChooseOutputs() {
    const TensorGraph graph = Bound().value();
    made_.text.outputs.emplace();
    for (const TensorOutput& output : graph.outputs()) {
      const bool defined = output.name.front() == 't';
      if (!One(defined ? 2 : 4)) continue;
      made_.text.outputs->push_back(output.name);
      if (!graph.nodes()[output.node].type.ragged || One(2)) continue;
      Values params;
      if (One(2)) params["value"] = In(0, 2);
      if (One(2)) params["multiple"] = In(1, 4);
      if (One(3)) params["to"] = 12 * In(options_.wrong_values && One(3) ? 0 : 4, 5) + 12;
      made_.text.pads[output.name] = Params(std::move(params));
      if (!TensorGraph::Bind(made_.text).ok()) made_.text.pads.erase(output.name);  // node numbers
    }
    if (made_.text.outputs->empty()) made_.text.outputs->push_back(graph.outputs().back().name);
  }

  std::mt19937_64 random_;
  const RandomProgramOptions options_;
  RandomProgram made_;
};

}  // namespace

RandomProgram MakeRandomProgram(std::uint64_t seed, BufferPool& pool,
                                const RandomProgramOptions& options) {
  return RandomProgramMaker(seed, options).Make(pool);
}

RandomProgram MakeRandomProgram(std::uint64_t seed, const ModelBatch& batch, BufferPool& pool,
                                const RandomProgramOptions& options) {
  return RandomProgramMaker(seed, options).MakeOver(batch, pool);
}

Result<Delivery> PaddedDelivery(const RandomProgram& program, DType index_dtype,
                                const GraphPad& pad) {
  ConsumerProgram padded = program.text;
  padded.graph_pad = pad;
  padded.source_tensors = (pad.nodes + pad.edges + pad.graphs) % (program.tensors.size() + 1);
  return Delivery::Make(program.tensors, std::move(padded), index_dtype);
}

std::string Describe(const RandomProgram& program) {
  std::string text;
  for (const SourceTensor& source : program.text.sources) {
    text += source.name + ": " + DescribeTensorType(source.type) + "\n";
  }
  for (const TensorDefinition& definition : program.text.definitions) {
    text += definition.name + ": " + definition.operation + " " + definition.inputs[0] + " " +
            ParamsKey(definition.params) + "\n";
  }
  for (const std::string& output : *program.text.outputs) {
    text += output + (program.text.pads.contains(output) ? " (padded) " : " ");
  }
  return text;
}

}  // namespace millrace::test
