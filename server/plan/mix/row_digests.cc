#include "server/plan/mix/row_digests.h"

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/core.h>

#include "common/base/hash.h"
#include "server/plan/mix/digest_numbers.h"
#include "server/plan/mix/rows_by_depth.h"

namespace millrace {
namespace {

using Unsigned = std::vector<std::uint64_t>;
using Signed = std::vector<std::int64_t>;

class RowDigester {
 public:
  RowDigester(const std::vector<LinkedColumn>& columns, bool first_is_none, std::size_t table,
              const NamedTable& values, const std::vector<std::vector<Digest128>>& known)
      : columns_(columns),
        first_is_none_(first_is_none),
        table_(table),
        values_(values),
        known_(known) {}

  Result<std::vector<Digest128>> Run() {
    std::vector<OwnReferences> own;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (Status status = CheckColumn(c); !status.ok()) return status.WithContext(Where(c));
      if (IsReference(c) && columns_[c].table == table_) own.push_back({columns_[c], Numbers(c)});
    }
    const std::uint64_t rows = values_.spec.rows;
    auto order = RowsByDepth(rows, own, first_is_none_);
    if (!order.ok()) return order.status();
    digests_.resize(rows);
    for (const std::uint32_t row : *order) digests_[row] = Counted(DigestOf(row));
    return std::move(digests_);
  }

 private:
  bool IsReference(std::size_t c) const { return columns_[c].role == ColumnRole::kReference; }
  std::span<const std::uint64_t> Numbers(std::size_t c) const {
    return std::get<Unsigned>(values_.columns[c]);
  }
  std::string Where(std::size_t c) const {
    return fmt::format("column '{}'", values_.spec.columns[c].name);
  }
  std::uint64_t RowsOfTarget(std::size_t c) const {
    return columns_[c].table == table_ ? values_.spec.rows : known_[columns_[c].table].size();
  }

  Status CheckColumn(std::size_t c) {
    if (IsReference(c)) return CheckReferences(c);
    return columns_[c].role == ColumnRole::kRun ? FindRuns(c) : OkStatus();
  }
  Status CheckReferences(std::size_t c) const {
    const std::span<const std::uint64_t> numbers = Numbers(c);
    for (std::size_t row = first_is_none_ ? 1 : 0; row < numbers.size(); ++row) {
      const std::optional<std::uint64_t> to = columns_[c].Row(numbers[row]);
      if (!to || *to < RowsOfTarget(c)) continue;
      return DataLoss(fmt::format("row {} refers to row {} of {}", row, *to, RowsOfTarget(c)));
    }
    return OkStatus();
  }
  /// Finds where the first run begins.
  Status FindRuns(std::size_t c) {
    std::uint64_t left = RowsOfTarget(c);
    for (const std::uint64_t run : Numbers(c)) {
      if (run > left) {
        return DataLoss(
            fmt::format("its runs have more rows than the {} that there are", RowsOfTarget(c)));
      }
      left -= run;
    }
    run_begins_.resize(columns_.size());
    Unsigned& begins = run_begins_[c];
    for (const std::uint64_t run : Numbers(c)) {
      begins.push_back(left);
      left += run;
    }
    return OkStatus();
  }

  Digest128 DigestOf(std::uint32_t row) {
    if (first_is_none_ && row == 0) return {};
    bytes_.clear();
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (columns_[c].role) {
        AppendLinked(c, row);
      } else if (const auto* const texts = std::get_if<TextColumn>(&values_.columns[c])) {
        AppendNumber((*texts)[row].size());
        bytes_.append((*texts)[row]);
      } else if (const auto* const numbers = std::get_if<Signed>(&values_.columns[c])) {
        AppendNumber(static_cast<std::uint64_t>((*numbers)[row]));
      } else {
        AppendNumber(Numbers(c)[row]);
      }
    }
    return Xxh3(bytes_);
  }
  void AppendLinked(std::size_t c, std::uint32_t row) {
    const std::vector<Digest128>& digests =
        columns_[c].table == table_ ? digests_ : known_[columns_[c].table];
    const std::uint64_t value = Numbers(c)[row];
    switch (*columns_[c].role) {
      case ColumnRole::kReference: {
        const std::optional<std::uint64_t> to = columns_[c].Row(value);
        return AppendDigest(to ? digests[*to] : Digest128{});
      }
      case ColumnRole::kRun:
        AppendNumber(value);
        for (std::uint64_t i = 0; i < value; ++i) AppendDigest(digests[run_begins_[c][row] + i]);
        return;
      case ColumnRole::kCount:
        return;
    }
  }
  void AppendNumber(std::uint64_t number) {
    char word[sizeof number];
    std::memcpy(word, &number, sizeof number);
    bytes_.append(word, sizeof word);
  }
  void AppendDigest(const Digest128& digest) {
    AppendNumber(digest.high);
    AppendNumber(digest.low);
  }

  /// The digest of a row that is like `before` others, which came with the same digest.
  Digest128 Counted(const Digest128& digest) {
    const auto [number, is_new] = met_.Add(digest);
    if (is_new) times_.push_back(0);
    const std::uint32_t before = times_[number]++;
    if (before == 0) return digest;
    bytes_.clear();
    AppendDigest(digest);
    AppendNumber(before);
    return Xxh3(bytes_);
  }

  const std::vector<LinkedColumn>& columns_;
  const bool first_is_none_;
  const std::size_t table_;
  const NamedTable& values_;
  const std::vector<std::vector<Digest128>>& known_;
  std::vector<Unsigned> run_begins_;  // by column
  std::vector<Digest128> digests_;    // of the table
  DigestNumbers met_;                 // before rows like others are counted
  std::vector<std::uint32_t> times_;  // by number: how often it was met
  std::string bytes_;                 // of one row
};

}  // namespace

Result<std::vector<Digest128>> DigestRows(const std::vector<LinkedColumn>& columns,
                                          bool first_is_none, std::size_t table,
                                          const NamedTable& values,
                                          const std::vector<std::vector<Digest128>>& known) {
  return RowDigester(columns, first_is_none, table, values, known).Run();
}

}  // namespace millrace
