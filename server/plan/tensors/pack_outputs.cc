#include "server/plan/tensors/pack_outputs.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <fmt/core.h>

#include "common/operations/pack_names.h"
#include "common/tensor/tensor_word.h"

namespace millrace {
namespace {

/// The key of `pad` for packed rows, which names no tensor.
constexpr std::string_view kPackKey = "pack";

bool HasName(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Whether an output or an operation names a tensor, or its lengths.
bool Uses(const TensorsPart& part, std::string_view tensor) {
  const std::string length = fmt::format("{}.length", tensor);
  const auto names = [&](const std::vector<std::string>& all) {
    return HasName(all, tensor) || HasName(all, length);
  };
  return (part.outputs && names(*part.outputs)) ||
         std::any_of(part.definitions.begin(), part.definitions.end(),
                     [&](const TensorDefinition& one) { return names(one.inputs); });
}

std::vector<std::string> InputsOf(std::string_view name, const PackTensors& pack) {
  if (name != kPackLabel) return {std::string(kPackLengths)};
  return {DottedName(pack.tensor), std::string(kPackLengths), std::string(kPackNext)};
}

/// Whether the steps after a kernel, or of a loop, multiply the lengths of rows.
bool Multiplies(const BoundOperation& bound, TensorType type) {
  for (const LoopStep& step : bound.steps) {
    if (std::holds_alternative<BitsStep>(step.what) && type.inner.empty()) return true;
    type = step.output;
  }
  return false;
}

/// The extent of rows. `pad`: the parameters of pad.pack.
Result<std::uint32_t> ExtentOf(const Params& pad, const PackTensors& pack) {
  for (const auto& [key, value] : pad.values()) {
    if (key == "to") continue;
    return InvalidArgument(fmt::format(
        "{}: {}: pad.pack pads rows, and takes only `to`; write it for a tensor of the rows",
        kPackKey, key));
  }
  if (!pad.is_set("to")) return pack.size;
  if (!pad.Is<std::int64_t>("to")) {
    return InvalidArgument(fmt::format("{}: to: expected a number of elements, got '{}'", kPackKey,
                                       pad.GetText("to")));
  }
  if (pad.GetInt("to") < pack.size) {
    return InvalidArgument(fmt::format("{}: to: rows have up to {} elements (pack.size), got {}",
                                       kPackKey, pack.size, pad.GetInt("to")));
  }
  return static_cast<std::uint32_t>(pad.GetInt("to"));
}

/// The parameters by which an output is padded beside pad.pack. `own`: its own ones.
Result<Params> PadOfRows(const std::string& output, const Params& own, const PackTensors& pack,
                         std::uint32_t extent) {
  std::map<std::string, ParamValue> values = {
      {"to", std::int64_t{extent}}, {std::string(Pad::kLengthOf), DottedName(pack.tensor)}};
  if (output == kPackLabel) values["value"] = std::int64_t{kNoLabel};
  for (const auto& [key, value] : own.values()) {
    if (key != "value") {
      return InvalidArgument(fmt::format(
          "{}: {}: pad.pack says how long its rows are; expected `value` only", output, key));
    }
    values[key] = value;
  }
  return Params(std::move(values));
}

class PackCompletion {
 public:
  PackCompletion(const TensorsPart& part, const LookupTables& tables, TensorGraphText& text)
      : part_(part), pack_(*part.pack), tables_(tables), text_(text) {}

  Status Complete() {
    MILLRACE_RETURN_IF_ERROR(CheckNames());
    for (SourceTensor& source : text_.sources) source.internal = source.name == kPackNext;
    std::uint32_t extent = 0;  // 0: rows are not padded
    if (const auto pad = text_.pads.find(std::string(kPackKey)); pad != text_.pads.end()) {
      MILLRACE_ASSIGN_OR_RETURN(extent, ExtentOf(pad->second, pack_));
      text_.pads.erase(pad);
    }
    for (const std::string_view name : {kPackLabel, kPackPosition, kPackSegment, kPackSeqlens}) {
      if (Uses(part_, name)) Define(name, extent);
    }
    if (extent == 0 && !part_.Reads(kPackSeqlens)) return OkStatus();
    return PadOutputs(extent);
  }

 private:
  Status CheckNames() const {
    if (part_.graph_pad) {
      return InvalidArgument("graph: packed rows are no graphs; expected pad.pack");
    }
    for (const TensorDefinition& definition : part_.definitions) {
      if (definition.name != kPackKey) continue;
      return InvalidArgument(fmt::format(
          "{0}: beside the stage `pack`, no tensor is called so; choose another name", kPackKey));
    }
    const std::string what = fmt::format("there is no tensor '{}'", kPackNext);
    for (const TensorDefinition& definition : part_.definitions) {
      if (!HasName(definition.inputs, kPackNext)) continue;
      return InvalidArgument(fmt::format("{}: {}", definition.name, what));
    }
    // The mix makes labels of it.
    const bool named = part_.outputs && HasName(*part_.outputs, kPackNext);
    return named && !part_.read_by_mix ? InvalidArgument("output: " + what) : OkStatus();
  }

  void Define(std::string_view name, std::uint32_t extent) {
    TensorDefinition definition{std::string(name), std::string(name), InputsOf(name, pack_)};
    if (name == kPackSeqlens) {
      definition.at = RunPlace::kConsumer;
      if (extent != 0) definition.params = Params({{"to", std::int64_t{extent}}});
    }
    text_.definitions.push_back(std::move(definition));
  }

  /// Pads the outputs that are cut as T; without an extent, checks that none of them is padded.
  Status PadOutputs(std::uint32_t extent) {
    const std::map<std::string, Params> own = std::exchange(text_.pads, {});
    MILLRACE_ASSIGN_OR_RETURN(const TensorGraph graph,
                              TensorGraph::Bind(text_, *part_.operations, tables_));
    text_.pads = own;
    const std::vector<bool> alike = CutAsRows(graph, pack_);
    for (const TensorOutput& output : graph.outputs()) {
      if (!alike[output.node]) continue;
      const auto pad = text_.pads.find(DottedName(output.name));
      if (extent != 0) {
        const Params params = pad == text_.pads.end() ? Params() : pad->second;
        MILLRACE_ASSIGN_OR_RETURN(text_.pads[DottedName(output.name)],
                                  PadOfRows(output.name, params, pack_, extent));
      } else if (pad != text_.pads.end()) {
        return InvalidArgument(fmt::format(
            "{}: {} counts rows one after another, without padding; expected pad.pack, which pads "
            "all tensors of the rows",
            output.name, kPackSeqlens));
      }
    }
    return OkStatus();
  }

  const TensorsPart& part_;
  const PackTensors& pack_;
  const LookupTables& tables_;
  TensorGraphText& text_;
};

}  // namespace

std::optional<TensorDefinition> PackDefinition(std::string_view name, const PackTensors& pack) {
  if (name != kPackPosition && name != kPackSegment && name != kPackLabel) return std::nullopt;
  return TensorDefinition{std::string(name), std::string(name), InputsOf(name, pack)};
}

PackNeeds PackNeedsOf(const TensorsPart& part) {
  return {Uses(part, kPackDocuments), Uses(part, kPackBegins), Uses(part, kPackLabel)};
}

std::vector<std::string> PackReads(const TensorsPart& part) {
  std::vector<std::string> reads;
  if (!part.pack) return reads;
  for (const std::string_view name : {kPackLabel, kPackPosition, kPackSegment, kPackSeqlens}) {
    if (!Uses(part, name)) continue;
    for (std::string& input : InputsOf(name, *part.pack)) {
      if (!HasName(reads, input)) reads.push_back(std::move(input));
    }
  }
  // Lengths of rows come with padded ones.
  const std::string tensor = DottedName(part.pack->tensor);
  if (part.pads.contains(std::string(kPackKey)) && !HasName(reads, tensor)) {
    reads.push_back(tensor);
  }
  return reads;
}

std::vector<bool> CutAsRows(const TensorGraph& graph, const PackTensors& pack) {
  const std::vector<TensorNode>& nodes = graph.nodes();
  std::vector<bool> alike(nodes.size(), false);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const TensorNode& node = nodes[i];
    if (!node.type.ragged) continue;
    if (node.operation == nullptr) {
      alike[i] = node.name == pack.tensor || HasName(pack.with, node.name);
    } else if (node.operation->of_rows) {
      alike[i] = true;
    } else {
      const Kernel* const kernel = node.bound.kernel.get();
      const TensorType& type =
          kernel != nullptr ? node.bound.kernel_output : nodes[node.inputs.front()].type;
      alike[i] = (kernel == nullptr || kernel->keeps_lengths()) && !Multiplies(node.bound, type) &&
                 std::any_of(node.inputs.begin(), node.inputs.end(),
                             [&](std::size_t input) { return alike[input]; });
    }
  }
  return alike;
}

Status CompletePack(const TensorsPart& part, const LookupTables& tables, TensorGraphText& text) {
  if (part.pack) return PackCompletion(part, tables, text).Complete();
  const std::string key(kPackKey);
  const bool named = part.outputs
                         ? HasName(*part.outputs, key)
                         : std::any_of(text.sources.begin(), text.sources.end(),
                                       [&](const auto& one) { return one.name == key; }) ||
                               std::any_of(text.definitions.begin(), text.definitions.end(),
                                           [&](const auto& one) { return one.name == key; });
  if (!text.pads.contains(key) || named) return OkStatus();
  return InvalidArgument(fmt::format(
      "{}: rows are not packed; expected the stage `pack`, or the name of an output", key));
}

}  // namespace millrace
