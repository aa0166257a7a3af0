#include "server/plan/pack/pack_layout.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include <fmt/core.h>

namespace millrace {
namespace {

__extension__ using WidePack = unsigned __int128;

/// Whether the sums over documents and rows are possible.
bool ArePossible(const PackOptions& options, std::uint64_t documents, const PackTotals& totals) {
  const bool concat = options.method == PackMethod::kConcat;
  if (totals.elements > kMaxPackElements || totals.left_out > kMaxPackElements - totals.elements) {
    return false;
  }
  if (totals.empty > documents || totals.above > documents - totals.empty) return false;
  if (totals.rows > totals.pieces || totals.pieces > totals.elements) return false;
  const WidePack room = WidePack{totals.rows} * options.size;
  if (room < totals.elements || room - totals.elements > ~std::uint64_t{0}) return false;
  if (concat) {
    return totals.above == 0 && totals.left_out == 0 && room - totals.elements < options.size;
  }
  return totals.left_out == 0 || (options.above != PackAbove::kSplit && totals.above > 0);
}

}  // namespace

Status PackLayout::CheckLimits(const PackOptions& options, std::uint64_t documents) {
  if (!IsInLimits(options) || documents > kMaxPackDocuments) {
    return InvalidArgument(fmt::format(
        "{} documents in rows of {} and windows of {}: expected at most {} documents, rows of 1 to "
        "{} and windows of 1 to {}",
        documents, options.size, options.window, kMaxPackDocuments, kMaxPackSize, kMaxPackWindow));
  }
  return OkStatus();
}

PackWindows PackLayout::GroupsOf(const PackOptions& options, std::uint64_t documents) {
  return PackWindows(documents,
                     options.method == PackMethod::kConcat ? kConcatGroup : options.window);
}

Result<PackLayout> PackLayout::Make(const PackOptions& options, std::uint64_t documents,
                                    const PackTotals& totals, std::vector<std::uint64_t> counts) {
  MILLRACE_RETURN_IF_ERROR(CheckLimits(options, documents));
  if (const std::uint64_t groups = GroupsOf(options, documents).size(); counts.size() != groups) {
    return InvalidArgument(
        fmt::format("{} documents in {} groups: expected {}", documents, counts.size(), groups));
  }
  if (!ArePossible(options, documents, totals)) {
    return InvalidArgument(fmt::format(
        "{} documents, {} of them empty and {} above {}, cannot give {} pieces with {} elements in "
        "{} rows, and {} elements in none",
        documents, totals.empty, totals.above, options.size, totals.pieces, totals.elements,
        totals.rows, totals.left_out));
  }
  const std::uint64_t all = options.method == PackMethod::kConcat ? totals.elements : totals.rows;
  std::uint64_t sum = 0;
  for (std::uint64_t& count : counts) {
    if (count > all - sum) {
      return InvalidArgument(fmt::format("groups have more than the {} of all documents", all));
    }
    sum += std::exchange(count, sum);
  }
  if (sum != all) {
    return InvalidArgument(fmt::format("groups have {}, and all documents {}", sum, all));
  }
  counts.reserve(counts.size() + 1);  // push_back alone would take room for twice as many
  counts.push_back(sum);
  return PackLayout(options, documents, totals, std::move(counts));
}

PackLayout::PackLayout(const PackOptions& options, std::uint64_t documents,
                       const PackTotals& totals, std::vector<std::uint64_t> begins)
    : options_(options),
      documents_(documents),
      totals_(totals),
      windows_(GroupsOf(options, documents)),
      begins_(std::move(begins)) {}

std::uint64_t PackLayout::FirstDocument(std::uint64_t group) const {
  if (options_.method == PackMethod::kFit) return windows_.Begin(group);
  return std::min(documents_, group * kConcatGroup);
}

std::uint64_t PackLayout::GroupOf(std::uint64_t document) const {
  return options_.method == PackMethod::kFit ? windows_.Of(document) : document / kConcatGroup;
}

std::uint64_t PackLayout::GroupAt(std::uint64_t number) const {
  assert(number < begins_.back());
  // All but the last of the groups with equal numbers have nothing.
  const auto after = std::upper_bound(begins_.begin(), begins_.end(), number);
  return static_cast<std::uint64_t>(after - begins_.begin()) - 1;
}

}  // namespace millrace
