// Where the rows of all documents begin: what has to be kept to find a row by binary search.
//
// Documents are cut into *groups*: with kFit the windows, with kConcat runs of 256 documents. The
// layout has one number for each: with kFit the first row of the window, with kConcat the elements
// of all documents before the run.
//
// Immutable; thread-safe. 8 bytes for each group.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "server/plan/pack/pack_options.h"
#include "server/plan/pack/pack_totals.h"
#include "server/plan/pack/pack_windows.h"

namespace millrace {

class PackLayout {
 public:
  /// Documents of a group with kConcat.
  static constexpr std::uint64_t kConcatGroup = 256;

  /// InvalidArgument if options, or the number of documents, are beyond their limits.
  static Status CheckLimits(const PackOptions& options, std::uint64_t documents);
  /// The groups of n documents. REQUIRES: `options` are in their limits.
  static PackWindows GroupsOf(const PackOptions& options, std::uint64_t documents);

  /// A layout from what each group has: with kFit rows, with kConcat elements. InvalidArgument if
  /// options or documents are beyond their limits, or if numbers contradict each other.
  static Result<PackLayout> Make(const PackOptions& options, std::uint64_t documents,
                                 const PackTotals& totals, std::vector<std::uint64_t> counts);

  const PackOptions& options() const { return options_; }
  std::uint64_t documents() const { return documents_; }
  const PackTotals& totals() const { return totals_; }
  /// Number of rows, R.
  std::uint64_t rows() const { return totals_.rows; }
  /// Elements that rows lack.
  std::uint64_t padding() const { return totals_.Padding(options_.size); }

  std::uint64_t groups() const { return begins_.size() - 1; }
  /// The first document of a group; documents() for groups().
  std::uint64_t FirstDocument(std::uint64_t group) const;
  /// The group of a document. REQUIRES: document < documents().
  std::uint64_t GroupOf(std::uint64_t document) const;

  /// With kFit, the first row of a window, with kConcat the elements before the group; all of them
  /// for groups(). REQUIRES: group <= groups().
  std::uint64_t Begin(std::uint64_t group) const { return begins_[group]; }
  /// How many rows (kFit) or elements (kConcat) a group has.
  std::uint64_t CountOf(std::uint64_t group) const { return begins_[group + 1] - begins_[group]; }
  /// The group that has a row (kFit) or an element (kConcat). REQUIRES: there is such a row or
  /// element.
  std::uint64_t GroupAt(std::uint64_t number) const;

  /// Memory, without the object itself.
  std::uint64_t bytes() const { return begins_.capacity() * sizeof(std::uint64_t); }

 private:
  PackLayout(const PackOptions& options, std::uint64_t documents, const PackTotals& totals,
             std::vector<std::uint64_t> begins);

  PackOptions options_;
  std::uint64_t documents_;
  PackTotals totals_;
  PackWindows windows_;                // used by kFit
  std::vector<std::uint64_t> begins_;  // of each group, then the end of the last
};

}  // namespace millrace
