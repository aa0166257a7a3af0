#include "server/plan/order/split_labels.h"

#include <utility>

#include <fmt/core.h>

namespace millrace {

Result<SplitLabels> SplitLabels::Make(const Source& source, const SplitOptions& split) {
  SplitLabels labels;
  labels.size_ = split.labels();
  if (labels.size_ > kMaxSplitLabels) {
    return InvalidArgument(
        fmt::format("split: expected at most {} parts, got {}", kMaxSplitLabels, labels.size_));
  }
  if (split.method == SplitMethod::kHash) {
    MILLRACE_ASSIGN_OR_RETURN(labels.hash_, HashSplit::Create(split));
    if (source.facts().split_column.empty()) return labels;
    MILLRACE_ASSIGN_OR_RETURN(labels.column_, source.FindColumn(source.facts().split_column));
  } else if (split.method == SplitMethod::kFilePrefix) {
    MILLRACE_ASSIGN_OR_RETURN(labels.by_file_, source.FileLabels(split));
    MILLRACE_ASSIGN_OR_RETURN(labels.column_, source.FindColumn(kFileColumn));
  }
  return labels;
}

std::uint32_t SplitLabels::Of(const Source& source, ExampleId example) const {
  if (!column_) return 0;
  std::int64_t value = 0;
  const ColumnValues wanted{*column_, {&value, 1}};
  source.ReadColumns(example, {&wanted, 1});
  return LabelOf(value);
}

std::uint32_t SplitLabels::Reader::Of(std::int64_t value) {
  if (!labels_.hash_) return labels_.LabelOf(value);
  if (value != known_) {
    known_ = value;
    label_ = labels_.LabelOf(value);
  }
  return label_;
}

}  // namespace millrace
