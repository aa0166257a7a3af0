#include "common/batch/batch_writer.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/core.h>

#include "common/batch/batch_frame.h"
#include "common/batch/layout/integer_visit.h"

namespace millrace {
namespace {

constexpr std::size_t kFirstCapacity = 4096;

bool Outside(const TensorSpec& spec, std::int64_t value) {
  return value < spec.min || (value >= 0 && static_cast<std::uint64_t>(value) > spec.max);
}

/// The bounds of a tensor, cut to the range of 32 bits.
struct Bounds {
  explicit Bounds(const TensorSpec& spec)
      : low(static_cast<std::uint32_t>(std::max<std::int64_t>(spec.min, 0))),
        high(static_cast<std::uint32_t>(
            std::min<std::uint64_t>(spec.max, std::numeric_limits<std::uint32_t>::max()))) {}
  std::uint32_t low;
  std::uint32_t high;
};

/// Copies values in a narrower type; returns whether one is out of bounds. This function knows
/// nothing of columns and has no branch per value, so that the compiler sees two plain arrays and
/// vectorises the loop.
template <class Out>
bool Narrow(const std::uint32_t* __restrict in, std::size_t n, Bounds bounds, Out* __restrict out) {
  std::uint32_t outside = 0;
  for (std::size_t i = 0; i < n; ++i) {
    outside |= static_cast<std::uint32_t>((in[i] < bounds.low) | (in[i] > bounds.high));
    out[i] = static_cast<Out>(in[i]);
  }
  return outside != 0;
}

}  // namespace

void BatchWriter::Column::Grow(std::size_t bytes) {
  const std::size_t wanted = std::max({kFirstCapacity, 2 * capacity, size + bytes + kSlack});
  std::unique_ptr<std::byte[], Free> grown(new (std::align_val_t(kTensorAlignment))
                                               std::byte[wanted]);
  if (size > 0) std::memcpy(grown.get(), data.get(), size);
  data = std::move(grown);
  capacity = wanted;
}

Result<BatchWriter> BatchWriter::Create(std::vector<TensorSpec> tensors, ExpandSpec expand,
                                        BufferPool& pool) {
  MILLRACE_ASSIGN_OR_RETURN(std::vector<EdgeGroup> edges, CheckTensors(tensors, expand));
  std::vector<Tensor> made(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const bool is_splits = tensors[i].kind == TensorKind::kSplits;
    const std::string& splits = is_splits ? tensors[i].path : tensors[i].splits;
    for (std::size_t k = tensors.size(); !splits.empty() && k-- > 0;) {
      if (tensors[k].splits == splits) made[i].rows_of = k;
    }
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) made[i].spec = std::move(tensors[i]);
  return BatchWriter(std::move(made), std::move(edges), expand, pool);
}

BatchWriter::BatchWriter(std::vector<Tensor> tensors, std::vector<EdgeGroup> edges,
                         ExpandSpec expand, BufferPool& pool)
    : tensors_(std::move(tensors)),
      columns_(tensors_.size()),
      edges_(std::move(edges)),
      pool_(&pool) {
  info_.expand = expand;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const TensorSpec& spec = tensors_[i].spec;
    Column& column = columns_[i];
    column.value_bytes = DTypeSize(spec.dtype);
    column.row_bytes = spec.row_bytes();
    column.min = spec.min;
    column.max = static_cast<std::int64_t>(
        std::min<std::uint64_t>(spec.max, std::numeric_limits<std::int64_t>::max()));
    if (spec.dtype == DType::kBool) column.max = 1;
    if (spec.kind == TensorKind::kSplits) splits_.push_back(i);
  }
}

std::vector<std::uint64_t> BatchWriter::OfNext(const std::vector<std::uint64_t>& values,
                                               std::size_t count) const {
  if (values.empty()) return {};
  const std::size_t next = info_.example_ids.size() + info_.dropped.size();
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(next);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

std::vector<std::uint64_t> BatchWriter::PassesOfNext(std::size_t count) const {
  return OfNext(passes_, count);
}

std::vector<std::uint64_t> BatchWriter::ChunksOfNext(std::size_t count) const {
  return OfNext(chunks_, count);
}

void BatchWriter::Begin(const Fingerprint& fingerprint, std::uint64_t epoch,
                        std::uint64_t first_example, std::uint32_t planned_examples) {
  info_.fingerprint = fingerprint;
  info_.epoch = epoch;
  info_.first_example = first_example;
  info_.planned_examples = planned_examples;
  info_.example_ids.clear();
  info_.dropped.clear();
  info_.lost_pieces.clear();
  info_.bound.reset();
  passes_.clear();
  chunks_.clear();
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    columns_[i].size = 0;
    columns_[i].late_rows = 0;
    tensors_[i].out_of_bounds = false;
  }
  for (const std::size_t i : splits_) AppendSplit(i, 0);
}

void BatchWriter::Append(std::size_t tensor, std::span<const std::uint32_t> values) {
  Tensor& t = tensors_[tensor];
  assert(t.spec.kind != TensorKind::kSplits && IsInteger(t.spec.dtype));
  const bool outside = internal::VisitInteger(t.spec.dtype, [&](auto zero) {
    using Out = decltype(zero);
    auto* out = reinterpret_cast<Out*>(columns_[tensor].Extend(values.size() * sizeof(Out)));
    return Narrow(values.data(), values.size(), Bounds(t.spec), out);
  });
  if (!outside) return;
  NoteOutside(tensor, *std::find_if(values.begin(), values.end(),
                                    [&](std::uint32_t value) { return Outside(t.spec, value); }));
}

void BatchWriter::NoteOutside(std::size_t tensor, std::uint64_t value) {
  Tensor& t = tensors_[tensor];
  if (t.out_of_bounds) return;
  t.out_of_bounds = true;
  t.bad_value = static_cast<std::int64_t>(value);
}

void BatchWriter::AppendBytes(std::size_t tensor, std::span<const std::byte> bytes) {
  assert(tensors_[tensor].spec.expansion == Expansion::kKeep);
  if (!bytes.empty()) {
    std::memcpy(columns_[tensor].Extend(bytes.size()), bytes.data(), bytes.size());
  }
}

void BatchWriter::EndExample(ExampleId id) {
  EndRows(false);
  info_.example_ids.push_back(id);
}

void BatchWriter::EndGraph() {
  assert(info_.expand.merged);
  EndRows(true);
}

void BatchWriter::EndRows(bool of_graphs) {
  for (const std::size_t i : splits_) {
    const bool is_of_graph = info_.expand.merged && tensors_[i].spec.of_graphs();
    if (is_of_graph != of_graphs) continue;
    assert(RowsAgree(tensors_[i].rows_of));
    AppendSplit(i, columns_[tensors_[i].rows_of].rows());
  }
}

bool BatchWriter::RowsAgree(std::size_t with) const {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor& t = tensors_[i];
    if (t.rows_of != with || t.spec.kind == TensorKind::kSplits) continue;
    if (columns_[i].rows() != columns_[with].rows()) return false;
  }
  return true;
}

void BatchWriter::AppendSplit(std::size_t splits, std::uint64_t rows) {
  AppendValue(splits, static_cast<std::int64_t>(rows));
  tensors_[splits].last_split = rows;
}

void BatchWriter::AddDropped(ExampleId id, DropReason reason) {
  info_.dropped.push_back({id, reason});
}

void BatchWriter::AddLostPieces(DropReason reason, std::uint64_t pieces) {
  if (pieces == 0) return;
  std::vector<LostPieces>& all = info_.lost_pieces;
  const auto at = std::find_if(all.begin(), all.end(),
                               [&](const LostPieces& lost) { return lost.reason >= reason; });
  if (at != all.end() && at->reason == reason) {
    at->pieces += pieces;
  } else {
    all.insert(at, {reason, pieces});
  }
}

void BatchWriter::AppendAll(const BatchWriter& other) {
  assert(!info_.expand.merged && columns_.size() == other.columns_.size());
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const Column& from = other.columns_[i];
    const Tensor& theirs = other.tensors_[i];
    if (theirs.spec.kind == TensorKind::kSplits) {
      const std::uint64_t before = tensors_[i].last_split;
      const std::uint64_t numbers = from.size / from.row_bytes;
      for (std::uint64_t row = 1; row < numbers; ++row) {
        AppendSplit(i, before + other.SplitAt(i, row));
      }
      continue;
    }
    if (from.size > 0) std::memcpy(columns_[i].Extend(from.size), from.data.get(), from.size);
    columns_[i].late_rows += from.late_rows;
    if (theirs.out_of_bounds) NoteOutside(i, static_cast<std::uint64_t>(theirs.bad_value));
  }
  info_.example_ids.insert(info_.example_ids.end(), other.info_.example_ids.begin(),
                           other.info_.example_ids.end());
  info_.dropped.insert(info_.dropped.end(), other.info_.dropped.begin(), other.info_.dropped.end());
  for (const LostPieces& lost : other.info_.lost_pieces) AddLostPieces(lost.reason, lost.pieces);
}

bool BatchWriter::in_bounds() const {
  return std::none_of(tensors_.begin(), tensors_.end(),
                      [](const Tensor& tensor) { return tensor.out_of_bounds; });
}

std::uint64_t BatchWriter::pending_bytes() const {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) bytes += this->bytes(i);
  return bytes;
}

Status BatchWriter::WriteValues(std::size_t tensor, BatchFrame& frame, std::size_t to) const {
  const Column& column = columns_[tensor];
  const std::span<std::byte> out = frame.room(to);
  if (column.late != nullptr) {
    return column.late->Write(tensor, *this, out,
                              [&](std::size_t bytes) { frame.Filled(to, bytes); });
  }
  if (column.size > 0) std::memcpy(out.data(), column.data.get(), column.size);
  return OkStatus();
}

Status BatchWriter::CheckComplete() const {
  const std::size_t examples = info_.example_ids.size();
  if (examples + info_.dropped.size() != info_.planned_examples) {
    return Internal(
        fmt::format("batch of {} planned examples was sealed with {} examples and {} "
                    "dropped",
                    info_.planned_examples, examples, info_.dropped.size()));
  }
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor& t = tensors_[i];
    if (t.out_of_bounds) {
      return Internal(fmt::format("tensor {}: value {} is outside its bounds {} to {}", t.spec.path,
                                  t.bad_value, columns_[i].min, columns_[i].max));
    }
    if (const std::uint64_t rest = columns_[i].size % columns_[i].row_bytes; rest != 0) {
      return Internal(fmt::format("tensor {}: ends with {} bytes of a row of {}", t.spec.path, rest,
                                  columns_[i].row_bytes));
    }
    const bool is_splits = t.spec.kind == TensorKind::kSplits;
    if (is_splits && t.last_split != columns_[t.rows_of].rows()) {
      return Internal(fmt::format("tensor {}: has {} rows, but the last example ended at {}",
                                  tensors_[t.rows_of].spec.path, columns_[t.rows_of].rows(),
                                  t.last_split));
    }
    const std::uint64_t expected =
        is_splits || t.rows_of == kNone ? info_.RowsOf(t.spec) : columns_[t.rows_of].rows();
    if (columns_[i].rows() != expected) {
      return Internal(fmt::format("tensor {}: has {} rows, expected {}", t.spec.path,
                                  columns_[i].rows(), expected));
    }
  }
  return OkStatus();
}

std::vector<TensorPlace> BatchWriter::Places() const {
  std::vector<TensorPlace> places(tensors_.size());
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    places[i].spec = tensors_[i].spec;
    places[i].rows = columns_[i].rows();
    places[i].bytes = bytes(i);
  }
  return places;
}

Result<std::shared_ptr<const PackedBatch>> BatchWriter::Seal() {
  MILLRACE_RETURN_IF_ERROR(CheckComplete());
  MILLRACE_ASSIGN_OR_RETURN(BatchFrame frame, BatchFrame::Make(info_, Places(), edges_, *pool_));
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(WriteValues(i, frame, i));
  }
  return frame.Finish();
}

}  // namespace millrace
