#include "common/operands/operands.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "common/batch/layout/integer_visit.h"
#include "common/batch/layout/tensor_table.h"

namespace millrace {
namespace {

/// Graphs are rows, and so are nodes and edges of all of them; any other values that splits cut are
/// one sequence a row.
bool HasOwnRows(const TensorSpec& tensor) {
  return tensor.dimension == "nodes" || tensor.dimension == "edges" || tensor.of_graphs();
}

bool IsRagged(const TensorSpec& tensor) { return !tensor.splits.empty() && !HasOwnRows(tensor); }

/// Why no operation can read a tensor; empty: they can.
std::string WhyUnreadable(const TensorSpec& tensor) {
  switch (tensor.expansion) {
    case Expansion::kNodeOffset:
      return tensor.path + ": its values are numbers of nodes, which the batch counts anew";
    case Expansion::kEdgeSource:
    case Expansion::kEdgeTarget:
    case Expansion::kEdgeLabel:
    case Expansion::kEdgeSplits:
      return tensor.path + ": edges are completed after the tensors are computed";
    case Expansion::kWiden:
    case Expansion::kKeep:
      break;
  }
  return {};
}

std::size_t NumberOf(std::span<const TensorSpec> tensors, std::string_view path) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const TensorSpec& tensor) { return tensor.path == path; });
  assert(found != tensors.end());
  return static_cast<std::size_t>(found - tensors.begin());
}

bool IsEdgeEnd(Expansion expansion) {
  return expansion == Expansion::kEdgeSource || expansion == Expansion::kEdgeTarget ||
         expansion == Expansion::kEdgeLabel;
}

/// Whether choosing `a` brings `b`, other than by name.
bool SameEdges(const TensorSpec& a, const TensorSpec& b) {
  if (IsEdgeEnd(a.expansion) && IsEdgeEnd(b.expansion)) return a.splits == b.splits;
  return a.expansion == Expansion::kEdgeSplits && IsEdgeEnd(b.expansion) && b.splits == a.path;
}

}  // namespace

std::vector<Operand> OperandsOf(std::span<const TensorSpec> tensors) {
  std::vector<Operand> operands;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorSpec& tensor = tensors[i];
    if (tensor.kind == TensorKind::kSplits) continue;
    Operand operand;
    operand.tensor = i;
    operand.source.name = tensor.path;
    TensorType& type = operand.source.type;
    type.dtype = tensor.dtype;
    for (const std::uint64_t extent : tensor.inner) {
      type.inner.push_back(static_cast<std::uint32_t>(extent));
    }
    type.ragged = IsRagged(tensor);
    if (HasOwnRows(tensor)) type.rows = tensor.dimension;
    operand.source.widened = tensor.expansion == Expansion::kWiden;
    operand.source.unreadable = WhyUnreadable(tensor);
    if (type.ragged && tensors[NumberOf(tensors, tensor.splits)].of_graphs()) {
      operand.source.unreadable = tensor.path + ": it is cut by graphs, and not by examples";
    }
    operands.push_back(std::move(operand));
  }
  return operands;
}

std::vector<bool> WithCompanions(std::span<const TensorSpec> tensors, std::vector<bool> chosen) {
  // A tensor brings its splits, and edge_splits brings its group, which has other node splits. So
  // two rounds are enough.
  for (bool more = true; std::exchange(more, false);) {
    const auto choose = [&](std::size_t tensor) {
      more = more || !chosen[tensor];
      chosen[tensor] = true;
    };
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (!chosen[i]) continue;
      if (!tensors[i].splits.empty()) choose(NumberOf(tensors, tensors[i].splits));
      if (!tensors[i].node_splits.empty()) choose(NumberOf(tensors, tensors[i].node_splits));
      for (std::size_t j = 0; j < tensors.size(); ++j) {
        if (SameEdges(tensors[i], tensors[j])) choose(j);
      }
    }
  }
  return chosen;
}

Status ErrorOfBatch(const BatchInfo& info, const Status& why) {
  if (why.code() == StatusCode::kInternal || why.code() == StatusCode::kResourceExhausted) {
    return why.WithContext("tensor");
  }
  return DataLoss(fmt::format(
      "tensor {}, in the batch of epoch {} from place {} on: the values do not suit the pipeline; "
      "change its tensors, or leave such examples out with `filter` or `exclude`",
      why.message(), info.epoch, info.first_example));
}

OperandViews::OperandViews(std::span<const TensorSpec> tensors, std::span<const Operand> operands)
    : tensors_(tensors), operands_(operands) {
  for (const Operand& operand : operands) {
    Place place{operand.tensor, kNone};
    if (!tensors[operand.tensor].splits.empty()) {
      const std::size_t splits = NumberOf(tensors, tensors[operand.tensor].splits);
      const auto known = std::find(split_tensors_.begin(), split_tensors_.end(), splits);
      place.splits = static_cast<std::size_t>(known - split_tensors_.begin());
      if (known == split_tensors_.end()) split_tensors_.push_back(splits);
    }
    places_.push_back(place);
  }
  splits_.resize(split_tensors_.size());
  begins_.resize(split_tensors_.size());
  views_.resize(places_.size());
}

template <class Bytes>
std::span<const TensorView> OperandViews::View(const BatchInfo& info, std::size_t first,
                                               std::size_t rows, const Bytes& bytes_of) {
  struct Rows {
    std::size_t first;
    std::size_t count;
  };
  const auto rows_of = [&](std::size_t tensor) {
    return info.expand.merged && tensors_[tensor].of_graphs() ? Rows{0, info.graphs()}
                                                              : Rows{first, rows};
  };
  for (std::size_t i = 0; i < split_tensors_.size(); ++i) {
    const std::span<const std::byte> bytes = bytes_of(split_tensors_[i]);
    internal::VisitInteger(tensors_[split_tensors_[i]].dtype, [&](auto zero) {
      const Rows cut = rows_of(split_tensors_[i]);
      const auto values =
          internal::ValuesAs<decltype(zero)>(bytes).subspan(cut.first, cut.count + 1);
      splits_[i].assign(values.begin(), values.end());
    });
    begins_[i] = static_cast<std::uint64_t>(splits_[i].front());
    if (begins_[i] == 0) continue;
    for (std::int64_t& split : splits_[i]) split -= static_cast<std::int64_t>(begins_[i]);
  }
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    TensorView& view = views_[i];
    view.type = &operands_[i].source.type;
    const Rows own = rows_of(place.tensor);
    view.rows = own.count;
    std::uint64_t begin = own.first;
    std::uint64_t units = own.count;
    if (place.splits != kNone) {
      begin = begins_[place.splits];
      units = static_cast<std::uint64_t>(splits_[place.splits].back());
      if (view.type->ragged) {
        view.splits = splits_[place.splits];
      } else {
        view.rows = units;
      }
    }
    const std::uint64_t unit_bytes = view.type->UnitBytes();
    view.values = bytes_of(place.tensor).subspan(begin * unit_bytes, units * unit_bytes);
  }
  return views_;
}

std::span<const TensorView> OperandViews::Of(const PackedBatch& batch, std::size_t first,
                                             std::size_t rows) {
  return View(batch.info(), first, rows,
              [&](std::size_t tensor) { return batch.tensor_bytes(tensor); });
}

std::span<const TensorView> OperandViews::Of(const BatchWriter& writer) {
  return View(writer.info(), 0, writer.info().example_ids.size(),
              [&](std::size_t tensor) { return writer.values(tensor); });
}

}  // namespace millrace
