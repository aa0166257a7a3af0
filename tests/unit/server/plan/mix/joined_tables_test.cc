#include "server/plan/mix/joined_tables.h"

#include <catch2/catch.hpp>

#include "tests/unit/server/plan/mix/made_up_tables.h"

namespace millrace::test {
namespace {

using Catch::Matchers::Contains;

MadeUpTable Names(const TableWords& names, std::vector<std::string> tensors = {"label"}) {
  return {"names", {{"name", names}}, {}, false, std::move(tensors)};
}

std::shared_ptr<const Source> NamesSource(const TableWords& names) {
  return SourceWith({Names(names)});
}

/// Words with the word before each, by row plus 1.
MadeUpTable Chain(const TableWords& words, const TableNumbers& before) {
  return {"chain",
          {{"word", words}, {"before", before}},
          {{"before", ColumnRole::kReference, "chain", true}}};
}

std::string RefusalOf(const std::vector<std::shared_ptr<const Source>>& sources,
                      StatusCode code = StatusCode::kInvalidArgument, bool joint = true) {
  const auto joined = JoinedTables::Make(BranchesOf(sources), joint);
  REQUIRE_FALSE(joined.ok());
  CHECK(joined.status().code() == code);
  return joined.status().message();
}

TableWords TextsOf(const JoinedTables& joined, const char* table, const char* column) {
  const auto tables = ServedTables(joined);
  const TextColumn& texts = **tables->Texts(table, column);
  TableWords values;
  for (std::size_t i = 0; i < texts.size(); ++i) values.emplace_back(texts[i]);
  return values;
}

TableNumbers NumbersOf(const JoinedTables& joined, const char* table, const char* column) {
  const auto tables = ServedTables(joined);
  const auto values = *tables->Unsigned(table, column);
  return {values.begin(), values.end()};
}

std::vector<std::uint32_t> RowsIn(const JoinedTables& joined, std::size_t branch,
                                  std::size_t table = 0) {
  const auto rows = joined.RowsOf(branch, table);
  return {rows.begin(), rows.end()};
}

using Moves = std::vector<std::uint32_t>;

TEST_CASE("rows of further branches follow those of the first, in their order", "[mix]") {
  const JoinedTables joined =
      MustJoin({NamesSource({"x", "y"}), NamesSource({"w", "y", "v"}), NamesSource({"v", "u"})});
  CHECK(TextsOf(joined, "names", "name") == TableWords{"x", "y", "w", "v", "u"});
  CHECK(RowsIn(joined, 0).empty());
  CHECK(RowsIn(joined, 1) == Moves{2, 1, 3});
  CHECK(RowsIn(joined, 2) == Moves{3, 4});
  REQUIRE(joined.specs().size() == 1);
  CHECK(joined.specs()[0].table == TableSpec{"names", 5, {{"name", ColumnType::kText}}, {}});
  CHECK(joined.specs()[0].tensors == std::vector<std::string>{"label"});
}

TEST_CASE("rows that stay at their numbers are not kept", "[mix]") {
  const JoinedTables joined = MustJoin({NamesSource({"x", "y", "z"}), NamesSource({"x", "y"})});
  CHECK(RowsIn(joined, 1).empty());
  CHECK(TextsOf(joined, "names", "name") == TableWords{"x", "y", "z"});
}

TEST_CASE("equal tables are served as they are, joint or not", "[mix]") {
  for (const bool joint : {false, true}) {
    const auto joined = JoinedTables::Make(
        BranchesOf({NamesSource({"x", "x", "y"}), NamesSource({"x", "x", "y"})}), joint);
    REQUIRE(joined.ok());
    CHECK(TextsOf(*joined, "names", "name") == TableWords{"x", "x", "y"});
    CHECK(RowsIn(*joined, 0).empty());
    CHECK(RowsIn(*joined, 1).empty());
  }
}

TEST_CASE("a branch with the tables of an earlier one has its rows", "[mix]") {
  const auto b = NamesSource({"w", "y"});
  const JoinedTables joined = MustJoin({NamesSource({"x", "y"}), b, b});
  CHECK(RowsIn(joined, 2) == Moves{2, 1});
  CHECK(joined.RowsOf(2, 0).data() == joined.RowsOf(1, 0).data());
}

TEST_CASE("tables that differ are refused unless they are joint", "[mix]") {
  const std::string refusal =
      RefusalOf({NamesSource({"x"}), NamesSource({"x"}), NamesSource({"x", "y"})},
                StatusCode::kInvalidArgument, false);
  CHECK_THAT(refusal, Contains("branches 'a' and 'c' differ in the table 'names' (1 and 2 rows)"));
  CHECK_THAT(refusal, Contains("write `tables: joint`"));
}

TEST_CASE("rows that occur several times in a branch stay different", "[mix]") {
  const JoinedTables joined =
      MustJoin({NamesSource({"x", "y", "x"}), NamesSource({"x", "x", "x", "y", "y"})});
  CHECK(TextsOf(joined, "names", "name") == TableWords{"x", "y", "x", "x", "y"});
  CHECK(RowsIn(joined, 1) == Moves{0, 2, 3, 1, 4});
}

TEST_CASE("a row is another's if all that it refers to is, near and far", "[mix]") {
  // z after y after x, and z after y alone.
  const JoinedTables joined = MustJoin({SourceWith({Chain({"x", "y", "z"}, {0, 1, 2})}),
                                        SourceWith({Chain({"y", "z", "x"}, {0, 1, 0})})});
  CHECK(RowsIn(joined, 1) == Moves{3, 4, 0});
  CHECK(TextsOf(joined, "chain", "word") == TableWords{"x", "y", "z", "y", "z"});
  CHECK(NumbersOf(joined, "chain", "before") == TableNumbers{0, 1, 2, 0, 4});
}

TEST_CASE("references may lead forward", "[mix]") {
  const JoinedTables joined = MustJoin({SourceWith({Chain({"z", "y", "x"}, {2, 3, 0})}),
                                        SourceWith({Chain({"w", "x", "y", "z"}, {4, 0, 2, 3})})});
  CHECK(RowsIn(joined, 1) == Moves{3, 2, 1, 0});
  CHECK(NumbersOf(joined, "chain", "before") == TableNumbers{2, 3, 0, 1});
}

TEST_CASE("rows that refer to different ones of several like rows stay different", "[mix]") {
  // y after the first x, and y after the second.
  const JoinedTables joined = MustJoin({SourceWith({Chain({"x", "x", "y"}, {0, 0, 1})}),
                                        SourceWith({Chain({"x", "x", "y"}, {0, 0, 2})})});
  CHECK(RowsIn(joined, 1) == Moves{0, 1, 3});
  CHECK(NumbersOf(joined, "chain", "before") == TableNumbers{0, 0, 1, 2});
}

TEST_CASE("a circle of references is an error, not a hang", "[mix]") {
  const auto good = SourceWith({Chain({"x", "y", "z"}, {0, 1, 2})});
  CHECK_THAT(
      RefusalOf({good, SourceWith({Chain({"x", "y", "z"}, {2, 3, 1})})}, StatusCode::kDataLoss),
      Contains("branch 'b': table 'chain': row 2 refers to row 0, from which it is reached"));
  CHECK_THAT(RefusalOf({good, SourceWith({Chain({"x"}, {1})})}, StatusCode::kDataLoss),
             Contains("row 0 refers to row 0"));
}

TEST_CASE("a reference to a row that does not exist is an error", "[mix]") {
  const auto good = SourceWith({Chain({"x"}, {0})});
  CHECK_THAT(RefusalOf({good, SourceWith({Chain({"x", "y"}, {0, 3})})}, StatusCode::kDataLoss),
             Contains("branch 'b': table 'chain': column 'before': row 1 refers to row 2 of 2"));
}

TEST_CASE("a chain of a million rows is followed without recursion", "[mix]") {
  constexpr std::size_t kLength = 1'000'000;
  const auto chain = [](std::size_t first) {
    TableWords words;
    TableNumbers before;
    for (std::size_t i = 0; i < kLength; ++i) {
      words.push_back(std::to_string(std::max(first, i)));
      before.push_back(i + 1 < kLength ? i + 2 : 0);
    }
    return SourceWith({Chain(words, before)});
  };
  // The last rows are the same, those that lead to row 0 are not.
  const JoinedTables joined = MustJoin({chain(0), chain(1)});
  CHECK(joined.specs()[0].table.rows == kLength + 1);
  CHECK(joined.RowsOf(1, 0)[0] == kLength);
  CHECK(joined.RowsOf(1, 0)[1] == 1);
}

TEST_CASE("counts of joined rows are added up, once for branches of the same data", "[mix]") {
  const auto counted = [](const TableWords& names, const TableNumbers& counts) {
    return SourceWith(
        {{"words", {{"name", names}, {"count", counts}}, {{"count", ColumnRole::kCount}}}});
  };
  const auto a = counted({"x", "y"}, {1, 2});
  const auto b = counted({"y", "z"}, {30, 40});
  const JoinedTables joined = MustJoin({a, b, a, b});
  CHECK(TextsOf(joined, "words", "name") == TableWords{"x", "y", "z"});
  CHECK(NumbersOf(joined, "words", "count") == TableNumbers{1, 32, 40});
}

/// Names, of which the first one lies with no group, and how many lie with each group.
std::shared_ptr<const Source> Groups(const TableWords& names, const TableWords& groups,
                                     const TableNumbers& runs) {
  return SourceWith(
      {{"groups", {{"group", groups}, {"size", runs}}, {{"size", ColumnRole::kRun, "names"}}},
       Names(names)});
}

TEST_CASE("runs hold the rows that their branch added, and still follow each other", "[mix]") {
  const JoinedTables joined =
      MustJoin({Groups({"none", "x", "y", "z"}, {"f", "empty", "g"}, {2, 0, 1}),
                // f is as above, g has one more, and h has one that is in f and a new one
                Groups({"none", "x", "y", "z", "u", "y", "w"}, {"f", "g", "h"}, {2, 2, 2})});
  CHECK(TextsOf(joined, "groups", "group") == TableWords{"f", "empty", "g", "g", "h"});
  CHECK(NumbersOf(joined, "groups", "size") == TableNumbers{2, 0, 1, 1, 2});
  CHECK(TextsOf(joined, "names", "name") == TableWords{"none", "x", "y", "z", "u", "y", "w"});
  CHECK(RowsIn(joined, 1, 0) == Moves{0, 3, 4});
}

TEST_CASE("rows before all runs have to be the same in all branches", "[mix]") {
  const auto a = Groups({"none", "x"}, {"f"}, {1});
  CHECK_THAT(RefusalOf({a, Groups({"none", "more", "x"}, {"f"}, {1})}),
             Contains("branch 'b': table 'groups': the first 2 rows of 'names', which come before "
                      "those of any row's 'size', are not the 1 of branch 'a'"));
  CHECK_THAT(RefusalOf({a, Groups({"other", "x"}, {"f"}, {1})}), Contains("the first 1 rows"));
  CHECK_THAT(RefusalOf({Groups({"none", "more", "x"}, {"f"}, {1}), a}),
             Contains("the first 1 rows of 'names', which come before those of any row's 'size', "
                      "are not the 2 of branch 'a'"));
}

TEST_CASE("runs longer than their table are an error", "[mix]") {
  const auto a = Groups({"none", "x"}, {"f"}, {1});
  CHECK_THAT(RefusalOf({a, Groups({"none", "x"}, {"f", "g"}, {1, 2})}, StatusCode::kDataLoss),
             Contains("column 'size': its runs have more rows than the 2 that there are"));
  CHECK_THAT(
      RefusalOf({a, Groups({"x"}, {"f", "g"}, {1, ~std::uint64_t{0}})}, StatusCode::kDataLoss),
      Contains("its runs have more rows"));
}

TEST_CASE("a first row that is none is that of all branches", "[mix]") {
  const auto lists = [](const TableNumbers& parents, const TableNumbers& names,
                        const TableWords& all) {
    return SourceWith(
        {{"lists",
          {{"parent", parents}, {"name", names}},
          {{"parent", ColumnRole::kReference, "lists"}, {"name", ColumnRole::kReference, "names"}},
          true},
         Names(all)});
  };
  // [], [x], [x, y] and [], [y], [y, x], [x]
  const JoinedTables joined = MustJoin(
      {lists({0, 0, 1}, {0, 0, 1}, {"x", "y"}), lists({0, 0, 1, 0}, {0, 0, 1, 1}, {"y", "x"})});
  CHECK(RowsIn(joined, 1, 0) == Moves{0, 3, 4, 1});
  CHECK(NumbersOf(joined, "lists", "parent") == TableNumbers{0, 0, 1, 0, 3});
  CHECK(NumbersOf(joined, "lists", "name") == TableNumbers{0, 0, 1, 1, 0});
}

TEST_CASE("a table that only some branches have is refused, with both", "[mix]") {
  const MadeUpTable more{"more", {{"name", TableWords{"m"}}}};
  const auto with = SourceWith({Names({"x"}), more});
  const auto without = NamesSource({"x"});
  CHECK_THAT(RefusalOf({with, without}),
             Contains("branch 'a' has a table 'more' (1 rows) and branch 'b' has none"));
  CHECK_THAT(RefusalOf({without, with}),
             Contains("branch 'b' has a table 'more' (1 rows) and branch 'a' has none"));
  CHECK_THAT(RefusalOf({SourceWith({more, Names({"x"})}), with}),
             Contains("table 'more' differs in its place"));
}

TEST_CASE("tables of different forms are refused, with both", "[mix]") {
  const auto a = SourceWith({Chain({"x"}, {0})});
  MadeUpTable other = Chain({"x"}, {0});
  other.columns[0].name = "name";
  CHECK_THAT(RefusalOf({a, SourceWith({other})}),
             Contains("table 'chain' differs in its columns: branch 'a' has word (text), before "
                      "(uint64, rows of chain plus 1), branch 'b' has name (text), before"));
  other = Chain({"x"}, {0});
  other.meanings[0].or_none = false;
  CHECK_THAT(RefusalOf({a, SourceWith({other})}), Contains("before (uint64, rows of chain);"));
  other.meanings = {{"before", ColumnRole::kCount}};
  CHECK_THAT(RefusalOf({a, SourceWith({other})}), Contains("before (uint64, a count);"));
  CHECK_THAT(RefusalOf({SourceWith({Names({"x"}, {"p", "q"})}), SourceWith({Names({"x"}, {"q"})})}),
             Contains("table 'names' differs in its tensors with its rows: branch 'a' has p, q, "
                      "branch 'b' has q"));
  CHECK(JoinedTables::Make(BranchesOf({SourceWith({Names({"x"}, {"p", "q"})}),
                                       SourceWith({Names({"x"}, {"q", "p"})})}),
                           false)
            .ok());
}

TEST_CASE("meanings that make no sense are errors of the kind", "[mix]") {
  const auto refusal = [](std::vector<ColumnMeaning> meanings) {
    MadeUpTable table = Chain({"x"}, {0});
    table.meanings = std::move(meanings);
    return RefusalOf({SourceWith({table})}, StatusCode::kInternal);
  };
  CHECK_THAT(refusal({{"gone", ColumnRole::kCount}}),
             Contains("column 'gone' has a meaning, but does not exist"));
  CHECK_THAT(refusal({{"word", ColumnRole::kCount}}), Contains("is not uint64"));
  CHECK_THAT(refusal({{"before", ColumnRole::kReference, "gone"}}),
             Contains("refers to a table 'gone' that does not exist"));
  CHECK_THAT(refusal({{"before", ColumnRole::kRun, "chain"}}), Contains("runs of its own table"));
  MadeUpTable a = Chain({"x"}, {0});
  MadeUpTable b = Chain({"x"}, {0});
  a.meanings[0].table = "b";
  b.name = "b";
  CHECK_THAT(RefusalOf({SourceWith({a, b})}, StatusCode::kInternal), Contains("circle"));
}

TEST_CASE("a pipeline without tables has none to join", "[mix]") {
  CHECK(MustJoin({SourceWith({}), SourceWith({})}).specs().empty());
}

TEST_CASE("tables without rows are joined", "[mix]") {
  const JoinedTables joined = MustJoin({NamesSource({}), NamesSource({"x"})});
  CHECK(TextsOf(joined, "names", "name") == TableWords{"x"});
}

}  // namespace
}  // namespace millrace::test
