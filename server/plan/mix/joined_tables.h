// The tables of a plan with several branches, to which the numbers in its batches refer.
//
// Rows of two branches are the same if their columns agree, and if the rows that they refer to are
// the same. So a row means what it meant in its branch, however far it refers. Each row of the
// first branch keeps its number; a further branch adds, in its order, the rows that no branch
// before it has. If two branches have a row several times, their first occurrences are the same
// row, their second ones too, and so on: different rows of a branch stay different.
//
// A count is the sum over the branches; branches whose tables are all equal count once, since they
// draw from the same data. A run of rows becomes the run of the rows that its branch added, so that
// runs still follow each other to the last row.
//
// Keeps a number for every row of a branch that moves, and reads values from the sources again.
// Immutable; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "server/plan/mix/linked_columns.h"
#include "server/source/source.h"

namespace millrace {

class JoinedTables {
 public:
  struct Branch {
    std::string name;
    std::shared_ptr<const Source> source;
  };

  /// `branches`: in the order of the pipeline. InvalidArgument, which names the table and two
  /// branches, if they have different tables, columns, or tensors with numbers of rows; or, unless
  /// `joint`, if two tables have different values. DataLoss if a branch's rows refer to rows that
  /// do not exist, or to themselves. REQUIRES: there is a branch.
  static Result<JoinedTables> Make(std::vector<Branch> branches, bool joint);

  /// As Source::tables().
  const std::vector<SourceTableSpec>& specs() const { return specs_; }
  /// For each row of a branch's table its row in the joined one; empty if they are the same.
  std::span<const std::uint32_t> RowsOf(std::size_t branch, std::size_t table) const {
    return inputs_[input_of_[branch]].tables[table].rows;
  }
  /// As Source::WriteTable. Reads the table of every branch.
  void Write(std::size_t table, TableWriter& out) const;

 private:
  /// Where the rows of a table are in the joined one.
  struct Placed {
    std::uint64_t Row(std::uint64_t row) const { return rows.empty() ? row : rows[row]; }
    bool Added(std::uint64_t row) const { return Row(row) >= joined_before; }

    std::vector<std::uint32_t> rows;  // empty: at their own numbers
    std::uint64_t joined_before = 0;  // rows of the joined table before this one was added
  };
  /// A branch whose tables no earlier branch has.
  struct Input {
    Branch branch;
    std::vector<Placed> tables;
  };
  class Joiner;
  class ColumnWriter;

  JoinedTables() = default;

  std::vector<SourceTableSpec> specs_;
  LinkedTables links_;
  std::vector<Input> inputs_;          // by first use
  std::vector<std::size_t> input_of_;  // of each branch
};

}  // namespace millrace
