#include "server/plan/tensors/tensor_plan.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/batch/batch_frame.h"
#include "common/batch/layout/tensor_table.h"
#include "common/operands/graph_of_tensors.h"
#include "server/plan/tensors/pack_outputs.h"

namespace millrace {
namespace {

constexpr std::string_view kSplitsSuffix = "_splits";

bool IsSplits(const std::vector<TensorSpec>& tensors, std::string_view name) {
  const auto found = FindTensor(tensors, name);
  return found && tensors[*found].kind == TensorKind::kSplits;
}

/// The splits that cut rows of this name: nodes or edges.
std::string SplitsOfRows(const std::vector<TensorSpec>& tensors, std::string_view rows) {
  for (const TensorSpec& tensor : tensors) {
    if (tensor.dimension == rows && !tensor.splits.empty()) return tensor.splits;
  }
  return {};
}

/// Whether a tensor has a row for each example or graph, so that no splits cut it.
bool IsDense(const TensorType& type) {
  return !type.ragged && (type.rows == TensorType().rows || type.rows == kGraphsDimension);
}

/// How a computed tensor travels: as it is.
TensorSpec ComputedSpec(const std::string& name, const TensorType& type) {
  TensorSpec spec;
  spec.path = name;
  spec.dtype = type.dtype;
  spec.inner.assign(type.inner.begin(), type.inner.end());
  spec.dimension = type.ragged ? name : type.rows;
  spec.kind = IsDense(type) ? TensorKind::kDense : TensorKind::kRaggedValues;
  if (type.ragged) spec.splits = name + std::string(kSplitsSuffix);
  if (IsInteger(type.dtype)) {
    spec.min = DTypeMin(type.dtype);
    spec.max = DTypeMax(type.dtype);
  }
  spec.expansion = Expansion::kKeep;
  return spec;
}

TensorSpec SplitsSpec(std::string name) {
  TensorSpec spec;
  spec.path = std::move(name);
  spec.kind = TensorKind::kSplits;
  spec.dtype = DType::kUint32;
  spec.dimension = "batch+1";
  spec.max = DTypeMax(DType::kUint32);
  return spec;
}

/// The edges of the graphs that `pad.graph` pads. An error begins with "graph: ".
Result<EdgeGroup> PaddedGraph(const std::vector<TensorSpec>& source) {
  for (const TensorSpec& tensor : source) {
    if (!GraphPad::IsMask(tensor.path)) continue;
    return InvalidArgument(
        fmt::format("graph: the source has a tensor {0}, and pad.graph delivers another {0}; "
                    "expected a source without a tensor of this name",
                    tensor.path));
  }
  return GraphOfTensors(source);
}

/// The parameters by which an output is padded. A pipeline writes `.` for `/` in its name.
const Params& PadOf(const std::map<std::string, Params>& pads, const std::string& output) {
  return std::find_if(pads.begin(), pads.end(),
                      [&](const auto& pad) {
                        return std::equal(
                            pad.first.begin(), pad.first.end(), output.begin(), output.end(),
                            [](char a, char b) { return a == b || (a == '.' && b == '/'); });
                      })
      ->second;
}

/// A definition that gives `input` another name.
TensorDefinition Alias(const std::string& name, const std::string& input, DType dtype) {
  return {name, "cast", {input}, Params({{"dtype", std::string(DTypeName(dtype))}})};
}

}  // namespace

Result<std::shared_ptr<const TensorPlan>> TensorPlan::Compile(const TensorsPart& part,
                                                              const std::vector<TensorSpec>& source,
                                                              const ExpandSpec& expand,
                                                              const LookupTables& tables) {
  std::shared_ptr<TensorPlan> plan(new TensorPlan());
  plan->source_ = source;
  plan->operations_ = part.operations;
  plan->operands_ = OperandsOf(plan->source_);
  std::vector<bool> chosen(source.size(), false);
  TensorGraphText text{{}, part.definitions, part.outputs, part.pads};
  for (const Operand& operand : plan->operands_) text.sources.push_back(operand.source);
  const auto located = [&](const Status& status) { return AtOrigin(part, status); };
  for (const TensorDefinition& definition : part.definitions) {
    if (!IsSplits(source, definition.name)) continue;
    return located(InvalidArgument(definition.name + ": the source has a tensor of this name"));
  }
  if (part.graph_pad && expand.merged) {
    return located(InvalidArgument(
        "graph: a batch is one graph, which is not padded yet; expected `closure: {merge: false}` "
        "beside pad.graph"));
  }
  if (part.graph_pad) {
    const Result<EdgeGroup> padded = PaddedGraph(source);
    if (!padded.ok()) return located(padded.status());
    chosen[padded->splits] = true;  // brings the edges, and what cuts nodes
  }
  if (text.outputs) {
    // Splits are part of what they cut; a user may name them nevertheless. So it is with masks.
    std::erase_if(*text.outputs, [&](const std::string& name) {
      if (part.graph_pad && GraphPad::IsMask(name)) return true;
      if (!IsSplits(source, name)) return false;
      chosen[*FindTensor(source, name)] = true;
      return true;
    });
  }
  MILLRACE_RETURN_IF_ERROR(located(CompletePack(part, tables, text)));
  Result<TensorGraph> graph = TensorGraph::Bind(text, *part.operations, tables);
  if (!graph.ok()) return located(graph.status());
  plan->graph_ = *std::move(graph);
  for (const TensorOutput& output : plan->graph_.outputs()) {
    if (output.pad && output.pad->needs_bound()) plan->padded_to_bound_ = output.name;
  }
  Result<TransferCut> transfer_cut = FindTransferCut(plan->graph_);
  if (!transfer_cut.ok()) return located(transfer_cut.status());
  plan->cut_ = *std::move(transfer_cut);
  if (Status status = plan->Travel(chosen); !status.ok()) return located(status);
  Result<std::vector<EdgeGroup>> edges = CheckTensors(plan->tensors_, expand);
  if (!edges.ok()) return located(edges.status().WithContext("output"));
  plan->edges_ = *std::move(edges);
  plan->MakeConsumer(part, text.pads);
  return std::shared_ptr<const TensorPlan>(std::move(plan));
}

Status TensorPlan::Travel(const std::vector<bool>& chosen_splits) {
  const std::vector<TensorNode>& nodes = graph_.nodes();
  std::vector<bool> chosen = chosen_splits;
  std::vector<ProgramOutput> computed;
  std::set<std::string> cut;  // splits of computed tensors
  for (const std::size_t node : cut_.tensors) {
    if (nodes[node].operation == nullptr) {
      chosen[*FindTensor(source_, nodes[node].name)] = true;
      continue;
    }
    computed.push_back({node});
    const std::string splits = SplitsOfRows(source_, nodes[node].type.rows);
    if (splits.empty()) continue;
    chosen[*FindTensor(source_, splits)] = true;
    cut.insert(splits);
  }
  chosen = WithCompanions(source_, std::move(chosen));
  AddNumberedNodes(cut, chosen);
  for (std::size_t i = 0; i < source_.size(); ++i) {
    if (!chosen[i]) continue;
    tensors_.push_back(source_[i]);
    origins_.push_back({Origin::Kind::kSource, i});
  }
  std::sort(computed.begin(), computed.end(), [&](const ProgramOutput& a, const ProgramOutput& b) {
    return nodes[a.node].name < nodes[b.node].name;
  });
  std::vector<std::size_t> inputs;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    if (nodes[node].operation != nullptr) continue;
    const auto operand = std::find_if(operands_.begin(), operands_.end(), [&](const Operand& o) {
      return o.source.name == nodes[node].name;
    });
    inputs.push_back(node);
    inputs_.push_back(*operand);
  }
  program_ = Program::Compile(graph_, inputs, computed);
  for (const ProgramOutput& output : computed) MILLRACE_RETURN_IF_ERROR(AddComputed(output.node));
  return OkStatus();
}

void TensorPlan::AddNumberedNodes(const std::set<std::string>& cut, std::vector<bool>& chosen) {
  for (std::size_t numbers = 0; numbers < source_.size(); ++numbers) {
    const std::string& splits = source_[numbers].node_splits;
    if (!chosen[numbers] || splits.empty() || cut.contains(splits)) continue;
    std::optional<std::size_t> narrowest;
    bool cuts = false;
    for (std::size_t i = 0; i < source_.size(); ++i) {
      if (source_[i].splits != splits) continue;
      cuts = cuts || chosen[i];
      if (!narrowest || source_[i].row_bytes() < source_[*narrowest].row_bytes()) narrowest = i;
    }
    if (cuts || !narrowest) continue;
    chosen[*narrowest] = true;
    travels_unasked_ = true;
  }
}

Status TensorPlan::AddComputed(std::size_t node) {
  const TensorNode& made = graph_.nodes()[node];
  TensorSpec spec = ComputedSpec(made.name, made.type);
  if (!made.type.ragged && !IsDense(made.type)) {
    spec.splits = SplitsOfRows(source_, made.type.rows);
  }
  const std::size_t number = static_cast<std::size_t>(
      std::count_if(origins_.begin(), origins_.end(),
                    [](const Origin& origin) { return origin.kind == Origin::Kind::kValues; }));
  const bool ragged = made.type.ragged;
  const std::string splits = spec.splits;
  for (const std::string& name : {spec.path, ragged ? splits : spec.path}) {
    if (FindTensor(tensors_, name)) {
      return InvalidArgument(
          fmt::format("{}: a tensor that travels beside it is called {} too; choose another name",
                      made.name, name));
    }
  }
  tensors_.push_back(std::move(spec));
  origins_.push_back({Origin::Kind::kValues, number});
  if (ragged) {
    tensors_.push_back(SplitsSpec(splits));
    origins_.push_back({Origin::Kind::kSplits, number});
  }
  return OkStatus();
}

void TensorPlan::MakeConsumer(const TensorsPart& part, const std::map<std::string, Params>& pads) {
  const std::vector<TensorNode>& nodes = graph_.nodes();
  std::vector<bool> travels(nodes.size(), false);
  for (const std::size_t node : cut_.tensors) travels[node] = true;
  TensorGraphText text;
  text.outputs.emplace();
  std::set<std::string> defined;
  const auto define = [&](const std::string& name, std::size_t number) {
    const TensorNode& node = nodes[number];
    if (!defined.insert(name).second) return;
    TensorDefinition definition{name, node.operation->name, {}, node.params};
    for (const std::size_t input : node.inputs) {
      // What is widened has the name of the source's tensor, and is widened there too.
      definition.inputs.push_back(nodes[input].name);
    }
    text.definitions.push_back(std::move(definition));
  };
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    if (!cut_.at_consumer[node] || nodes[node].implicit) continue;
    define(nodes[node].name, node);
  }
  for (const TensorOutput& output : graph_.outputs()) {
    const TensorNode& node = nodes[output.node];
    text.outputs->push_back(output.name);
    if (output.pad) text.pads.emplace(output.name, PadOf(pads, output.name));
    if (output.name == node.name) continue;
    if (travels[output.node]) {
      if (defined.insert(output.name).second) {
        text.definitions.push_back(Alias(output.name, node.name, node.type.dtype));
      }
    } else {
      define(output.name, output.node);
    }
  }
  std::sort(text.definitions.begin(), text.definitions.end(),
            [](const TensorDefinition& a, const TensorDefinition& b) { return a.name < b.name; });
  // Otherwise every output travels, and nothing else does.
  if (text.definitions.empty() && text.pads.empty() && !travels_unasked_ && !part.graph_pad) return;
  consumer_ = std::move(text);
  consumer_->graph_pad = part.graph_pad;
  consumer_->source_tensors = static_cast<std::size_t>(
      std::count_if(origins_.begin(), origins_.end(),
                    [](const Origin& origin) { return origin.kind == Origin::Kind::kSource; }));
}

std::string TensorPlan::CutAs(const PackTensors& rows) const {
  if (FindTensor(tensors_, rows.tensor)) return rows.tensor;
  const std::vector<bool> alike = CutAsRows(graph_, rows);
  for (const std::size_t node : cut_.tensors) {
    if (alike[node]) return graph_.nodes()[node].name;
  }
  return {};
}

std::string TokenTensorOf(const SourceFacts& source, const TensorPlan* computed) {
  if (source.token_tensor.empty() || computed == nullptr) return source.token_tensor;
  PackTensors rows = source.packed.value_or(PackTensors());
  rows.tensor = source.token_tensor;
  return computed->CutAs(rows);
}

std::uint64_t TensorPlan::MaxExampleBytes(std::uint64_t source_bytes) const {
  std::uint64_t bytes = source_bytes;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (origins_[i].kind == Origin::Kind::kSource) continue;
    if (!tensors_[i].splits.empty()) return 0;
    if (__builtin_add_overflow(bytes, tensors_[i].row_bytes(), &bytes)) return source_bytes;
  }
  return source_bytes == 0 ? 0 : bytes;
}

std::unique_ptr<TensorPlan::Scratch> TensorPlan::NewScratch() const {
  return std::make_unique<Scratch>(source_, inputs_);
}

Status TensorPlan::Compute(const BatchWriter& writer, Scratch& scratch,
                           ProgramObserver* observer) const {
  MILLRACE_RETURN_IF_ERROR(writer.CheckComplete());
  scratch.computed_.resize(origins_.size());
  ProgramRun run;
  run.observer = observer;
  run.room = [&](std::size_t output, const TensorView& tensor) -> Result<std::span<std::byte>> {
    if (tensor.units() > std::numeric_limits<std::uint32_t>::max()) {
      return OutOfRange(fmt::format("a batch with {} rows: expected at most {}", tensor.units(),
                                    std::numeric_limits<std::uint32_t>::max()));
    }
    Scratch::Computed& computed = scratch.computed_[output];
    computed.bytes = tensor.units() * tensor.type->UnitBytes();
    computed.words.resize((computed.bytes + 7) / 8);
    computed.splits.assign(tensor.splits.begin(), tensor.splits.end());
    return std::span(reinterpret_cast<std::byte*>(computed.words.data()), computed.bytes);
  };
  const Status status = program_.Run(scratch.views_.Of(writer), run, scratch.memory_);
  return status.ok() ? status : ErrorOfBatch(writer.info(), status);
}

bool TensorPlan::Reads(std::size_t source_tensor) const {
  return std::any_of(inputs_.begin(), inputs_.end(),
                     [&](const Operand& input) { return input.tensor == source_tensor; });
}

std::span<const std::byte> TensorPlan::ValuesOf(std::size_t tensor, const BatchWriter& writer,
                                                const Scratch& scratch) const {
  const Origin& origin = origins_[tensor];
  if (origin.kind == Origin::Kind::kSource) return writer.values(origin.number);
  const Scratch::Computed& computed = scratch.computed_[origin.number];
  if (origin.kind == Origin::Kind::kSplits) return std::as_bytes(std::span(computed.splits));
  return {reinterpret_cast<const std::byte*>(computed.words.data()), computed.bytes};
}

Result<std::shared_ptr<const PackedBatch>> TensorPlan::Seal(const BatchWriter& writer,
                                                            const Scratch& scratch,
                                                            BufferPool& pool) const {
  std::vector<TensorPlace> places(tensors_.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    places[i].spec = tensors_[i];
    const bool of_source = origins_[i].kind == Origin::Kind::kSource;
    places[i].bytes =
        of_source ? writer.bytes(origins_[i].number) : ValuesOf(i, writer, scratch).size();
    places[i].rows = places[i].bytes / tensors_[i].row_bytes();
  }
  MILLRACE_ASSIGN_OR_RETURN(BatchFrame frame,
                            BatchFrame::Make(writer.info(), std::move(places), edges_, pool));
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (origins_[i].kind == Origin::Kind::kSource) {
      MILLRACE_RETURN_IF_ERROR(writer.WriteValues(origins_[i].number, frame, i));
      continue;
    }
    const std::span<const std::byte> from = ValuesOf(i, writer, scratch);
    if (!from.empty()) std::memcpy(frame.room(i).data(), from.data(), from.size());
  }
  return frame.Finish();
}

}  // namespace millrace
