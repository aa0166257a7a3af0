// The tensors of packed rows in a plan: those that its source has to have, and those that the
// consumer computes from them.
//
// A pipeline names pack.position, pack.segment, pack.label and pack.cu_seqlens in `output`, or as
// inputs of operations on rows. None of them travels. The stage `pack` and its source do this:
//
//   part.pack = PackTensors{"tokens", {"mask"}, size};  // in a copy of the pipeline's TensorsPart
//   const PackNeeds needs = PackNeedsOf(part);
//   source = ...;  // of rows, with T, `with`, pack.lengths, and what `needs` asks for
//   TensorPlan::Compile(part, source->tensors(), ...);  // calls CompletePack
//
// All these tensors of the source are ragged: T and `with` are cut alike, and pack.lengths,
// pack.documents, pack.begins and pack.next have an element for each piece of a row. They are
// integers of any width; pack.next has the document's element right behind the piece, wherever it
// lies, or kNoLabel at the document's end. A piece has at least one element.
//
// Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/operations/tensor_graph.h"
#include "server/source/tensors_part.h"

namespace millrace {

/// The tensors that the part asks of the source of rows.
PackNeeds PackNeedsOf(const TensorsPart& part);

/// The tensors of the source that the consumer's computation of packed rows reads, by the names
/// that the part uses; empty if rows are not packed. A mix needs them of its branches.
std::vector<std::string> PackReads(const TensorsPart& part);

/// The definition of pack.position, pack.segment or pack.label; absent for other names.
std::optional<TensorDefinition> PackDefinition(std::string_view name, const PackTensors& pack);

/// For each node of a graph, whether it has as many elements in each row as T of these.
std::vector<bool> CutAsRows(const TensorGraph& graph, const PackTensors& pack);

/// Adds to the text of a graph what the part uses of packed rows: definitions, and the pads that
/// `pad.pack` stands for. Errors are as for TensorGraph::Bind. REQUIRES: the text has the sources,
/// definitions, outputs and pads of the part.
Status CompletePack(const TensorsPart& part, const LookupTables& tables, TensorGraphText& text);

}  // namespace millrace
