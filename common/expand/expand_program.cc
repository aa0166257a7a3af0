#include "common/expand/expand_program.h"

#include <array>
#include <utility>

#include "common/expand/expand_edges.h"
#include "common/expand/expand_kernel.h"

namespace millrace {
namespace {

using kernel::Column;
using kernel::Mirror;
using kernel::Op;
using kernel::Task;
using kernel::Type;

static_assert(static_cast<int>(Type::kInt64) == static_cast<int>(DType::kInt64));
static_assert(static_cast<int>(Mirror::kBidirectional) ==
              static_cast<int>(Symmetrization::kBidirectional));

class ProgramMaker {
 public:
  ProgramMaker(const PackedBatch& packed, const ExpandLayout& layout)
      : packed_(packed), layout_(layout) {
    program_.launch.wide = layout.index_dtype == DType::kInt64;
    program_.launch.first_row = layout.graphs.first;
    program_.launch.rows = layout.graphs.count;
  }

  void AddTensor(std::size_t tensor) {
    if (!layout_.expanded[tensor]) return;
    const TensorSpec& spec = packed_.tensors()[tensor].spec;
    if (spec.expansion == Expansion::kKeep) {
      AddKept(tensor);
    } else {
      AddIntegers(tensor);
    }
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
    task.labelled = group.label.has_value();
    if (group.label) task.label = ColumnOf(*group.label);
    task.splits = ColumnOf(group.splits);
    task.node_splits = ColumnOf(group.node_splits);
    task.out = layout_.offsets[group.source];
    task.out_target = layout_.offsets[group.target];
    if (group.label) task.out_label = layout_.offsets[*group.label];
    const internal::SplitsView edges(packed_, group.splits);
    const internal::SplitsView nodes(packed_, group.node_splits);
    const std::size_t begin = layout_.graphs.first;
    const std::size_t end = begin + layout_.graphs.count;
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
    task.count = layout_.graphs.count + 1;
    task.out = layout_.offsets[group.splits];
    Add(task);
  }

  void AddFill(const FillRun& fill) {
    Task task;
    task.op = Op::kFill;
    task.in.type = fill.width == 8   ? Type::kUint64
                   : fill.width == 4 ? Type::kUint32
                   : fill.width == 2 ? Type::kUint16
                                     : Type::kUint8;
    task.out = fill.offset;
    task.count = fill.count;
    task.value = fill.value;
    Add(task);
  }

  ExpandProgram Finish() {
    program_.launch.task_count = static_cast<std::uint32_t>(program_.tasks.size());
    return std::move(program_);
  }

 private:
  Column ColumnOf(std::size_t tensor) const {
    const TensorPlace& place = packed_.tensors()[tensor];
    return {place.offset, static_cast<Type>(place.spec.dtype)};
  }

  /// The first value of the chosen rows, as an index into the packed tensor.
  std::uint64_t FirstElement(std::size_t tensor) const {
    const TensorPlace& place = packed_.tensors()[tensor];
    std::uint64_t first = layout_.rows.first;
    if (place.spec.kind != TensorKind::kSplits && !place.spec.splits.empty()) {
      first = internal::SplitsView(packed_, *packed_.Find(place.spec.splits))[first];
    }
    return first * place.spec.row_values();
  }

  void AddIntegers(std::size_t tensor) {
    const TensorSpec& spec = packed_.tensors()[tensor].spec;
    Task task;
    task.in = ColumnOf(tensor);
    task.out = layout_.offsets[tensor];
    task.first = FirstElement(tensor);
    task.count = layout_.own_bytes(tensor) / DTypeSize(layout_.dtypes[tensor]);
    task.op = Op::kWiden;
    if (spec.expansion == Expansion::kNodeOffset) {
      task.op = Op::kNodeOffset;
      task.node_splits = ColumnOf(*packed_.Find(spec.node_splits));
      task.merged = packed_.info().expand.merged;
      task.cut = !spec.splits.empty();
      if (task.cut) task.splits = ColumnOf(*packed_.Find(spec.splits));
    } else if (spec.kind == TensorKind::kSplits) {
      task.op = Op::kSplits;
    }
    // Edges and their splits are added later, group by group.
    const bool of_group =
        spec.expansion != Expansion::kWiden && spec.expansion != Expansion::kNodeOffset;
    if (!of_group) Add(task);
  }

  /// Copies words as wide as the place of the first value allows, and bytes after them.
  void AddKept(std::size_t tensor) {
    const TensorPlace& place = packed_.tensors()[tensor];
    const std::uint64_t bytes = layout_.own_bytes(tensor);
    Task task;
    task.in = {place.offset, Type::kUint8};
    task.out = layout_.offsets[tensor];
    task.first = FirstElement(tensor) * DTypeSize(place.spec.dtype);
    task.count = bytes;
    if (place.spec.dtype == DType::kBool) {
      task.op = Op::kBools;
      return Add(task);
    }
    task.op = Op::kCopy;
    constexpr std::array kWords = {Type::kUint64, Type::kUint32, Type::kUint16};
    for (const Type word : kWords) {
      const std::uint64_t size = DTypeSize(static_cast<DType>(word));
      if (task.first % size != 0) continue;
      Task words = task;
      words.in.type = word;
      words.first /= size;
      words.count = bytes / size;
      Add(words);
      const std::uint64_t done = words.count * size;
      task.first += done;
      task.out += done;
      task.count -= done;
      break;
    }
    Add(task);
  }

  void AddPadding(std::size_t tensor) {
    Task task;
    task.op = Op::kPadding;
    task.out = layout_.offsets[tensor] + layout_.tensor_bytes(tensor);
    task.count = layout_.padded_bytes(tensor) - layout_.tensor_bytes(tensor);
    Add(task);
  }

  void Add(Task task) {
    if (task.count == 0) return;
    task.first_tile = program_.launch.tiles;
    program_.launch.tiles += kernel::TilesOf(task.count);
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
  for (const FillRun& fill : layout.fills) maker.AddFill(fill);
  return maker.Finish();
}

void RunOnHost(const kernel::Launch& launch) {
  for (std::uint64_t tile = 0; tile < launch.tiles; ++tile) kernel::RunTile(launch, tile, 0, 1);
}

Status WhatIsWrong(const PackedBatch& packed, const ExpandLayout& layout) {
  BufferPool pool(0);
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Buffer> buffer, pool.Acquire(layout.bytes));
  ExpandLayout unwatched = layout;  // an observer may know a device's phases instead of the host's
  unwatched.observer = nullptr;
  MILLRACE_RETURN_IF_ERROR(ExpandInto(packed, unwatched, buffer->bytes()));
  return Internal(
      "a batch was found to be wrong where it was expanded, but the host's expansion finds nothing "
      "wrong with it: the device's memory or its copy is damaged");
}

}  // namespace millrace
