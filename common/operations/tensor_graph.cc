#include "common/operations/tensor_graph.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "common/tensor/tensor_word.h"

namespace millrace {
namespace {

constexpr std::string_view kLength = ".length";
// Definitions that need one another, one after another. Binding goes as deep into the stack.
constexpr std::size_t kMaxDepth = 500;

/// Words of letters, digits and _, joined by dots.
bool IsTensorName(std::string_view name) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  bool begins = true;
  for (const char c : name) {
    if (begins ? !is_letter(c) : !is_letter(c) && c != '.' && !(c >= '0' && c <= '9')) return false;
    begins = c == '.';
  }
  return !begins;
}

}  // namespace

/// Binds a graph: names become numbers of nodes, from outputs to sources.
class TensorGraphBinder {
 public:
  TensorGraphBinder(const TensorGraphText& text, const OperationTable& table,
                    const LookupTables& tables)
      : text_(text), table_(table), tables_(tables) {}

  Result<TensorGraph> Bind() {
    MILLRACE_RETURN_IF_ERROR(AddNames());
    // Everything is bound, so that an error in what no output needs is found too.
    for (const auto& [name, definition] : definitions_) {
      MILLRACE_RETURN_IF_ERROR(NodeOf(name, name).status());
    }
    MILLRACE_RETURN_IF_ERROR(AddOutputs());
    DropUnused();
    return std::move(graph_);
  }

 private:
  Status AddNames() {
    for (const SourceTensor& source : text_.sources) {
      TensorNode node{source.name, nullptr, {}, RunPlace::kAny, source.type, {}};
      const std::size_t number = graph_.nodes_.size();
      if (!numbers_.emplace(DottedName(source.name), number).second) {
        return InvalidArgument(source.name + ": the source has two tensors of this name");
      }
      graph_.nodes_.push_back(std::move(node));
      if (!source.unreadable.empty()) unreadable_.emplace(number, source.unreadable);
    }
    for (std::size_t i = 0; i < text_.sources.size(); ++i) {
      if (text_.sources[i].widened) MILLRACE_RETURN_IF_ERROR(AddWidened(i));
    }
    for (const TensorDefinition& definition : text_.definitions) {
      const std::string& name = definition.name;
      if (!IsTensorName(name)) {
        return InvalidArgument(name + ": a name is a word of letters, digits and _");
      }
      if (numbers_.contains(name)) {
        return InvalidArgument(name + ": the source has a tensor of this name");
      }
      if (!definitions_.emplace(name, &definition).second) {
        return InvalidArgument(name + ": is defined twice");
      }
      // A user has not written those of packed rows: what they read is delivered nevertheless.
      const OperationType* const operation = table_.Find(definition.operation);
      if (operation != nullptr && operation->of_rows) continue;
      for (const std::string& input : definition.inputs) read_.insert(DottedName(input));
    }
    return OkStatus();
  }

  /// Adds what operations read in place of source tensor `source`.
  Status AddWidened(std::size_t source) {
    if (table_.Find("cast") == nullptr) return OkStatus();
    if (graph_.nodes_[source].type.dtype == DType::kInt64) {
      widened_.emplace(source, source);
      return OkStatus();
    }
    MILLRACE_ASSIGN_OR_RETURN(const std::size_t node, Widen(source, DType::kInt64));
    widened_.emplace(source, node);
    return OkStatus();
  }

  /// Adds a node with source tensor `source` as `dtype`.
  Result<std::size_t> Widen(std::size_t source, DType dtype) {
    TensorNode node{
        graph_.nodes_[source].name, table_.Find("cast"), {source}, RunPlace::kAny, {}, {}};
    MILLRACE_ASSIGN_OR_RETURN(
        node.bound, BindOperation(*node.operation, std::span(&graph_.nodes_[source].type, 1),
                                  Params({{"dtype", std::string(DTypeName(dtype))}})));
    node.type = node.bound.output;
    node.implicit = true;
    graph_.nodes_.push_back(std::move(node));
    return graph_.nodes_.size() - 1;
  }

  /// What operations read under the name of this node.
  Result<std::size_t> OperandOf(std::size_t node, const std::string& reader) const {
    if (const auto why = unreadable_.find(node); why != unreadable_.end()) {
      return InvalidArgument(fmt::format("{}: no operation can read {}", reader, why->second));
    }
    const OperationType* const operation = graph_.nodes_[node].operation;
    if (operation != nullptr && operation->of_rows && !IsIndex(*operation)) {
      return InvalidArgument(
          fmt::format("{}: no operation can read {}: it is made when a batch is delivered", reader,
                      operation->name));
    }
    const auto widened = widened_.find(node);
    return widened == widened_.end() ? node : widened->second;
  }

  /// The node that an operation of packed rows reads: the source's tensor as it travels.
  Result<std::size_t> TravellingOf(std::size_t node, const std::string& reader) const {
    MILLRACE_RETURN_IF_ERROR(OperandOf(node, reader).status());
    if (graph_.nodes_[node].operation == nullptr) return node;
    return InvalidArgument(
        fmt::format("{}: {} is no tensor of the source", reader, graph_.nodes_[node].name));
  }

  /// Whether the values of an operation of packed rows have the session's index type.
  static bool IsIndex(const OperationType& operation) {
    return FindParameter(operation.parameters, "dtype") != nullptr;
  }

  /// The node with this name, which `reader` reads.
  Result<std::size_t> NodeOf(const std::string& name, const std::string& reader) {
    const std::string dotted = DottedName(name);
    if (const auto found = numbers_.find(dotted); found != numbers_.end()) return found->second;
    if (const auto found = definitions_.find(dotted); found != definitions_.end()) {
      return Define(*found->second);
    }
    if (dotted.ends_with(kLength) && table_.Find("length") != nullptr) {
      const std::string whole = dotted.substr(0, dotted.size() - kLength.size());
      if (numbers_.contains(whole) || definitions_.contains(whole)) {
        return Define({dotted, "length", {whole}});
      }
    }
    return InvalidArgument(fmt::format("{}: there is no tensor '{}'", reader, name));
  }

  Result<std::size_t> Define(const TensorDefinition& definition) {
    const std::string& name = definition.name;
    if (const auto begun = std::find(path_.begin(), path_.end(), name); begun != path_.end()) {
      return InvalidArgument(fmt::format("{}: is computed from itself: {} <- {}", name,
                                         fmt::join(begun, path_.end(), " <- "), name));
    }
    if (path_.size() == kMaxDepth) {
      return InvalidArgument(
          fmt::format("{}: more than {} tensors need one another in a row", name, kMaxDepth));
    }
    path_.push_back(name);
    const OperationType* const operation = table_.Find(definition.operation);
    if (operation == nullptr) {
      return InvalidArgument(
          fmt::format("{}: there is no operation '{}'", name, definition.operation));
    }
    TensorNode node{name, operation, {}, definition.at, {}, {}};
    std::vector<TensorType> inputs;
    for (const std::string& input : definition.inputs) {
      MILLRACE_ASSIGN_OR_RETURN(const std::size_t named, NodeOf(input, name));
      MILLRACE_ASSIGN_OR_RETURN(const std::size_t number, operation->of_rows
                                                              ? TravellingOf(named, name)
                                                              : OperandOf(named, name));
      node.inputs.push_back(number);
      inputs.push_back(graph_.nodes_[number].type);
    }
    path_.pop_back();
    if (inputs.empty() && operation->min_inputs == 0) {
      MILLRACE_ASSIGN_OR_RETURN(const std::size_t rows, AnyOfBatch(name));
      node.inputs.push_back(rows);
      inputs.push_back(graph_.nodes_[rows].type);
    }
    Result<BoundOperation> bound = BindOperation(*operation, inputs, definition.params, tables_);
    if (!bound.ok()) return bound.status().WithContext(name);
    node.bound = *std::move(bound);
    node.type = node.bound.output;
    node.params = definition.params;
    return Add(std::move(node), definition);
  }

  /// A tensor of the source that has a row for each example.
  Result<std::size_t> AnyOfBatch(const std::string& reader) const {
    for (std::size_t i = 0; i < text_.sources.size(); ++i) {
      if (text_.sources[i].type.rows == TensorType().rows && !unreadable_.contains(i)) return i;
    }
    return InvalidArgument(fmt::format(
        "{}: names no tensor, and the source has none with a row for each example", reader));
  }

  /// The number of an equal node, or of a new one.
  std::size_t Add(TensorNode node, const TensorDefinition& definition) {
    const Params params = WithDefaults(AllParameters(*node.operation), definition.params).value();
    const std::string key =
        fmt::format("{}({}){}@{}", node.operation->name, fmt::join(node.inputs, ","),
                    ParamsKey(params), static_cast<int>(node.at));
    const auto [place, is_new] = by_key_.emplace(key, graph_.nodes_.size());
    numbers_.emplace(definition.name, place->second);
    if (is_new) {
      graph_.nodes_.push_back(std::move(node));
    } else {
      TensorNode& known = graph_.nodes_[place->second];
      known.name = std::min(known.name, definition.name);
    }
    return place->second;
  }

  Status AddOutputs() {
    std::vector<std::string> names;
    if (text_.outputs) {
      names = *text_.outputs;
    } else {
      for (const SourceTensor& source : text_.sources) {
        if (!source.internal && !IsRead(source.name)) names.push_back(source.name);
      }
      for (const auto& [name, definition] : definitions_) {
        if (!IsRead(name)) names.push_back(name);
      }
    }
    if (names.empty()) return InvalidArgument("output: names no tensor");
    std::set<std::string> seen;
    for (const std::string& name : names) {
      MILLRACE_ASSIGN_OR_RETURN(const std::size_t number, NodeOf(name, "output"));
      if (!seen.insert(DottedName(name)).second) {
        return InvalidArgument(fmt::format("output: names '{}' twice", name));
      }
      MILLRACE_RETURN_IF_ERROR(AddOutput(name, number));
    }
    AddLengthsOfTexts(seen);
    for (const auto& [name, params] : text_.pads) {
      if (!seen.contains(DottedName(name))) {
        return InvalidArgument(fmt::format("{}: pad is for outputs, and this is none", name));
      }
    }
    std::stable_sort(graph_.outputs_.begin(), graph_.outputs_.end(),
                     [&](const TensorOutput& a, const TensorOutput& b) {
                       const std::size_t place_a = SourceOf(a.node);
                       const std::size_t place_b = SourceOf(b.node);
                       if (place_a != place_b) return place_a < place_b;
                       return place_a == text_.sources.size() && a.name < b.name;
                     });
    return OkStatus();
  }

  /// Lists of texts bring the lengths of their texts, without which nobody could tell these apart.
  void AddLengthsOfTexts(const std::set<std::string>& seen) {
    const std::size_t asked = graph_.outputs_.size();
    for (std::size_t i = 0; i < asked; ++i) {
      // A source's tensor keeps its name.
      const auto lengths = numbers_.find(TextLengthsOf(DottedName(graph_.outputs_[i].name)));
      if (lengths == numbers_.end() || seen.contains(lengths->first)) continue;
      const std::string name = graph_.nodes_[lengths->second].name;
      graph_.outputs_.push_back({name, lengths->second, std::nullopt});
    }
  }

  /// The number of the source's tensor that a node is, widened or not; if it is none, a number
  /// after all of these.
  std::size_t SourceOf(std::size_t node) const {
    if (graph_.nodes_[node].implicit) node = graph_.nodes_[node].inputs.front();
    return std::min(node, text_.sources.size());
  }

  Status AddOutput(const std::string& name, std::size_t number) {
    MILLRACE_ASSIGN_OR_RETURN(number, DeliveredOf(number));
    TensorOutput output{name, number, std::nullopt};
    // The source's tensors keep their own names, however they were written.
    if (graph_.nodes_[number].operation == nullptr) output.name = graph_.nodes_[number].name;
    const auto pad = std::find_if(text_.pads.begin(), text_.pads.end(), [&](const auto& one) {
      return DottedName(one.first) == DottedName(name);
    });
    if (pad != text_.pads.end()) {
      MILLRACE_ASSIGN_OR_RETURN(number, PaddedOf(number, name));
      output.node = number;
      Result<Pad> bound = Pad::Bind(graph_.nodes_[number].type, pad->second);
      if (!bound.ok()) return bound.status().WithContext(name);
      output.pad = *std::move(bound);
      const std::string& alike = output.pad->length_of();
      const std::string length = DottedName(alike.empty() ? name : alike) + std::string(kLength);
      MILLRACE_ASSIGN_OR_RETURN(const std::size_t lengths, NodeOf(length, "output"));
      const auto is_output = [&](const TensorOutput& other) { return other.name == length; };
      const bool asked = text_.outputs && std::find(text_.outputs->begin(), text_.outputs->end(),
                                                    length) != text_.outputs->end();
      if (!asked && std::none_of(graph_.outputs_.begin(), graph_.outputs_.end(), is_output)) {
        graph_.outputs_.push_back({length, lengths, std::nullopt});
      }
    }
    graph_.outputs_.push_back(std::move(output));
    return OkStatus();
  }

  /// The node that is delivered if node `number` is an output. A tensor of packed rows is made in
  /// the session's index type.
  Result<std::size_t> DeliveredOf(std::size_t number) {
    const OperationType* const operation = graph_.nodes_[number].operation;
    if (operation == nullptr || !operation->of_rows || !IsIndex(*operation) ||
        graph_.nodes_[number].type.dtype == text_.index_dtype) {
      return number;
    }
    TensorNode node = graph_.nodes_[number];
    std::vector<TensorType> inputs;
    for (const std::size_t input : node.inputs) inputs.push_back(graph_.nodes_[input].type);
    node.params = Params({{"dtype", std::string(DTypeName(text_.index_dtype))}});
    MILLRACE_ASSIGN_OR_RETURN(node.bound, BindOperation(*operation, inputs, node.params, tables_));
    node.type = node.bound.output;
    graph_.nodes_.push_back(std::move(node));
    return graph_.nodes_.size() - 1;
  }

  /// The node that is padded if output `name`, node `number`, is.
  Result<std::size_t> PaddedOf(std::size_t number, const std::string& name) {
    if (const auto why = unreadable_.find(number); why != unreadable_.end()) {
      return InvalidArgument(fmt::format("{}: pad: no operation can read {}", name, why->second));
    }
    const auto widened = widened_.find(number);
    if (widened == widened_.end()) return number;
    if (text_.index_dtype == DType::kInt64) return widened->second;
    return Widen(number, text_.index_dtype);
  }

  bool IsRead(const std::string& name) const { return read_.contains(DottedName(name)); }

  /// Removes the nodes that no output needs, and numbers the others again.
  void DropUnused() {
    std::vector<TensorNode>& nodes = graph_.nodes_;
    std::vector<bool> needed(nodes.size(), false);
    for (const TensorOutput& output : graph_.outputs_) needed[output.node] = true;
    for (std::size_t i = nodes.size(); i-- > 0;) {
      if (!needed[i]) continue;
      for (const std::size_t input : nodes[i].inputs) needed[input] = true;
    }
    for (const auto& [name, definition] : definitions_) {
      if (!needed[numbers_.at(name)]) graph_.unused_.push_back(name);
    }
    std::vector<std::size_t> numbers(nodes.size(), 0);
    std::vector<TensorNode> kept;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (!needed[i]) continue;
      numbers[i] = kept.size();
      for (std::size_t& input : nodes[i].inputs) input = numbers[input];
      kept.push_back(std::move(nodes[i]));
    }
    nodes = std::move(kept);
    for (TensorOutput& output : graph_.outputs_) output.node = numbers[output.node];
  }

  const TensorGraphText& text_;
  const OperationTable& table_;
  const LookupTables& tables_;
  TensorGraph graph_;
  std::map<std::string, const TensorDefinition*> definitions_;
  std::set<std::string> read_;                  // dotted names that definitions read
  std::map<std::string, std::size_t> numbers_;  // of nodes, by dotted names
  std::map<std::string, std::size_t> by_key_;
  std::map<std::size_t, std::string> unreadable_;  // nodes, and why
  std::map<std::size_t, std::size_t> widened_;     // from nodes to their widened forms
  std::vector<std::string> path_;                  // names that are being defined
};

Result<TensorGraph> TensorGraph::Bind(const TensorGraphText& text, const OperationTable& table,
                                      const LookupTables& tables) {
  return TensorGraphBinder(text, table, tables).Bind();
}

}  // namespace millrace
