#include "server/plan/mix/joined_tables.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <variant>

#include <fmt/core.h>

#include "common/base/hash.h"
#include "server/plan/mix/digest_numbers.h"
#include "server/plan/mix/row_digests.h"
#include "server/plan/mix/source_tables.h"
#include "server/plan/mix/table_agreement.h"

namespace millrace {
namespace {

constexpr std::uint64_t kMaxJoinedRows = std::numeric_limits<std::uint32_t>::max() - 1;

/// Digests of the values of a source's tables.
std::vector<Digest128> DigestTables(const Source& source,
                                    const std::vector<SourceTableSpec>& specs) {
  std::vector<Digest128> digests;
  for (std::size_t table = 0; table < specs.size(); ++table) {
    digests.push_back(Xxh3(TableBytes(source, specs[table].table, table)));
  }
  return digests;
}

Status Differ(const SourceTableSpec& a, const std::string& branch_a, const SourceTableSpec& b,
              const std::string& branch_b) {
  return InvalidArgument(fmt::format(
      "branches '{}' and '{}' differ in the table '{}' ({} and {} rows), so the same "
      "number would mean one thing in batches of '{}' and another in those of '{}'; "
      "write `tables: joint` to number the rows of all branches together",
      branch_a, branch_b, a.table.name, a.table.rows, b.table.rows, branch_a, branch_b));
}

}  // namespace

/// Joins the tables of branches that differ, one branch after another.
class JoinedTables::Joiner {
 public:
  explicit Joiner(JoinedTables& result) : result_(result), numbers_(result.specs_.size()) {}

  Status Add(Input& input) {
    digests_.assign(result_.specs_.size(), {});
    const std::vector<SourceTableSpec> specs = input.branch.source->table_specs();
    for (const std::size_t table : result_.links_.order) {
      Status status = AddTable(input, specs[table], table);
      if (!status.ok()) {
        return status.WithContext(
            fmt::format("branch '{}': table '{}'", input.branch.name, specs[table].table.name));
      }
    }
    return OkStatus();
  }

 private:
  Status AddTable(Input& input, const SourceTableSpec& spec, std::size_t table) {
    DigestNumbers& numbers = numbers_[table];
    if (spec.table.rows > kMaxJoinedRows - numbers.size()) {
      return InvalidArgument(
          fmt::format("its {} rows and the {} of the branches before it are "
                      "more than the {} that a table may have",
                      spec.table.rows, numbers.size(), kMaxJoinedRows));
    }
    MILLRACE_ASSIGN_OR_RETURN(const NamedTable values,
                              ReadSourceTable(*input.branch.source, spec.table, table));
    MILLRACE_ASSIGN_OR_RETURN(
        digests_[table],
        DigestRows(result_.links_.columns[table], spec.first_is_none, table, values, digests_));
    Placed& placed = input.tables[table];
    placed.joined_before = numbers.size();
    placed.rows.reserve(digests_[table].size());
    bool moved = false;
    for (const Digest128& digest : digests_[table]) {
      const std::uint32_t row = numbers.Add(digest).number;
      moved = moved || row != placed.rows.size();
      placed.rows.push_back(row);
    }
    if (!moved) placed.rows = {};
    result_.specs_[table].table.rows = numbers.size();
    return CheckBeforeRuns(input, values, table);
  }

  /// Rows that lie before all runs have to be those of the first branch: others would come between
  /// the runs.
  Status CheckBeforeRuns(const Input& input, const NamedTable& values, std::size_t table) {
    const std::vector<LinkedColumn>& columns = result_.links_.columns[table];
    for (std::size_t c = 0; c < columns.size(); ++c) {
      if (columns[c].role != ColumnRole::kRun) continue;
      const std::size_t target = columns[c].table;
      std::uint64_t before = digests_[target].size();
      for (const std::uint64_t run : std::get<std::vector<std::uint64_t>>(values.columns[c])) {
        before -= run;
      }
      const std::uint64_t expected = before_runs_.try_emplace({table, c}, before).first->second;
      std::uint64_t same = 0;
      while (same < before && input.tables[target].Row(same) == same) ++same;
      if (before == expected && same == before) continue;
      return InvalidArgument(fmt::format(
          "the first {} rows of '{}', which come before those of any row's '{}', are not the {} of "
          "branch '{}'; only datasets that agree in them can be joined",
          before, result_.specs_[target].table.name, values.spec.columns[c].name, expected,
          result_.inputs_.front().branch.name));
    }
    return OkStatus();
  }

  JoinedTables& result_;
  std::vector<DigestNumbers> numbers_;           // by table: of the joined rows
  std::vector<std::vector<Digest128>> digests_;  // by table: of the branch's rows
  /// Rows before all runs, by table and column.
  std::map<std::pair<std::size_t, std::size_t>, std::uint64_t> before_runs_;
};

Result<JoinedTables> JoinedTables::Make(std::vector<Branch> branches, bool joint) {
  JoinedTables result;
  result.specs_ = branches.front().source->table_specs();
  MILLRACE_ASSIGN_OR_RETURN(result.links_, LinkedTables::Make(result.specs_));
  std::vector<std::vector<Digest128>> digests;  // of inputs, by table
  for (Branch& branch : branches) {
    const std::vector<SourceTableSpec> specs = branch.source->table_specs();
    MILLRACE_RETURN_IF_ERROR(
        CheckTablesAgree({branches.front().name, result.specs_}, {branch.name, specs}));
    std::vector<Digest128> own = DigestTables(*branch.source, specs);
    const auto equal = std::find(digests.begin(), digests.end(), own);
    result.input_of_.push_back(static_cast<std::size_t>(equal - digests.begin()));
    if (equal != digests.end()) continue;
    if (!joint && !digests.empty()) {
      const auto table = static_cast<std::size_t>(
          std::mismatch(own.begin(), own.end(), digests.front().begin()).first - own.begin());
      return Differ(result.specs_[table], branches.front().name, specs[table], branch.name);
    }
    digests.push_back(std::move(own));
    result.inputs_.push_back({branch, std::vector<Placed>(specs.size())});
  }
  if (result.inputs_.size() == 1) return result;
  Joiner joiner(result);
  for (Input& input : result.inputs_) MILLRACE_RETURN_IF_ERROR(joiner.Add(input));
  return result;
}

}  // namespace millrace
