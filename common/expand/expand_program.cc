#include "common/expand/expand_program.h"

#include <utility>

#include "common/expand/expand_edges.h"
#include "common/expand/expand_kernel.h"

namespace millrace {
namespace {

using kernel::Column;
using kernel::Mirror;
using kernel::Op;
using kernel::Task;

static_assert(static_cast<int>(kernel::Type::kInt64) == static_cast<int>(DType::kInt64));
static_assert(static_cast<int>(Mirror::kBidirectional) ==
              static_cast<int>(Symmetrization::kBidirectional));

class ProgramMaker {
 public:
  ProgramMaker(const PackedBatch& packed, const ExpandLayout& layout)
      : packed_(packed), layout_(layout) {
    program_.launch.wide = layout.index_dtype == DType::kInt64;
    program_.launch.first_row = layout.rows.first;
    program_.launch.rows = layout.rows.count;
  }

  void AddTensor(std::size_t tensor) {
    const TensorSpec& spec = packed_.tensors()[tensor].spec;
    Task task;
    task.in = ColumnOf(tensor);
    task.out = layout_.offsets[tensor];
    task.first = FirstElement(tensor);
    task.count = layout_.tensor_bytes(tensor) / DTypeSize(layout_.dtypes[tensor]);
    task.op = Op::kWiden;
    if (spec.kind == TensorKind::kStringBytes) {
      task.op = Op::kBytes;
    } else if (spec.expansion == Expansion::kNodeOffset) {
      task.op = Op::kNodeOffset;
      task.node_splits = ColumnOf(*packed_.Find(spec.node_splits));
      task.cut = !spec.splits.empty();
      if (task.cut) task.splits = ColumnOf(*packed_.Find(spec.splits));
    } else if (spec.kind == TensorKind::kSplits) {
      task.op = Op::kSplits;
    }
    // Edges and their splits are added later, group by group.
    const bool of_group =
        spec.expansion != Expansion::kWiden && spec.expansion != Expansion::kNodeOffset;
    if (!of_group) Add(task);
    AddPadding(tensor);
  }

  void AddEdges(const EdgeGroup& group) {
    const ExpandSpec& expand = packed_.info().expand;
    Task task;
    task.mirror = static_cast<Mirror>(expand.symmetrization);
    task.self_edges = expand.add_self_edges;
    task.base_labels = expand.base_edge_labels;
    task.in = ColumnOf(group.source);
    task.target = ColumnOf(group.target);
    task.label = ColumnOf(group.label);
    task.splits = ColumnOf(group.splits);
    task.node_splits = ColumnOf(group.node_splits);
    task.out = layout_.offsets[group.source];
    task.out_target = layout_.offsets[group.target];
    task.out_label = layout_.offsets[group.label];
    const internal::SplitsView edges(packed_, group.splits);
    const internal::SplitsView nodes(packed_, group.node_splits);
    const std::size_t begin = layout_.rows.first;
    const std::size_t end = begin + layout_.rows.count;
    task.op = Op::kEdges;
    task.first = edges[begin];
    task.count = edges[end] - edges[begin];
    Add(task);
    if (expand.add_self_edges) {
      task.op = Op::kSelfEdges;
      task.first = nodes[begin];
      task.count = nodes[end] - nodes[begin];
      Add(task);
    }
    task.op = Op::kEdgeSplits;
    task.first = begin;
    task.count = layout_.rows.count + 1;
    task.out = layout_.offsets[group.splits];
    Add(task);
  }

  ExpandProgram Finish() {
    program_.launch.task_count = static_cast<std::uint32_t>(program_.tasks.size());
    return std::move(program_);
  }

 private:
  Column ColumnOf(std::size_t tensor) const {
    const TensorPlace& place = packed_.tensors()[tensor];
    return {place.offset, static_cast<kernel::Type>(place.spec.dtype)};
  }

  /// The first value of the chosen rows, as an index into the packed tensor.
  std::uint64_t FirstElement(std::size_t tensor) const {
    const TensorPlace& place = packed_.tensors()[tensor];
    std::uint64_t first = layout_.rows.first;
    if (place.spec.kind != TensorKind::kSplits && !place.spec.splits.empty()) {
      first = internal::SplitsView(packed_, *packed_.Find(place.spec.splits))[first];
    }
    for (std::size_t d = 1; d < place.shape.size(); ++d) first *= place.shape[d];
    return first;
  }

  void AddPadding(std::size_t tensor) {
    Task task;
    task.op = Op::kPadding;
    task.out = layout_.offsets[tensor] + layout_.tensor_bytes(tensor);
    task.count =
        (tensor + 1 < layout_.offsets.size() ? layout_.offsets[tensor + 1] : layout_.bytes) -
        task.out;
    Add(task);
  }

  void Add(Task task) {
    if (task.count == 0) return;
    task.first_tile = program_.launch.tiles;
    program_.launch.tiles += (task.count + kernel::kTileElements - 1) / kernel::kTileElements;
    program_.tasks.push_back(task);
  }

  const PackedBatch& packed_;
  const ExpandLayout& layout_;
  ExpandProgram program_;
};

}  // namespace

ExpandProgram MakeExpandProgram(const PackedBatch& packed, const ExpandLayout& layout) {
  ProgramMaker maker(packed, layout);
  for (std::size_t i = 0; i < layout.offsets.size(); ++i) maker.AddTensor(i);
  for (const EdgeGroup& group : layout.edges) maker.AddEdges(group);
  return maker.Finish();
}

void RunOnHost(const kernel::Launch& launch) {
  for (std::uint64_t tile = 0; tile < launch.tiles; ++tile) kernel::RunTile(launch, tile, 0, 1);
}

Status WhatIsWrong(const PackedBatch& packed, const ExpandLayout& layout) {
  BufferPool pool(0);
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Buffer> buffer, pool.Acquire(layout.bytes));
  MILLRACE_RETURN_IF_ERROR(ExpandInto(packed, layout, buffer->bytes()));
  return Internal(
      "a batch was found to be wrong where it was expanded, but the host's expansion finds nothing "
      "wrong with it: the device's memory or its copy is damaged");
}

}  // namespace millrace
