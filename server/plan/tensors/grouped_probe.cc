#include "server/plan/tensors/grouped_probe.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/hash.h"
#include "common/batch/arena.h"
#include "common/batch/batch_writer.h"
#include "common/batch/layout/tensor_table.h"

namespace millrace {
namespace {

/// Builds groups with one reader.
class GroupBuilder {
 public:
  static Result<GroupBuilder> Make(const Source& source) {
    auto pool = std::make_unique<BufferPool>();
    MILLRACE_ASSIGN_OR_RETURN(BatchWriter writer,
                              BatchWriter::Create(source.tensors(), source.expand(), *pool));
    return GroupBuilder(source, std::move(pool), std::move(writer));
  }

  /// None if an example failed, whose words are then in failure().
  Result<std::optional<std::vector<FunctionProbe>>> Build(std::span<const ExampleId> ids) {
    writer_.Begin({}, 0, 0, static_cast<std::uint32_t>(ids.size()));
    const Status read = reader_->Append(ids, writer_);
    if (read.code() == StatusCode::kAborted) {
      failure_ = read.message();
      return std::optional<std::vector<FunctionProbe>>();
    }
    MILLRACE_RETURN_IF_ERROR(read);
    std::vector<FunctionProbe> probes;
    const std::vector<ExampleId>& rows = writer_.info().example_ids;
    std::size_t row = 0;  // of the next example that was not dropped
    for (const ExampleId id : ids) {
      FunctionProbe& probe = probes.emplace_back(FunctionProbe{id, {}});
      // Rows are named by their whole examples.
      if (row < rows.size() && rows[row] == source_->ChunkOf(id).example) Digest(row++, probe);
    }
    return std::optional(std::move(probes));
  }
  const std::string& failure() const { return failure_; }
  std::uint64_t bytes() const { return writer_.pending_bytes(); }

 private:
  GroupBuilder(const Source& source, std::unique_ptr<BufferPool> pool, BatchWriter writer)
      : source_(&source),
        pool_(std::move(pool)),
        writer_(std::move(writer)),
        reader_(source.NewReader()) {}

  /// The rows of a tensor that an example has.
  std::pair<std::uint64_t, std::uint64_t> RowsOf(std::string_view splits, std::size_t row) const {
    if (splits.empty()) return {row, row + 1};
    const std::size_t number = *FindTensor(source_->tensors(), splits);
    return {writer_.SplitAt(number, row), writer_.SplitAt(number, row + 1)};
  }

  void Digest(std::size_t row, FunctionProbe& probe) const {
    const std::vector<TensorSpec>& tensors = source_->tensors();
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      if (source_->expand().merged) {
        probe.tensors.push_back(Xxh3(writer_.values(t)));
        continue;
      }
      const bool is_splits = tensors[t].kind == TensorKind::kSplits;
      const auto [begin, end] = RowsOf(is_splits ? tensors[t].path : tensors[t].splits, row);
      const std::uint64_t count = end - begin;
      const std::uint64_t unit = is_splits ? 0 : tensors[t].row_bytes();
      Xxh3Stream stream;
      stream.Update(std::as_bytes(std::span(&count, 1)));
      stream.Update(writer_.values(t).subspan(begin * unit, count * unit));
      probe.tensors.push_back(stream.Finish());
    }
  }

  const Source* source_;
  std::unique_ptr<BufferPool> pool_;
  BatchWriter writer_;
  std::unique_ptr<ExampleReader> reader_;
  std::string failure_;
};

}  // namespace

Result<GroupedProbes> BuildInGroups(const Source& source, std::span<const ExampleId> ids,
                                    const GroupOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(GroupBuilder builder, GroupBuilder::Make(source));
  const std::size_t size = source.expand().merged ? 1 : options.size;
  GroupedProbes built;
  std::size_t failures = 0;
  const auto add = [&](FunctionProbe probe) {
    failures += probe.failure.empty() ? 0 : 1;
    if (options.on_example) options.on_example(probe);
    built.examples.push_back(std::move(probe));
  };
  for (; !ids.empty() && failures < options.most_failures;
       ids = ids.subspan(std::min(size, ids.size()))) {
    const auto group = ids.first(std::min(size, ids.size()));
    MILLRACE_ASSIGN_OR_RETURN(auto probes, builder.Build(group));
    if (probes) {
      built.bytes += builder.bytes();
      for (FunctionProbe& probe : *probes) add(std::move(probe));
      continue;
    }
    for (std::size_t i = 0; i < group.size() && failures < options.most_failures; ++i) {
      std::optional<std::vector<FunctionProbe>> one;
      if (group.size() > 1) {
        MILLRACE_ASSIGN_OR_RETURN(one, builder.Build(group.subspan(i, 1)));
      }
      add(one ? std::move(one->front()) : FunctionProbe{group[i], {}, builder.failure()});
    }
  }
  return built;
}

}  // namespace millrace
