// The part of the split that each example of a source belongs to. Labels are computed, not stored.
//
// Immutable; thread-safe. Refers to the source, which must outlive it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "server/source/source.h"
#include "server/source/split.h"

namespace millrace {

class SplitLabels {
 public:
  /// InvalidArgument if the split does not fit the source.
  static Result<SplitLabels> Make(const Source& source, const SplitOptions& split);

  /// Number of labels that can occur; at least 1.
  std::uint32_t size() const { return size_; }
  /// The label of an example. REQUIRES: the source has it.
  std::uint32_t Of(const Source& source, ExampleId example) const;

  /// The number of the column that a Reader reads; nullopt if all labels are 0.
  std::optional<std::size_t> column() const { return column_; }

  /// Reads labels of examples in the order of their ids. Neighbours often share one value, which is
  /// then hashed only once. Not thread-safe; refers to the labels.
  class Reader {
   public:
    explicit Reader(const SplitLabels& labels) : labels_(labels) {}
    /// The label of an example with this value in column().
    std::uint32_t Of(std::int64_t value);

   private:
    const SplitLabels& labels_;
    std::optional<std::int64_t> known_;
    std::uint32_t label_ = 0;  // the label of known_
  };

 private:
  SplitLabels() = default;

  std::uint32_t LabelOf(std::int64_t value) const {
    return hash_ ? hash_->Label(static_cast<std::uint64_t>(value))
                 : by_file_[static_cast<std::size_t>(value)];
  }

  std::uint32_t size_ = 1;
  std::optional<std::size_t> column_;
  std::optional<HashSplit> hash_;
  std::vector<std::uint32_t> by_file_;  // labels by file; used for a split by files
};

}  // namespace millrace
