// The part of a plan with the tensors that a pipeline defines: its keys `tensors`, `output` and
// `pad`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/operations/graph_pad.h"
#include "common/operations/tensor_graph.h"
#include "server/source/source_facts.h"

namespace millrace {

/// The parameters that `pad.NAME` takes.
const std::vector<Parameter>& PadParameters(std::string_view name);

/// The tensors of a source of rows besides T, `with` and pack.lengths
/// (common/operations/pack_names.h).
struct PackNeeds {
  bool documents = false;  // pack.documents
  bool begins = false;     // pack.begins
  bool next = false;       // pack.next

  friend bool operator==(const PackNeeds&, const PackNeeds&) = default;
};

/// Value type. Without definitions, outputs and pads, a plan delivers its source's tensors.
struct TensorsPart {
  std::vector<TensorDefinition> definitions;        // by the bytes of their names
  std::optional<std::vector<std::string>> outputs;  // absent: all that nothing else reads
  std::map<std::string, Params> pads;               // of outputs
  std::optional<GraphPad> graph_pad;                // `pad.graph`
  /// Absent unless a plan packs rows; then `pads` may have the key `pack`, which pads all rows
  /// (server/plan/tensors/pack_outputs.h). The plan sets it.
  std::optional<PackTensors> pack;
  /// The outputs are what a mix reads of a branch, not what a user names.
  bool read_by_mix = false;
  /// Where each key was written, in the form that messages use ("file:3:5"). Keys are
  /// "tensors.NAME", "tensors.NAME.KEY", "output", "pad.NAME" and "pad.NAME.KEY", also for
  /// `pad.graph`. Beside the key of a text, "tensors.NAME.KEY@text" is the place of its first
  /// character, if the characters are written there as they are.
  std::map<std::string, std::string, std::less<>> origins;
  /// The table that the definitions were read with.
  const OperationTable* operations = &OperationTable::Default();

  bool empty() const { return definitions.empty() && !outputs && pads.empty() && !graph_pad; }
  /// `pads` and `pad.graph`, as a user writes them.
  std::map<std::string, Params> all_pads() const;
  /// Whether an output or an operation names a tensor, and no definition has the name. A `/` of the
  /// name is written `.`.
  bool Reads(std::string_view tensor) const;
};

/// An error of binding the part's tensors, that begins with the place of its subject: "file:3:5:
/// tensors.NAME.PARAMETER: …". In an expression it is the place of the column. Errors begin as in
/// TensorGraph::Bind: "NAME: ", "NAME: PARAMETER: " or "output: "; errors of `pad.graph` begin with
/// "graph: ".
Status AtOrigin(const TensorsPart& part, const Status& status);
/// InvalidArgument with the error of a tensor, `what`, with the place where the part reads it: the
/// output, otherwise the first operation. REQUIRES: part.Reads(tensor).
Status AtReader(const TensorsPart& part, std::string_view tensor, std::string_view what);

}  // namespace millrace
