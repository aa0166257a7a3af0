// A source of documents in memory, for tests of packing: element j of document d is
// (31 d + j) mod 997 + 3 in `tokens`, and (7 d + j) mod 5 in `mask`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "common/base/hash.h"
#include "common/batch/batch_writer.h"
#include "server/source/declared_tensors.h"
#include "server/source/source.h"

namespace millrace::test {

class ListSource final : public Source {
 public:
  struct Options {
    std::vector<std::optional<std::uint64_t>> lengths;  // nullopt: it cannot be built
    std::set<std::uint64_t> lost = {};         // documents that are dropped when they are read
    std::set<std::uint64_t> longer = {};       // that have an element more than their column says
    std::set<std::uint64_t> longer_mask = {};  // whose mask has an element more
    bool by_parts = false;                     // whether parts of `tokens` can be read
    bool varies = false;
    const char* extra = nullptr;  // a further tensor, which is not cut
  };

  explicit ListSource(Options options) : options_(std::move(options)) {
    SourceFacts facts;
    facts.name = "list";
    facts.digest = Xxh3("list");
    facts.examples = options_.lengths.size();
    facts.columns = {{"tokens.length"}, {"long"}};
    facts.varies = options_.varies;
    facts.tensors = {DeclaredIds(facts.examples + 1)};
    Add("tokens", DType::kUint16, 999, facts.tensors);
    Add("mask", DType::kUint8, 4, facts.tensors);
    if (options_.extra != nullptr) {
      facts.tensors.push_back(DeclaredIds(2));
      facts.tensors.back().path = options_.extra;
    }
    SetFacts(std::move(facts));
  }

  static std::int64_t Token(std::uint64_t document, std::uint64_t j) {
    return static_cast<std::int64_t>((31 * document + j) % 997 + 3);
  }
  static std::int64_t Mask(std::uint64_t document, std::uint64_t j) {
    return static_cast<std::int64_t>((7 * document + j) % 5);
  }
  const Options& options() const { return options_; }
  /// How many documents were read as a whole.
  std::uint64_t read() const { return read_; }

  void ReadColumns(ExampleId first, std::span<const ColumnValues> wanted) const override {
    for (const ColumnValues& column : wanted) {
      for (std::size_t i = 0; i < column.values.size(); ++i) {
        const auto length =
            static_cast<std::int64_t>(options_.lengths[first.value() + i].value_or(0));
        column.values[i] = column.column == 0 ? length : length > 4;
      }
    }
  }
  bool Unmeasured(std::size_t /*column*/, ExampleId id) const override {
    return !options_.lengths[id.value()].has_value();
  }
  ExampleDescription Describe(ExampleId id) const override {
    return {.title = std::to_string(id.value()), .file = {}, .facts = {}};
  }
  std::unique_ptr<ExampleReader> NewReader() const override {
    return std::make_unique<Reader>(*this);
  }
  std::unique_ptr<ElementReader> NewElementReader(std::size_t /*tensor*/) const override {
    if (!options_.by_parts) return nullptr;
    return std::make_unique<PartReader>(*this);
  }

 private:
  static void Add(const char* path, DType dtype, std::uint64_t max,
                  std::vector<TensorSpec>& tensors) {
    TensorSpec spec;
    spec.path = path;
    spec.kind = TensorKind::kRaggedValues;
    spec.dtype = dtype;
    spec.dimension = path;
    spec.splits = std::string(path) + "_splits";
    spec.max = max;
    tensors.push_back(spec);
    tensors.push_back(DeclaredSplits(spec.splits));
  }

  class Reader final : public ExampleReader {
   public:
    explicit Reader(const ListSource& source) : source_(source) {}
    Status Append(std::span<const ExampleId> ids, BatchWriter& writer) override {
      const Options& options = source_.options();
      for (const ExampleId id : ids) {
        const std::uint64_t d = id.value();
        if (!options.lengths[d] || options.lost.contains(d)) {
          writer.AddDropped(id, DropReason::kTooLarge);
          continue;
        }
        ++source_.read_;
        const std::uint64_t length = *options.lengths[d] + options.longer.count(d);
        writer.AppendOne(0, static_cast<std::int64_t>(d));
        for (std::uint64_t j = 0; j < length; ++j) writer.AppendOne(1, Token(d, j));
        for (std::uint64_t j = 0; j < length + options.longer_mask.count(d); ++j) {
          writer.AppendOne(3, Mask(d, j));
        }
        if (options.extra != nullptr) writer.AppendOne(5, 1);
        writer.EndExample(id);
      }
      return OkStatus();
    }

   private:
    const ListSource& source_;
  };

  class PartReader final : public ElementReader {
   public:
    explicit PartReader(const ListSource& source) : source_(source) {}
    std::optional<DropReason> DropOf(ExampleId id) override {
      if (!source_.options().lost.contains(id.value())) return std::nullopt;
      return DropReason::kTooLarge;
    }
    Status Read(ExampleId id, std::uint64_t first, std::uint64_t count, std::byte* to) override {
      for (std::uint64_t j = first; j < first + count; ++j) {
        const auto token = static_cast<std::uint16_t>(Token(id.value(), j));
        std::memcpy(to + (j - first) * sizeof(token), &token, sizeof(token));
      }
      return OkStatus();
    }

   private:
    const ListSource& source_;
  };

  const Options options_;
  mutable std::uint64_t read_ = 0;
};

}  // namespace millrace::test
