#include "server/pipeline/order/split_labels.h"

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
  } else if (split.method == SplitMethod::kFilePrefix) {
    MILLRACE_ASSIGN_OR_RETURN(labels.by_file_, source.FileLabels(split));
  }
  return labels;
}

std::uint32_t SplitLabels::Of(const Source& source, ExampleId example) const {
  if (hash_) return LabelOf(source.SplitIdentity(example));
  return by_file_.empty() ? 0 : by_file_[source.File(example)];
}

void SplitLabels::AddColumns(WantedColumns& wanted) const {
  wanted.split_identity = wanted.split_identity || hash_.has_value();
  wanted.file = wanted.file || !by_file_.empty();
}

std::uint32_t SplitLabels::Reader::Of(const ExampleColumns& columns) {
  if (!labels_.hash_) return labels_.by_file_.empty() ? 0 : labels_.by_file_[columns.file];
  if (columns.split_identity != known_) {
    known_ = columns.split_identity;
    label_ = labels_.LabelOf(known_);
  }
  return label_;
}

}  // namespace millrace
