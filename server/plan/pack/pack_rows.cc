#include "server/plan/pack/pack_rows.h"

#include <cassert>
#include <utility>

#include <fmt/core.h>

#include "server/plan/pack/concat_rows.h"
#include "server/plan/pack/fit_rows.h"

namespace millrace {

std::unique_ptr<PackRows> PackRows::Make(std::shared_ptr<const PackLayout> layout,
                                         std::shared_ptr<const DocumentLengths> lengths,
                                         std::uint64_t cache_bytes) {
  assert(layout->documents() == lengths->documents());
  if (layout->options().method == PackMethod::kConcat) {
    return std::make_unique<ConcatRows>(std::move(layout), std::move(lengths), cache_bytes);
  }
  return std::make_unique<FitRows>(std::move(layout), std::move(lengths), cache_bytes);
}

void PackRows::ReadGroup(std::uint64_t group, std::vector<std::uint64_t>& lengths) const {
  const std::uint64_t first = layout_->FirstDocument(group);
  lengths.resize(layout_->FirstDocument(group + 1) - first);
  lengths_->Read(first, lengths);
}

Status PackRows::Contradicts(std::uint64_t group, std::uint64_t found) const {
  return DataLoss(fmt::format(
      "documents {} to {} in pack order give {} {}: expected {}, as they did when the layout was "
      "made; it or the lengths are damaged, or of other data",
      layout_->FirstDocument(group), layout_->FirstDocument(group + 1) - 1, found,
      layout_->options().method == PackMethod::kConcat ? "elements" : "rows",
      layout_->CountOf(group)));
}

}  // namespace millrace
