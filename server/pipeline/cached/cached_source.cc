#include "server/pipeline/cached/cached_source.h"

#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "common/base/hash.h"
#include "common/batch/batch_writer.h"
#include "server/pipeline/cached/packed_example.h"

namespace millrace {
namespace {

class CachedSource final : public Source {
 public:
  CachedSource(std::shared_ptr<const Source> source, std::unique_ptr<const ExampleNames> names,
               const SourceCache& cache)
      : source_(std::move(source)),
        names_(std::move(names)),
        cache_(cache),
        packer_(source_->tensors()) {}

  const Source& source() const { return *source_; }
  const ExamplePacker& packer() const { return packer_; }
  BuiltExamples& kept() const { return *cache_.examples; }
  CacheLevel level() const { return cache_.level; }
  std::optional<Digest128> KeyOf(ExampleId id) const {
    const std::optional<Digest128> name = names_->Of(id);
    if (!name) return std::nullopt;
    const std::array parts = {cache_.operations, packer_.digest(), *name};
    return Xxh3(std::as_bytes(std::span(parts)));
  }

  Digest128 digest() const override { return source_->digest(); }
  std::string_view name() const override { return source_->name(); }
  std::uint64_t examples() const override { return source_->examples(); }

  const std::vector<std::string>& columns() const override { return source_->columns(); }
  void ReadColumns(ExampleId first, std::span<const ColumnValues> wanted) const override {
    source_->ReadColumns(first, wanted);
  }
  bool Unmeasured(std::size_t column, ExampleId id) const override {
    return source_->Unmeasured(column, id);
  }
  std::string_view split_column() const override { return source_->split_column(); }
  Result<std::vector<std::uint32_t>> FileLabels(const SplitOptions& options) const override {
    return source_->FileLabels(options);
  }
  ExampleDescription Describe(ExampleId id) const override { return source_->Describe(id); }

  const std::vector<TensorSpec>& tensors() const override { return source_->tensors(); }
  const ExpandSpec& expand() const override { return source_->expand(); }
  std::unique_ptr<ExampleReader> NewReader() const override;
  std::unique_ptr<const ExampleNames> NewNames() const override { return source_->NewNames(); }
  bool verified() const override { return source_->verified(); }
  LookupTables arrays() const override { return source_->arrays(); }
  Status CheckIntact() const override { return source_->CheckIntact(); }
  DropReasonNames drop_reasons() const override { return source_->drop_reasons(); }
  std::uint64_t max_example_bytes() const override { return source_->max_example_bytes(); }

  std::vector<SourceTableSpec> tables() const override { return source_->tables(); }
  void WriteTable(std::size_t table, TableWriter& out) const override {
    source_->WriteTable(table, out);
  }

 private:
  const std::shared_ptr<const Source> source_;
  const std::unique_ptr<const ExampleNames> names_;
  const SourceCache cache_;
  const ExamplePacker packer_;
};

/// Takes examples from the cache one by one. Those that are missing are built together with their
/// neighbours that are missing too, because a reader is faster with many examples at once.
class CachedReader final : public ExampleReader {
 public:
  explicit CachedReader(const CachedSource& source)
      : source_(source), reader_(source.source().NewReader()) {}

  Status Append(std::span<const ExampleId> ids, BatchWriter& writer) override {
    std::size_t missing = 0;  // examples before the present one that have to be built
    keys_.clear();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::optional<Digest128> key = source_.KeyOf(ids[i]);
      const ExamplePtr found = key ? source_.kept().Find(*key, source_.level()) : nullptr;
      if (found != nullptr) {
        MILLRACE_RETURN_IF_ERROR(Build(ids.subspan(i - missing, missing), writer));
        missing = 0;
        if (source_.packer().Unpack(found->bytes(), ids[i], writer)) continue;
      }
      ++missing;
      keys_.push_back(key);
    }
    return Build(ids.last(missing), writer);
  }

 private:
  /// Builds the examples whose keys are keys_, and keeps them.
  Status Build(std::span<const ExampleId> ids, BatchWriter& writer) {
    if (ids.empty()) return OkStatus();
    BuiltExamples& kept = source_.kept();
    const std::uint64_t damages = kept.damages();
    std::size_t row = writer.info().example_ids.size();
    std::size_t drop = writer.info().dropped.size();
    MILLRACE_RETURN_IF_ERROR(reader_->Append(ids, writer));
    const std::span<const ExampleId> rows = writer.info().example_ids;
    const std::span<const DroppedExample> dropped = writer.info().dropped;
    // Sealing the batch will fail, or the caller will find damage: such values are not kept.
    const bool good = writer.in_bounds() && source_.CheckIntact().ok();
    built_.clear();
    std::uint64_t builds = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      // Equal ids have equal outcomes, so it does not matter which of them a row belongs to.
      const bool is_row = row < rows.size() && rows[row] == ids[i];
      if (keys_[i]) ++builds;
      if (keys_[i] && good) {
        built_.push_back({*keys_[i], is_row ? source_.packer().Pack(writer, row)
                                            : ExamplePacker::PackDropped(dropped[drop].reason)});
      }
      ++(is_row ? row : drop);
    }
    keys_.clear();
    kept.CountBuilds(builds);
    const bool to_disk = source_.level() == CacheLevel::kDisk && source_.verified();
    kept.Add(built_, to_disk ? CacheLevel::kDisk : CacheLevel::kMemory, damages);
    return OkStatus();
  }

  const CachedSource& source_;
  const std::unique_ptr<ExampleReader> reader_;
  std::vector<std::optional<Digest128>> keys_;
  std::vector<BuiltExample> built_;
};

std::unique_ptr<ExampleReader> CachedSource::NewReader() const {
  return std::make_unique<CachedReader>(*this);
}

}  // namespace

Result<std::shared_ptr<const Source>> WithCache(std::shared_ptr<const Source> source,
                                                const SourceCache& cache) {
  if (cache.level == CacheLevel::kNone) return source;
  std::unique_ptr<const ExampleNames> names = source->NewNames();
  if (names == nullptr) {
    return InvalidArgument(
        fmt::format("cache.examples: what is built of the examples of '{}' depends on more than "
                    "the dataset and the operations, so it cannot be kept; leave cache out",
                    source->name()));
  }
  if (cache.examples == nullptr) return source;
  return std::shared_ptr<const Source>(
      std::make_shared<CachedSource>(std::move(source), std::move(names), cache));
}

}  // namespace millrace
