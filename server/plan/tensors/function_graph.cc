#include "server/plan/tensors/function_graph.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/tensor/tensor_word.h"
#include "server/plan/tensors/pack_outputs.h"

namespace millrace {
namespace {

constexpr std::string_view kLengthOf = ".length";

/// Puts together what a graph is made of, and the names of what calls read.
class FunctionText {
 public:
  FunctionText(const TensorsPart& others, std::span<const FunctionCall> calls,
               std::span<const Operand> operands)
      : pack_(others.pack) {
    for (const TensorDefinition& definition : others.definitions) {
      definitions_.emplace(definition.name, &definition);
    }
    for (const Operand& operand : operands) AddSource(operand.source);
    for (const FunctionCall& call : calls) {
      for (std::size_t i = 0; i < call.paths.size(); ++i) {
        AddSource({call.paths[i], call.function.outputs[i].type});
      }
    }
    text_.outputs.emplace();
  }

  /// Adds what a call reads, with all that it is computed of. Returns its name in the graph.
  Result<std::string> AddInput(const FunctionCall& call, std::size_t number) {
    const std::string name = DottedName(call.function.inputs[number].tensor);
    MILLRACE_RETURN_IF_ERROR(Require(call, name));
    std::string read = name;
    if (const auto found = sources_.find(name); found != sources_.end()) {
      const SourceTensor& source = text_.sources[found->second];
      if (!source.unreadable.empty()) {
        return InvalidArgument(
            fmt::format("{}: inputs: no operation can read {}", call.tensor, source.unreadable));
      }
      read = source.name;
      if (source.widened) {
        read = fmt::format("{}._as_read", name);
        if (defined_.insert(read).second) {
          text_.definitions.push_back(
              {read, "cast", {source.name}, Params({{"dtype", std::string("int64")}})});
        }
      }
    }
    if (outputs_.insert(read).second) text_.outputs->push_back(read);
    return read;
  }

  TensorGraphText Take() { return std::move(text_); }

 private:
  void AddSource(SourceTensor tensor) {
    sources_.emplace(DottedName(tensor.name), text_.sources.size());
    text_.sources.push_back(std::move(tensor));
  }

  const TensorDefinition* Find(std::string_view name) const {
    const auto found = definitions_.find(name);
    return found == definitions_.end() ? nullptr : found->second;
  }

  /// Adds the definitions that a tensor needs. An error if there is no such tensor.
  Status Require(const FunctionCall& call, std::string_view name) {
    if (sources_.contains(std::string(name))) return OkStatus();
    if (const TensorDefinition* const definition = Find(name)) {
      if (!defined_.insert(definition->name).second) return OkStatus();
      text_.definitions.push_back(*definition);
      for (const std::string& input : definition->inputs) {
        MILLRACE_RETURN_IF_ERROR(Require(call, DottedName(input)));
      }
      return OkStatus();
    }
    if (auto definition = pack_ ? PackDefinition(name, *pack_) : std::nullopt) {
      if (!defined_.insert(definition->name).second) return OkStatus();
      for (const std::string& input : definition->inputs) {
        MILLRACE_RETURN_IF_ERROR(Require(call, input));
      }
      text_.definitions.push_back(*std::move(definition));
      return OkStatus();
    }
    if (name.ends_with(kLengthOf)) {
      return Require(call, name.substr(0, name.size() - kLengthOf.size()));
    }
    return InvalidArgument(fmt::format("{}: inputs: there is no tensor '{}'", call.tensor, name));
  }

  const std::optional<PackTensors>& pack_;
  std::map<std::string, const TensorDefinition*, std::less<>> definitions_;
  TensorGraphText text_;
  std::map<std::string, std::size_t> sources_;  // by dotted names
  std::set<std::string> defined_;
  std::set<std::string> outputs_;
};

std::optional<std::size_t> NodeNamed(const TensorGraph& graph, const std::string& path) {
  for (std::size_t node = 0; node < graph.nodes().size(); ++node) {
    const TensorNode& one = graph.nodes()[node];
    if (one.operation == nullptr && one.name == path) return node;
  }
  return std::nullopt;
}

}  // namespace

Result<FunctionGraph> FunctionGraph::Bind(const TensorsPart& others,
                                          std::span<const FunctionCall> calls,
                                          const std::vector<TensorSpec>& source,
                                          const LookupTables& tables) {
  FunctionGraph bound;
  bound.source_ = source;
  const std::vector<Operand> operands = OperandsOf(bound.source_);
  FunctionText text(others, calls, operands);
  std::vector<std::vector<std::string>> names;
  for (const FunctionCall& call : calls) {
    std::vector<std::string>& own = names.emplace_back();
    for (std::size_t i = 0; i < call.function.inputs.size(); ++i) {
      Result<std::string> name = text.AddInput(call, i);
      if (!name.ok()) return AtOrigin(others, name.status());
      own.push_back(*std::move(name));
    }
  }
  Result<TensorGraph> graph = TensorGraph::Bind(text.Take(), *others.operations, tables);
  if (!graph.ok()) return AtOrigin(others, graph.status());
  bound.graph_ = *std::move(graph);
  for (const Operand& operand : operands) {
    const auto node = NodeNamed(bound.graph_, operand.source.name);
    if (!node) continue;
    bound.operands_.push_back(operand);
    bound.operand_nodes_.push_back(*node);
  }
  std::map<std::string, std::size_t> outputs;
  for (const TensorOutput& output : bound.graph_.outputs()) {
    outputs.emplace(DottedName(output.name), output.node);
  }
  for (std::size_t c = 0; c < calls.size(); ++c) {
    Call call;
    for (const std::string& name : names[c]) {
      const std::size_t node = outputs.at(DottedName(name));
      const TensorType& type = bound.graph_.nodes()[node].type;
      if (type.rows != TensorType().rows) {
        return AtOrigin(others, InvalidArgument(fmt::format(
                                    "{}: inputs: '{}' is {}; a function gets tensors with a row "
                                    "for each example",
                                    calls[c].tensor, name, DescribeTensorType(type))));
      }
      call.inputs.push_back(node);
    }
    for (const std::string& path : calls[c].paths) {
      call.nodes.push_back(NodeNamed(bound.graph_, path));
      call.is_read = call.is_read || call.nodes.back();
    }
    MILLRACE_RETURN_IF_ERROR(bound.AddProgram(call));
    bound.calls_.push_back(std::move(call));
  }
  return bound;
}

Status FunctionGraph::AddProgram(Call& call) const {
  const std::vector<TensorNode>& nodes = graph_.nodes();
  std::vector<bool> needed(nodes.size(), false);
  std::vector<ProgramOutput> outputs;
  for (const std::size_t input : call.inputs) {
    if (nodes[input].operation == nullptr || needed[input]) continue;
    needed[input] = true;
    outputs.push_back({input});
    call.program_makes.push_back(input);
  }
  if (outputs.empty()) return OkStatus();
  for (std::size_t node = nodes.size(); node-- > 0;) {
    if (!needed[node]) continue;
    for (const std::size_t input : nodes[node].inputs) needed[input] = true;
  }
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    if (needed[node] && nodes[node].operation == nullptr) call.program_reads.push_back(node);
  }
  call.program = Program::Compile(graph_, call.program_reads, outputs);
  return OkStatus();
}

std::vector<TensorType> FunctionGraph::InputTypes(std::size_t call) const {
  std::vector<TensorType> types;
  for (const std::size_t node : calls_[call].inputs) types.push_back(graph_.nodes()[node].type);
  return types;
}

FunctionGraph::Run::Run(const FunctionGraph& graph)
    : graph_(graph),
      operands_(graph.source_, graph.operands_),
      made_(graph.calls_.size()),
      views_(graph.graph_.nodes().size()),
      computed_(graph.calls_.size()),
      memories_(graph.calls_.size()) {
  for (std::size_t c = 0; c < graph.calls_.size(); ++c) {
    made_[c].resize(graph.calls_[c].nodes.size());
    computed_[c].resize(graph.calls_[c].program_makes.size());
  }
}

void FunctionGraph::Run::Begin(const BatchWriter& examples) {
  rows_ = examples.info().example_ids.size();
  const std::span<const TensorView> views = operands_.Of(examples);
  for (std::size_t i = 0; i < views.size(); ++i) {
    TensorView& view = views_[graph_.operand_nodes_[i]];
    view = views[i];
    view.type = &graph_.graph_.nodes()[graph_.operand_nodes_[i]].type;
  }
}

Result<std::span<const TensorView>> FunctionGraph::Run::Inputs(std::size_t number) {
  const Call& call = graph_.calls_[number];
  if (call.program) {
    inputs_.clear();
    for (const std::size_t node : call.program_reads) inputs_.push_back(views_[node]);
    ProgramRun run;
    run.room = [&](std::size_t output, const TensorView& tensor) -> Result<std::span<std::byte>> {
      Made& made = computed_[number][output];
      made.bytes = tensor.units() * tensor.type->UnitBytes();
      made.words.resize((made.bytes + 7) / 8);
      made.splits.assign(tensor.splits.begin(), tensor.splits.end());
      const std::span room(reinterpret_cast<std::byte*>(made.words.data()), made.bytes);
      const std::size_t node = call.program_makes[output];
      views_[node] = {&graph_.graph_.nodes()[node].type, tensor.rows, room, made.splits};
      return room;
    };
    MILLRACE_RETURN_IF_ERROR(call.program->Run(inputs_, run, memories_[number]));
  }
  inputs_.clear();
  for (const std::size_t node : call.inputs) inputs_.push_back(views_[node]);
  return std::span<const TensorView>(inputs_);
}

void FunctionGraph::Run::SetMade(std::size_t number) {
  const Call& call = graph_.calls_[number];
  for (std::size_t i = 0; i < call.nodes.size(); ++i) {
    if (!call.nodes[i]) continue;
    const Made& made = made_[number][i];
    views_[*call.nodes[i]] = {&graph_.graph_.nodes()[*call.nodes[i]].type, rows_,
                              std::as_bytes(std::span(made.words)).first(made.bytes), made.splits};
  }
}

}  // namespace millrace
