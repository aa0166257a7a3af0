#include "server/plan/cache/cached_source.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "common/base/ask_for_line.h"
#include "common/base/hash.h"
#include "common/batch/batch_writer.h"
#include "server/plan/cache/packed_example.h"
#include "server/source/source_decorator.h"

namespace millrace {
namespace {

class CachedSource final : public SourceDecorator {
 public:
  CachedSource(std::shared_ptr<const Source> source, std::unique_ptr<const ExampleNames> names,
               const SourceCache& cache)
      : SourceDecorator(source, source->facts()),
        names_(std::move(names)),
        cache_(cache),
        packer_(this->source().tensors()) {}

  const ExamplePacker& packer() const { return packer_; }
  BuiltExamples& kept() const { return *cache_.examples; }
  CacheLevel level() const { return cache_.level; }
  /// Sets the keys of examples; that of an example that has no name is not set.
  void FindKeys(std::span<const ExampleId> ids, std::span<Digest128> keys) const {
    names_->Name(ids, keys);
    for (Digest128& key : keys) {
      if (!key.is_set()) continue;
      const std::array hashed = {cache_.operations, packer_.digest(), key};
      key = Xxh3(std::as_bytes(std::span(hashed)));
    }
  }

  std::unique_ptr<ExampleReader> NewReader() const override;

 private:
  const std::unique_ptr<const ExampleNames> names_;
  const SourceCache cache_;
  const ExamplePacker packer_;
};

/// Looks for all examples of a batch at once. Those that are missing are built together with their
/// neighbours that are missing too, because a reader is faster with many examples.
class CachedReader final : public ExampleReader {
 public:
  explicit CachedReader(const CachedSource& source)
      : source_(source), reader_(source.source().NewReader()) {}

  Status Append(std::span<const ExampleId> ids, BatchWriter& writer) override {
    keys_.resize(ids.size());
    found_.resize(ids.size());
    source_.FindKeys(ids, keys_);
    source_.kept().FindAll(keys_, found_, source_.level());
    const Status appended = AppendFound(ids, writer);
    found_.clear();
    return appended;
  }

 private:
  static constexpr std::size_t kAhead = 8;
  static constexpr std::size_t kLine = 64;  // bytes that are fetched at once

  Status AppendFound(std::span<const ExampleId> ids, BatchWriter& writer) {
    std::size_t missing = 0;  // examples before the present one that have to be built
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (i + kAhead < ids.size()) Prefetch(found_[i + kAhead]);
      if (found_[i] != nullptr) {
        MILLRACE_RETURN_IF_ERROR(Build(ids, i - missing, missing, writer));
        missing = 0;
        if (source_.packer().Unpack(found_[i]->bytes(), ids[i], writer)) continue;
      }
      ++missing;
    }
    return Build(ids, ids.size() - missing, missing, writer);
  }
  static void Prefetch(const ExamplePtr& example) {
    if (example == nullptr) return;
    const std::span<const std::byte> bytes = example->bytes();
    for (std::size_t at = 0; at < std::min<std::size_t>(bytes.size(), 8 * kLine); at += kLine) {
      AskForNearLine(bytes.data() + at);
    }
  }

  /// Builds `count` examples of a batch, beginning with `begin`, and keeps them.
  Status Build(std::span<const ExampleId> batch, std::size_t begin, std::size_t count,
               BatchWriter& writer) {
    if (count == 0) return OkStatus();
    const std::span<const ExampleId> ids = batch.subspan(begin, count);
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
      const Digest128& key = keys_[begin + i];
      if (key.is_set()) ++builds;
      if (key.is_set() && good) {
        built_.push_back({key, is_row ? source_.packer().Pack(writer, row)
                                      : ExamplePacker::PackDropped(dropped[drop].reason)});
      }
      ++(is_row ? row : drop);
    }
    kept.CountBuilds(builds);
    const bool to_disk = source_.level() == CacheLevel::kDisk && source_.verified();
    kept.Add(built_, to_disk ? CacheLevel::kDisk : CacheLevel::kMemory, damages);
    return OkStatus();
  }

  const CachedSource& source_;
  const std::unique_ptr<ExampleReader> reader_;
  std::vector<Digest128> keys_;
  std::vector<ExamplePtr> found_;
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
