// The part of the split that each example of a source belongs to. Labels are computed, not stored.
//
// Immutable; thread-safe. Refers to the source, which must outlive it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "server/dataset/source.h"
#include "server/dataset/split.h"

namespace millrace {

class SplitLabels {
 public:
  /// InvalidArgument if the split does not fit the source.
  static Result<SplitLabels> Make(const Source& source, const SplitOptions& split);

  /// Number of labels that can occur; at least 1.
  std::uint32_t size() const { return size_; }
  /// The label of an example. REQUIRES: the source has it.
  std::uint32_t Of(const Source& source, ExampleId example) const;

  /// Adds the columns that a Reader reads to the wanted columns.
  void AddColumns(WantedColumns& wanted) const;

  /// Reads labels of examples in the order of their ids. Neighbours often share one identity, which
  /// is then hashed only once. Not thread-safe; refers to the labels.
  class Reader {
   public:
    explicit Reader(const SplitLabels& labels) : labels_(labels) {}
    std::uint32_t Of(const ExampleColumns& columns);

   private:
    const SplitLabels& labels_;
    std::optional<std::uint64_t> known_;
    std::uint32_t label_ = 0;  // the label of known_
  };

 private:
  SplitLabels() = default;

  std::uint32_t LabelOf(const std::optional<std::uint64_t>& identity) const {
    return identity ? hash_->Label(*identity) : 0;
  }

  std::uint32_t size_ = 1;
  std::optional<HashSplit> hash_;
  std::vector<std::uint32_t> by_file_;  // labels by file; used for a split by files
};

}  // namespace millrace
