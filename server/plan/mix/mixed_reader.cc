#include "server/plan/mix/mixed_reader.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "common/batch/layout/integer_visit.h"

namespace millrace {
namespace {

/// Replaces numbers of a branch's rows by those of the joined table. Negative ones mean none.
void Renumber(DType type, std::span<const std::uint32_t> rows, std::byte* values,
              std::size_t count) {
  internal::VisitInteger(type, [&](auto zero) {
    for (std::size_t i = 0; i < count; ++i) {
      auto value = zero;
      std::memcpy(&value, values + i * sizeof value, sizeof value);
      const auto row = static_cast<std::uint64_t>(value);
      if (row >= rows.size()) continue;
      value = static_cast<decltype(value)>(rows[row]);
      std::memcpy(values + i * sizeof value, &value, sizeof value);
    }
  });
}

}  // namespace

Status MixedReader::Append(std::span<const ExampleId> ids, BatchWriter& writer) {
  for (BranchBatch& of : of_) {
    of.ids.clear();
    of.passes.clear();
  }
  const std::vector<std::uint64_t> passes = writer.PassesOfNext(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::size_t branch = BranchOf(branches_, ids[i]);
    of_[branch].ids.emplace_back(ids[i].value() - branches_[branch].first);
    if (!passes.empty()) of_[branch].passes.push_back(passes[i]);
  }
  for (std::size_t branch = 0; branch < of_.size(); ++branch) {
    if (of_[branch].ids.empty()) continue;
    MILLRACE_RETURN_IF_ERROR(Build(branch, writer.info()));
    for (const LostPieces& lost : of_[branch].builder->info().lost_pieces) {
      writer.AddLostPieces(plan_.copies[branch].reasons[static_cast<std::size_t>(lost.reason)],
                           lost.pieces);
    }
  }
  for (const ExampleId id : ids)
    MILLRACE_RETURN_IF_ERROR(CopyNext(BranchOf(branches_, id), id, writer));
  return OkStatus();
}

Status MixedReader::Build(std::size_t branch, const BatchInfo& batch) {
  BranchBatch& of = of_[branch];
  const BranchCopy& copy = plan_.copies[branch];
  if (of.builder == nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(BranchBuilder builder,
                              BranchBuilder::Make(plan_.programs[branch], pool_));
    of.builder = std::make_unique<BranchBuilder>(std::move(builder));
    for (const CopiedTensor& tensor : copy.tensors) {
      const DType to = plan_.tensors[tensor.to].dtype;
      of.convert.push_back(to == tensor.from_type ? nullptr : ConvertLoopOf(tensor.from_type, to));
      of.split_types.push_back(
          tensor.splits ? plan_.programs[branch].tensors()[*tensor.splits].dtype : DType::kUint32);
    }
  }
  Status built = of.builder->Build(of.ids, batch.epoch, of.passes);
  if (!built.ok()) return built.WithContext("branch " + branches_[branch].name);
  of.next_graph = 0;
  of.next_dropped = 0;
  of.values.clear();
  of.splits.clear();
  for (const CopiedTensor& tensor : copy.tensors) {
    of.values.push_back(of.builder->values(tensor.from));
    of.splits.push_back(tensor.splits ? of.builder->values(*tensor.splits)
                                      : std::span<const std::byte>());
  }
  return OkStatus();
}

Status MixedReader::CopyNext(std::size_t branch, ExampleId id, BatchWriter& writer) {
  BranchBatch& of = of_[branch];
  const BatchInfo& built = of.builder->info();
  const ExampleId own(id.value() - branches_[branch].first);
  if (of.next_graph < built.example_ids.size() && built.example_ids[of.next_graph] == own) {
    CopyGraph(branch, writer);
    ++of.next_graph;
    writer.EndExample(id);
    return OkStatus();
  }
  if (of.next_dropped < built.dropped.size() && built.dropped[of.next_dropped].id == own) {
    const auto reason = static_cast<std::size_t>(built.dropped[of.next_dropped].reason);
    ++of.next_dropped;
    writer.AddDropped(id, plan_.copies[branch].reasons[reason]);
    return OkStatus();
  }
  return Internal(fmt::format("branch {}: example {} was neither built nor dropped",
                              branches_[branch].name, own.value()));
}

MixedReader::Rows MixedReader::RowsOf(const BranchBatch& of, const CopiedTensor& tensor,
                                      std::size_t number) const {
  if (!tensor.splits) return {of.next_graph, 1};
  const auto split = [&](std::size_t i) {
    return static_cast<std::uint64_t>(
        internal::LoadValue(of.splits[number].data(), of.split_types[number], i));
  };
  const std::uint64_t first = split(of.next_graph);
  return {first, split(of.next_graph + 1) - first};
}

void MixedReader::CopyGraph(std::size_t branch, BatchWriter& writer) {
  const BranchBatch& of = of_[branch];
  const BranchCopy& copy = plan_.copies[branch];
  if (copy.sorted_by) SortEdges(of, copy);
  for (std::size_t i = 0; i < copy.tensors.size(); ++i) {
    const CopiedTensor& tensor = copy.tensors[i];
    const TensorSpec& spec = plan_.tensors[tensor.to];
    const Rows rows = RowsOf(of, tensor, i);
    const std::uint64_t row_values = spec.row_values();
    const std::uint64_t from_bytes = row_values * DTypeSize(tensor.from_type);
    const std::uint64_t to_bytes = spec.row_bytes();
    const std::byte* const from = of.values[i].data() + rows.first * from_bytes;
    std::byte* const to = writer.PackedRoom(tensor.to, rows.count);
    const auto copy_rows = [&](std::uint64_t first, std::uint64_t count, std::byte* room) {
      const std::byte* const begin = from + first * from_bytes;
      if (of.convert[i] != nullptr) {
        of.convert[i](begin, room, count * row_values);
      } else if (count > 0) {
        std::memcpy(room, begin, count * from_bytes);
      }
    };
    if (tensor.of_sorted_edges) {
      for (std::size_t e = 0; e < edge_order_.size(); ++e) {
        copy_rows(edge_order_[e], 1, to + e * to_bytes);
      }
    } else {
      copy_rows(0, rows.count, to);
    }
    if (!tensor.rows.empty()) Renumber(spec.dtype, tensor.rows, to, rows.count * row_values);
  }
  writer.AppendOne(plan_.tensors.size() - 1, static_cast<std::int64_t>(branch));
}

void MixedReader::SortEdges(const BranchBatch& of, const BranchCopy& copy) {
  const CopiedTensor& label = copy.tensors[*copy.sorted_by];
  const Rows rows = RowsOf(of, label, *copy.sorted_by);
  labels_.resize(rows.count);
  for (std::size_t e = 0; e < rows.count; ++e) {
    const auto own = static_cast<std::size_t>(
        internal::LoadValue(of.values[*copy.sorted_by].data(), label.from_type, rows.first + e));
    labels_[e] = label.rows[own];
  }
  edge_order_.resize(rows.count);
  std::iota(edge_order_.begin(), edge_order_.end(), 0u);
  std::stable_sort(edge_order_.begin(), edge_order_.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return labels_[a] < labels_[b]; });
}

}  // namespace millrace
