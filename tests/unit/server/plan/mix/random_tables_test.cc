// Joins random tables, and checks what a join promises.
#include <rapidcheck/catch.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/server/plan/mix/made_up_tables.h"

namespace millrace::test {
namespace {

enum RandomTable : std::size_t { kWordTable, kGroupTable, kListTable };

/// Words that follow each other, in runs of groups, and lists of groups that extend each other.
/// References of words lead anywhere but in circles. `distinct`: no two rows of a table are the
/// same.
std::vector<MadeUpTable> RandomTables(const TableWords& head, bool distinct) {
  const auto size = *rc::gen::inRange<std::size_t>(0, 12);
  TableNumbers order(size);  // a word follows only words that stand before it here
  for (std::size_t i = 0; i < size; ++i) {
    order[i] = i;
    std::swap(order[i], order[*rc::gen::inRange<std::size_t>(0, i + 1)]);
  }
  TableWords words(head);
  TableNumbers after(head.size() + size, 0);
  TableNumbers counts;
  for (std::size_t i = 0; i < size; ++i) {
    words.push_back(distinct ? std::string(1, static_cast<char>('a' + order[i]))
                             : std::string(1, *rc::gen::inRange('a', 'e')));
    const auto earlier = *rc::gen::inRange<std::size_t>(0, i + 1);
    if (earlier > 0) after[head.size() + order[i]] = head.size() + order[earlier - 1] + 1;
  }
  for (std::size_t i = 0; i < words.size(); ++i) {
    counts.push_back(*rc::gen::inRange<std::uint64_t>(0, 100));
  }
  TableWords groups;
  TableNumbers runs;
  TableNumbers firsts;
  for (std::size_t left = size; left > 0; left -= runs.back()) {
    const bool last = groups.size() == 4;
    runs.push_back(last ? left : *rc::gen::inRange<std::size_t>(0, left + 1));
    groups.push_back(distinct ? std::string(1, static_cast<char>('f' + groups.size()))
                              : std::string(1, *rc::gen::inRange('f', 'i')));
    firsts.push_back(*rc::gen::inRange<std::size_t>(0, words.size() + 1));
  }
  TableNumbers parents{0};
  TableNumbers members{0};
  std::set<std::pair<std::uint64_t, std::uint64_t>> pairs;
  if (!groups.empty()) {
    for (auto lists = *rc::gen::inRange(0, 6); lists > 0; --lists) {
      const auto parent = *rc::gen::inRange<std::uint64_t>(0, parents.size());
      const auto member = *rc::gen::inRange<std::uint64_t>(0, groups.size());
      if (!pairs.emplace(parent, member).second && distinct) continue;
      parents.push_back(parent);
      members.push_back(member);
    }
  }
  return {
      {"words",
       {{"word", words}, {"after", after}, {"count", counts}},
       {{"after", ColumnRole::kReference, "words", true}, {"count", ColumnRole::kCount}}},
      {"groups",
       {{"group", groups}, {"run", runs}, {"first", firsts}},
       {{"run", ColumnRole::kRun, "words"}, {"first", ColumnRole::kReference, "words", true}}},
      {"lists",
       {{"parent", parents}, {"member", members}},
       {{"parent", ColumnRole::kReference, "lists"}, {"member", ColumnRole::kReference, "groups"}},
       true}};
}

/// The rows of a branch written out, with all that they refer to.
class WrittenOut {
 public:
  explicit WrittenOut(const std::vector<MadeUpTable>& tables) : tables_(tables) {}

  std::string Row(std::size_t table, std::uint64_t row) const {
    const MadeUpTable& t = tables_[table];
    if (table == kWordTable) return t.Words(0)[row] + WordOrNone(t.Numbers(1)[row]);
    if (table == kListTable) {
      if (row == 0) return "none";
      return Row(kListTable, t.Numbers(0)[row]) + "," + Row(kGroupTable, t.Numbers(1)[row]);
    }
    std::string text = t.Words(0)[row] + "{";
    for (std::uint64_t i = 0; i < t.Numbers(1)[row]; ++i) {
      text += Row(kWordTable, RunBegin(row) + i) + ";";
    }
    return text + "}" + WordOrNone(t.Numbers(2)[row]);
  }
  std::uint64_t RunBegin(std::uint64_t group) const {
    std::uint64_t begin = tables_[kWordTable].Rows();
    const TableNumbers& runs = tables_[kGroupTable].Numbers(1);
    for (std::size_t g = group; g < runs.size(); ++g) begin -= runs[g];
    return begin;
  }

 private:
  std::string WordOrNone(std::uint64_t word) const {
    return word == 0 ? "" : "<" + Row(kWordTable, word - 1) + ">";
  }
  const std::vector<MadeUpTable>& tables_;
};

/// The joined tables, read as a consumer reads them.
std::vector<MadeUpTable> ReadBack(const JoinedTables& joined,
                                  const std::vector<MadeUpTable>& form) {
  const auto served = ServedTables(joined);
  std::vector<MadeUpTable> tables = form;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    for (std::size_t c = 0; c < tables[t].columns.size(); ++c) {
      const TableColumn& column = served->all()[t].columns[c];
      auto& values = tables[t].columns[c].values;
      if (const auto* const texts = std::get_if<TextColumn>(&column)) {
        TableWords words;
        for (std::size_t i = 0; i < texts->size(); ++i) words.emplace_back((*texts)[i]);
        values = std::move(words);
      } else {
        values = std::get<TableNumbers>(column);
      }
    }
  }
  return tables;
}

struct RandomJoin {
  explicit RandomJoin(std::vector<std::vector<MadeUpTable>> tables)
      : branches(std::move(tables)), joined(Join(branches)), all(ReadBack(joined, branches[0])) {}

  static JoinedTables Join(const std::vector<std::vector<MadeUpTable>>& branches) {
    std::vector<std::shared_ptr<const Source>> sources;
    for (const auto& branch : branches) sources.push_back(SourceWith(branch));
    return MustJoin(sources);
  }
  static RandomJoin Any(bool distinct = false) {
    const TableWords head =
        distinct ? TableWords{"x", "y"}
                 : *rc::gen::element(TableWords{}, TableWords{"a"}, TableWords{"x", "x"});
    std::vector<std::vector<MadeUpTable>> branches;
    for (auto count = *rc::gen::inRange(1, 5); count > 0; --count) {
      branches.push_back(RandomTables(head, distinct));
    }
    return RandomJoin(std::move(branches));
  }

  std::uint64_t At(std::size_t branch, std::size_t table, std::uint64_t row) const {
    return JoinedRow(joined, branch, table, row);
  }
  /// Calls check(branch, table, row) for each row of each branch.
  template <class Check>
  void EachRow(const Check& check) const {
    for (std::size_t b = 0; b < branches.size(); ++b) {
      for (std::size_t t = 0; t < all.size(); ++t) {
        for (std::uint64_t r = 0; r < branches[b][t].Rows(); ++r) check(b, t, r);
      }
    }
  }

  const std::vector<std::vector<MadeUpTable>> branches;
  const JoinedTables joined;
  const std::vector<MadeUpTable> all;
};

TEST_CASE("rows of random tables keep their values and what they refer to", "[mix]") {
  rc::prop("row by row", [] {
    const RandomJoin join = RandomJoin::Any();
    join.EachRow([&](std::size_t b, std::size_t t, std::uint64_t r) {
      const MadeUpTable& own = join.branches[b][t];
      const std::uint64_t at = join.At(b, t, r);
      RC_ASSERT(at < join.all[t].Rows());
      for (std::size_t c = 0; c < own.columns.size(); ++c) {
        const std::string& name = own.columns[c].name;
        if (own.columns[c].values.index() == 2) {
          RC_ASSERT(join.all[t].Words(c)[at] == own.Words(c)[r]);
        } else if (name == "after" || name == "first") {
          const std::uint64_t to = own.Numbers(c)[r];
          RC_ASSERT(join.all[t].Numbers(c)[at] ==
                    (to == 0 ? 0 : join.At(b, kWordTable, to - 1) + 1));
        } else if (t == kListTable && r > 0) {
          const std::uint64_t to = own.Numbers(c)[r];
          RC_ASSERT(join.all[t].Numbers(c)[at] ==
                    join.At(b, c == 0 ? kListTable : kGroupTable, to));
        }
      }
    });
  });
}

TEST_CASE("random tables begin with the first branch, and others add what is new", "[mix]") {
  rc::prop("in their order, each row once", [] {
    const RandomJoin join = RandomJoin::Any();
    for (std::size_t t = 0; t < join.all.size(); ++t) {
      RC_ASSERT(join.joined.RowsOf(0, t).empty());
      std::uint64_t next = 0;
      for (std::size_t b = 0; b < join.branches.size(); ++b) {
        std::set<std::uint64_t> own;
        for (std::uint64_t r = 0; r < join.branches[b][t].Rows(); ++r) {
          const std::uint64_t at = join.At(b, t, r);
          RC_ASSERT(at <= next);
          RC_ASSERT(own.insert(at).second);
          if (at == next) ++next;
        }
      }
      RC_ASSERT(next == join.all[t].Rows());
    }
  });
}

TEST_CASE("no row of random tables occurs more often than in one of them", "[mix]") {
  rc::prop("written out, where rows of a branch differ", [] {
    const RandomJoin join = RandomJoin::Any(true);
    for (std::size_t t = 0; t < join.all.size(); ++t) {
      std::map<std::string, std::set<std::uint64_t>> places;
      for (std::size_t b = 0; b < join.branches.size(); ++b) {
        const WrittenOut written(join.branches[b]);
        for (std::uint64_t r = 0; r < join.branches[b][t].Rows(); ++r) {
          places[written.Row(t, r)].insert(join.At(b, t, r));
        }
      }
      for (const auto& [row, at] : places) RC_ASSERT(at.size() == 1U);
      RC_ASSERT(places.size() == join.all[t].Rows());
    }
  });
}

TEST_CASE("counts of random tables are sums, and runs hold the rows that came with them", "[mix]") {
  rc::prop("for all rows", [] {
    const RandomJoin join = RandomJoin::Any();
    std::set<std::string> seen;  // branches, written as served
    TableNumbers sums(join.all[kWordTable].Rows(), 0);
    std::map<std::uint64_t, std::uint64_t> group_of;  // of joined words, as the first branch says
    for (std::size_t b = 0; b < join.branches.size(); ++b) {
      const auto& tables = join.branches[b];
      const WrittenOut written(tables);
      if (seen.insert(MakeStaticBytes(*SourceWith(tables))).second) {
        for (std::uint64_t r = 0; r < tables[kWordTable].Rows(); ++r) {
          sums[join.At(b, kWordTable, r)] += tables[kWordTable].Numbers(2)[r];
        }
      }
      for (std::uint64_t g = 0; g < tables[kGroupTable].Rows(); ++g) {
        for (std::uint64_t i = 0; i < tables[kGroupTable].Numbers(1)[g]; ++i) {
          group_of.try_emplace(join.At(b, kWordTable, written.RunBegin(g) + i),
                               join.At(b, kGroupTable, g));
        }
      }
    }
    RC_ASSERT(join.all[kWordTable].Numbers(2) == sums);
    std::map<std::uint64_t, std::uint64_t> served;
    const WrittenOut written(join.all);
    for (std::uint64_t g = 0; g < join.all[kGroupTable].Rows(); ++g) {
      for (std::uint64_t i = 0; i < join.all[kGroupTable].Numbers(1)[g]; ++i) {
        served[written.RunBegin(g) + i] = g;
      }
    }
    RC_ASSERT(served == group_of);
  });
}

TEST_CASE("the order of rows in a branch does not matter", "[mix]") {
  rc::prop("words in another order add nothing", [] {
    const std::vector<MadeUpTable> tables = RandomTables({}, true);
    const std::size_t size = tables[kWordTable].Rows();
    TableNumbers to(size);
    for (std::size_t i = 0; i < size; ++i) {
      to[i] = i;
      std::swap(to[i], to[*rc::gen::inRange<std::size_t>(0, i + 1)]);
    }
    TableWords words(size);
    TableNumbers after(size);
    for (std::size_t i = 0; i < size; ++i) {
      const std::uint64_t before = tables[kWordTable].Numbers(1)[i];
      words[to[i]] = tables[kWordTable].Words(0)[i];
      after[to[i]] = before == 0 ? 0 : to[before - 1] + 1;
    }
    const MadeUpTable one{
        "words",
        {{"word", tables[kWordTable].Words(0)}, {"after", tables[kWordTable].Numbers(1)}},
        {{"after", ColumnRole::kReference, "words", true}}};
    const MadeUpTable other{"words", {{"word", words}, {"after", after}}, one.meanings};
    const JoinedTables joined = MustJoin({SourceWith({one}), SourceWith({other})});
    RC_ASSERT(joined.specs()[0].table.rows == size);
    for (std::size_t i = 0; i < size; ++i) RC_ASSERT(JoinedRow(joined, 1, 0, to[i]) == i);
  });
}

}  // namespace
}  // namespace millrace::test
