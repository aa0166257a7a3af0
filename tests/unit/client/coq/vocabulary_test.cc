#include <catch2/catch.hpp>

#include "client/coq/vocabulary.h"
#include "common/transport/convert/tables.h"
#include "tests/support/static_tables.h"

namespace millrace {
namespace {

using Catch::Matchers::Contains;
using test::ColumnOf;
using test::CoqStatic;
using Labels = std::vector<std::uint32_t>;

Result<std::shared_ptr<const CoqVocabulary>> Decode(const v1::Static& tables) {
  Result<NamedTables> decoded = DecodeTables(tables.SerializeAsString());
  REQUIRE(decoded.ok());
  return CoqVocabulary::Decode(std::make_shared<const NamedTables>(*std::move(decoded)));
}

TEST_CASE("a context is the spines of its files in order, then its own chain", "[vocabulary]") {
  const auto vocabulary = Decode(CoqStatic()).value();
  CHECK(vocabulary->Context(0).value() == Labels{3, 2});
  CHECK(vocabulary->Context(1).value() == Labels{6, 5, 4, 3, 2, 5});
  CHECK(vocabulary->Context(2).value() == Labels{6, 5});
  CHECK(vocabulary->Context(3).status().code() == StatusCode::kOutOfRange);
  CHECK(vocabulary->SpineLabels() == Labels{4, 3, 2, 6, 5});
}

TEST_CASE("a vocabulary has names, identities and tactics by their numbers", "[vocabulary]") {
  const auto vocabulary = Decode(CoqStatic()).value();
  CHECK(vocabulary->classes() == 2);
  CHECK(vocabulary->node_label_names()[2] == "a");
  CHECK(vocabulary->node_label_idents()[2] == -7);
  CHECK(vocabulary->edge_label_names()[0] == "arg");
  CHECK(vocabulary->tactics().at(0).base_text == "auto");
  CHECK(vocabulary->tactics().at(0).count == 12);
  CHECK(vocabulary->files()[1] == "b.bin");
  CHECK(vocabulary->labels_of_file()[0] == 3);
}

TEST_CASE("a plan without contexts has names, and no context", "[vocabulary]") {
  v1::Static tables = CoqStatic();
  tables.mutable_tables()->RemoveLast();
  const auto vocabulary = Decode(tables).value();
  CHECK(vocabulary->contexts() == 0);
  CHECK(vocabulary->SpineLabels().empty());
  CHECK(vocabulary->Context(0).status().code() == StatusCode::kOutOfRange);
  // Files cannot have more labels than there are, with contexts or without.
  ColumnOf(tables, "files", "labels").set_numbers(0, 6);
  const Status more = Decode(tables).status();
  CHECK(more.code() == StatusCode::kDataLoss);
  CHECK_THAT(more.message(), Contains("file 1 and those before it have more labels than the 7"));
}

TEST_CASE("tables of another kind of dataset are no vocabulary, and are named", "[vocabulary]") {
  v1::Static tables;
  test::AddTexts(test::AddTable(tables, "node_labels"), "name", {"red"});
  test::AddTexts(test::AddTable(tables, "edge_labels"), "name", {"cites"});
  const Status status = Decode(tables).status();
  CHECK(status.code() == StatusCode::kFailedPrecondition);
  CHECK_THAT(status.message(),
             Contains("only Coq datasets") && Contains("(node_labels, edge_labels)"));
}

TEST_CASE("tables that refer to what does not exist are refused", "[vocabulary][hostile]") {
  const auto bad = [](const char* table, const char* column, int row, std::uint64_t value) {
    v1::Static tables = CoqStatic();
    ColumnOf(tables, table, column).set_numbers(row, value);
    return Decode(tables).status().code() == StatusCode::kDataLoss;
  };
  CHECK(bad("node_labels", "previous", 3, 99));
  CHECK(bad("node_labels", "previous", 3, 2));  // 1 is a class
  CHECK(bad("files", "representative", 0, 8));
  CHECK(bad("files", "labels", 0, 6));
  CHECK(bad("files", "labels", 0, ~std::uint64_t{0}));
  CHECK(bad("context_lists", "file", 1, 2));
  CHECK(bad("contexts", "list", 0, 3));
  CHECK(bad("contexts", "start", 0, 8));
}

TEST_CASE("contexts without the columns that they need are refused", "[vocabulary][hostile]") {
  v1::Static tables = CoqStatic();
  ColumnOf(tables, "files", "representative").set_name("other");
  CHECK(Decode(tables).status().code() == StatusCode::kDataLoss);
}

TEST_CASE("tables whose walks would never end are refused", "[vocabulary][hostile]") {
  v1::Static tables = CoqStatic();
  ColumnOf(tables, "node_labels", "previous").set_numbers(2, 5);  // 2 -> 4 -> 3 -> 2
  CHECK(Decode(tables).status().code() == StatusCode::kDataLoss);
  tables = CoqStatic();
  ColumnOf(tables, "context_lists", "parent").set_numbers(1, 1);
  CHECK(Decode(tables).status().code() == StatusCode::kDataLoss);
}

}  // namespace
}  // namespace millrace
