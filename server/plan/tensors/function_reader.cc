#include "server/plan/tensors/function_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "common/batch/layout/tensor_table.h"
#include "common/operands/operands.h"

namespace millrace {

FunctionReader::FunctionReader(const Source& source, const FunctionPlan& plan)
    : plan_(plan),
      pool_(std::make_unique<BufferPool>()),
      // The source's tensors are fine: its own plan would have refused them.
      examples_(*BatchWriter::Create(source.tensors(), source.expand(), *pool_)),
      reader_(source.NewReader()),
      run_(plan.graph) {
  const std::vector<TensorSpec>& tensors = source.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].kind == TensorKind::kSplits) continue;
    Copied copied{i, tensors[i].row_bytes(), std::nullopt};
    if (!tensors[i].splits.empty()) copied.splits = FindTensor(tensors, tensors[i].splits);
    copied_.push_back(copied);
  }
}

Status FunctionReader::Append(std::span<const ExampleId> ids, BatchWriter& writer) {
  if (ids.empty()) return OkStatus();
  dropped_.assign(ids.size(), false);
  passes_ = writer.PassesOfNext(ids.size());
  chunks_ = writer.ChunksOfNext(ids.size());
  for (bool first = true, again = true; again; first = false) {
    MILLRACE_ASSIGN_OR_RETURN(again, Build(ids, writer));
    if (!first) continue;
    // Later builds lack the examples that a function has dropped.
    for (const LostPieces& lost : examples_.info().lost_pieces) {
      writer.AddLostPieces(lost.reason, lost.pieces);
    }
  }
  const Status emitted = Emit(ids, writer);
  last_.reset();
  return emitted;
}

Result<bool> FunctionReader::Build(std::span<const ExampleId> ids, const BatchWriter& writer) {
  std::vector<std::size_t> numbers;  // of the wanted ids
  std::vector<ExampleId> wanted;
  std::vector<std::uint64_t> passes;
  std::vector<std::uint64_t> chunks;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (dropped_[i]) continue;
    numbers.push_back(i);
    wanted.push_back(ids[i]);
    if (!passes_.empty()) passes.push_back(passes_[i]);
    if (!chunks_.empty()) chunks.push_back(chunks_[i]);
  }
  const std::uint64_t epoch = writer.info().epoch;
  examples_.Begin({}, epoch, 0, static_cast<std::uint32_t>(wanted.size()));
  examples_.SetPasses(std::move(passes));
  examples_.SetChunks(std::move(chunks));
  MILLRACE_RETURN_IF_ERROR(reader_->Append(wanted, examples_));
  MILLRACE_RETURN_IF_ERROR(examples_.CheckComplete());

  // Those that the source has dropped are between the rows, in the order of the ids.
  const std::vector<ExampleId>& rows = examples_.info().example_ids;
  row_ids_.clear();
  request_.ids.clear();
  request_.epochs.clear();
  request_.chunks.clear();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (row_ids_.size() == rows.size() || rows[row_ids_.size()] != wanted[i]) continue;
    row_ids_.push_back(numbers[i]);
    request_.ids.push_back(wanted[i].value());
    request_.epochs.push_back(passes_.empty() ? epoch : passes_[numbers[i]]);
    if (!chunks_.empty()) request_.chunks.push_back(chunks_[numbers[i]]);
  }
  last_.reset();
  if (row_ids_.empty()) return false;
  run_.Begin(examples_);
  for (std::size_t call = 0; call + 1 < plan_.calls.size(); ++call) {
    MILLRACE_ASSIGN_OR_RETURN(const PluginReply reply, Call(call, writer));
    if (reply.dropped() > 0) {
      for (std::size_t row = 0; row < row_ids_.size(); ++row) {
        if (reply.outcome(row) == RowOutcome::kDropped) dropped_[row_ids_[row]] = true;
      }
      return true;
    }
    Keep(call, reply);
  }
  MILLRACE_ASSIGN_OR_RETURN(last_, Call(plan_.calls.size() - 1, writer));
  return false;
}

Result<PluginReply> FunctionReader::Call(std::size_t number, const BatchWriter& writer) {
  const OpenedCall& opened = plan_.calls[number];
  const Result<std::span<const TensorView>> inputs = run_.Inputs(number);
  if (!inputs.ok()) return ErrorOfBatch(writer.info(), inputs.status());
  request_.inputs.assign(inputs->begin(), inputs->end());
  MILLRACE_ASSIGN_OR_RETURN(PluginReply reply, opened.pool->Build(request_, plan_.stop));
  for (std::size_t row = 0; row < reply.rows(); ++row) {
    if (reply.outcome(row) != RowOutcome::kFailed) continue;
    const std::uint64_t id = request_.ids[row];
    return Aborted(fmt::format(
        "tensors.{}: plugin {}\nto go on without it, write `exclude: {{examples: [{}]}}`",
        opened.call.tensor, DescribeFailure(reply.failure(row), opened.object.ToString(), id), id));
  }
  return reply;
}

void FunctionReader::Keep(std::size_t number, const PluginReply& reply) {
  std::vector<FunctionGraph::Made>& made = run_.made(number);
  const std::vector<PythonFunction::Output>& outputs = plan_.calls[number].call.function.outputs;
  for (std::size_t t = 0; t < made.size(); ++t) {
    made[t].bytes = 0;
    made[t].splits.assign(1, 0);
    for (std::size_t row = 0; row < reply.rows(); ++row) {
      made[t].bytes += reply.values(t, row).size();
      if (outputs[t].type.ragged) {
        made[t].splits.push_back(made[t].splits.back() +
                                 static_cast<std::int64_t>(reply.extent(t, row)));
      }
    }
    made[t].words.resize((made[t].bytes + 7) / 8);
    auto* to = reinterpret_cast<std::byte*>(made[t].words.data());
    for (std::size_t row = 0; row < reply.rows(); ++row) {
      const std::span<const std::byte> values = reply.values(t, row);
      if (!values.empty()) std::memcpy(to, values.data(), values.size());
      to += values.size();
    }
  }
  run_.SetMade(number);
}

Status FunctionReader::Emit(std::span<const ExampleId> ids, BatchWriter& writer) {
  const std::vector<DroppedExample>& dropped = examples_.info().dropped;
  std::size_t row = 0;
  std::size_t drop = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (dropped_[i]) {
      writer.AddDropped(ids[i], plan_.dropped);
    } else if (row < row_ids_.size() && row_ids_[row] == i) {
      if (last_->outcome(row) == RowOutcome::kDropped) {
        writer.AddDropped(ids[i], plan_.dropped);
      } else {
        CopyRow(row, writer);
        AppendMade(row, writer);
        writer.EndExample(ids[i]);
      }
      ++row;
    } else if (drop < dropped.size() && dropped[drop].id == ids[i]) {
      writer.AddDropped(ids[i], dropped[drop++].reason);
    } else {
      return Internal(fmt::format("example {} was neither built nor dropped", ids[i].value()));
    }
  }
  return OkStatus();
}

void FunctionReader::CopyRow(std::size_t row, BatchWriter& writer) {
  for (const Copied& tensor : copied_) {
    std::uint64_t first = row;
    std::uint64_t rows = 1;
    if (tensor.splits) {
      first = examples_.SplitAt(*tensor.splits, row);
      rows = examples_.SplitAt(*tensor.splits, row + 1) - first;
    }
    writer.AppendPacked(
        tensor.number,
        examples_.values(tensor.number).subspan(first * tensor.row_bytes, rows * tensor.row_bytes));
  }
}

void FunctionReader::AppendMade(std::size_t row, BatchWriter& writer) {
  const std::size_t last = plan_.calls.size() - 1;
  for (std::size_t call = 0; call < last; ++call) {
    const std::vector<FunctionGraph::Made>& made = run_.made(call);
    const std::vector<PythonFunction::Output>& outputs = plan_.calls[call].call.function.outputs;
    for (std::size_t t = 0; t < made.size(); ++t) {
      const std::size_t unit = outputs[t].type.UnitBytes();
      const bool ragged = outputs[t].type.ragged;
      const std::size_t first = ragged ? static_cast<std::size_t>(made[t].splits[row]) : row;
      const std::size_t end = ragged ? static_cast<std::size_t>(made[t].splits[row + 1]) : row + 1;
      writer.AppendBytes(
          plan_.numbers[call][t],
          std::as_bytes(std::span(made[t].words)).subspan(first * unit, (end - first) * unit));
    }
  }
  for (std::size_t t = 0; t < plan_.numbers[last].size(); ++t) {
    writer.AppendBytes(plan_.numbers[last][t], last_->values(t, row));
  }
}

}  // namespace millrace
