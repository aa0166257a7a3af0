#include "common/transport/convert/tables.h"

#include <catch2/catch.hpp>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "common/transport/convert/table_writer.h"
#include "tests/support/static_tables.h"

namespace millrace {
namespace {

using Catch::Matchers::Contains;
using test::ColumnOf;
using test::CoqStatic;

Result<NamedTables> Decode(const v1::Static& tables) {
  return DecodeTables(tables.SerializeAsString());
}

/// The message of the refusal of tables after a change.
template <class Change>
std::string Refusal(const Change& change) {
  v1::Static tables = CoqStatic();
  change(tables);
  const Status status = Decode(tables).status();
  CHECK(status.code() == StatusCode::kDataLoss);
  return status.message();
}

TEST_CASE("a table is written as protobuf serializes it", "[tables]") {
  const TableSpec spec = {
      "t",
      3,
      {{"n", ColumnType::kUnsigned}, {"s", ColumnType::kSigned}, {"x", ColumnType::kText}},
      {}};
  const std::vector<std::uint64_t> n = {0, 300, ~std::uint64_t{0}};
  const std::vector<std::int64_t> s = {-1, 0, std::numeric_limits<std::int64_t>::min()};
  const std::vector<std::string> x = {"", std::string(200, 'a'), "\xff"};
  const auto write = [&](TableWriter& out) {
    const auto each = [](const auto& values) {
      return [&values](const auto& visit) {
        for (const auto& value : values) visit(value);
      };
    };
    out.Unsigned(each(n));
    out.Signed(each(s));
    out.Texts(each(x));
  };
  TableWriter writer(spec);
  write(writer);
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    writer.BeginWriting(&out);
    write(writer);
  }
  v1::Static whole;
  v1::Table& expected = test::AddTable(whole, "t");
  test::AddNumbers(expected, "n", n);
  test::AddSigned(expected, "s", s);
  test::AddTexts(expected, "x", x);
  CHECK(bytes == expected.SerializeAsString());
  CHECK(writer.bytes() == bytes.size());

  const NamedTables tables = *Decode(whole);
  CHECK(tables.all().at(0).spec == spec);
  const auto numbers = *tables.Unsigned("t", "n");
  CHECK(std::vector<std::uint64_t>(numbers.begin(), numbers.end()) == n);
  const auto signed_numbers = *tables.Signed("t", "s");
  CHECK(std::vector<std::int64_t>(signed_numbers.begin(), signed_numbers.end()) == s);
  const TextColumn& texts = **tables.Texts("t", "x");
  REQUIRE(texts.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(texts[i] == x[i]);
}

TEST_CASE("one table is read as it is read among others", "[tables]") {
  v1::Static whole = CoqStatic();
  const NamedTables tables = *Decode(whole);
  for (int i = 0; i < whole.tables_size(); ++i) {
    const auto table = DecodeTable(whole.tables(i).SerializeAsString());
    REQUIRE(table.ok());
    CHECK(table->spec == tables.all()[static_cast<std::size_t>(i)].spec);
  }
  v1::Table& labels = *whole.mutable_tables(0);
  labels.set_rows(labels.rows() + 1);
  CHECK_THAT(DecodeTable(labels.SerializeAsString()).status().message(),
             Contains("table '" + labels.name() + "': column 'name': it has"));
  labels.set_name("A name");
  CHECK_THAT(DecodeTable(labels.SerializeAsString()).status().message(), Contains("are no name"));
  CHECK_THAT(DecodeTable("\xff").status().message(), Contains("1 bytes that are no table"));
}

TEST_CASE("a table without rows has columns without values", "[tables]") {
  v1::Static empty;
  test::AddTexts(test::AddTable(empty, "t"), "x", {});
  const NamedTables tables = *Decode(empty);
  CHECK((*tables.Texts("t", "x"))->size() == 0);
}

TEST_CASE("a column that is not there is refused with those that are", "[tables]") {
  const NamedTables tables = *Decode(CoqStatic());
  CHECK_THAT(tables.Unsigned("contexts", "begin").status().message(),
             Contains("'begin'") && Contains("list (uint64), start (uint64)"));
  CHECK_THAT(tables.Texts("contexts", "list").status().message(), Contains("of type text"));
  CHECK_THAT(tables.Unsigned("labels", "x").status().message(),
             Contains("no table 'labels'") && Contains("node_classes, node_labels"));
}

TEST_CASE("bytes that are no tables, and tables of another format, are refused",
          "[tables][hostile]") {
  CHECK(DecodeTables("\xff\xff\xff").status().code() == StatusCode::kDataLoss);
  v1::Static older = CoqStatic();
  older.set_format(1);
  const Status status = Decode(older).status();
  CHECK(status.code() == StatusCode::kUnimplemented);
  CHECK_THAT(status.message(), Contains("format 1: this build reads format 2"));
  older.set_format(3);
  CHECK_THAT(Decode(older).status().message(), Contains("format 3: this build reads format 2"));
}

TEST_CASE("columns that do not fit their table are refused, and named", "[tables][hostile]") {
  CHECK_THAT(Refusal([](v1::Static& t) { t.mutable_tables(6)->set_rows(4); }),
             Contains("table 'contexts'") && Contains("column 'list'") && Contains("4 rows"));
  CHECK_THAT(Refusal([](v1::Static& t) { t.mutable_tables(6)->set_rows(2); }),
             Contains("column 'list'") && Contains("3 values, the table 2 rows"));
  CHECK_THAT(
      Refusal([](v1::Static& t) { ColumnOf(t, "files", "name").mutable_text()->append("x"); }),
      Contains("their lengths say"));
  CHECK_THAT(Refusal([](v1::Static& t) { ColumnOf(t, "files", "name").set_lengths(0, 11); }),
             Contains("text 0"));
  CHECK_THAT(Refusal([](v1::Static& t) {
               // Their sum is too large for 64 bits.
               ColumnOf(t, "files", "name").set_lengths(1, ~std::uint64_t{0} - 4);
             }),
             Contains("text 1"));
  CHECK_THAT(Refusal([](v1::Static& t) { ColumnOf(t, "files", "labels").add_lengths(1); }),
             Contains("another type"));
  CHECK_THAT(Refusal([](v1::Static& t) { ColumnOf(t, "files", "labels").set_text("x"); }),
             Contains("another type"));
  CHECK_THAT(
      Refusal([](v1::Static& t) { test::AddTable(t, "empty").set_rows(std::uint64_t{1} << 60); }),
      Contains("no columns"));
}

TEST_CASE("names that are not allowed or come twice are refused", "[tables][hostile]") {
  CHECK_THAT(Refusal([](v1::Static& t) { t.mutable_tables(1)->set_name("node_classes"); }),
             Contains("two tables 'node_classes'"));
  CHECK_THAT(Refusal([](v1::Static& t) { t.mutable_tables(1)->set_name("\x1b[2J"); }),
             Contains("the name of a table"));
  const std::string longest(64, 'x');
  v1::Static named;
  test::AddTexts(test::AddTable(named, longest.c_str()), longest.c_str(), {});
  CHECK(Decode(named).ok());
  CHECK_THAT(Refusal([&](v1::Static& t) { t.mutable_tables(1)->set_name(longest + "x"); }),
             Contains("the name of a table has 65 bytes"));
  CHECK_THAT(Refusal([](v1::Static& t) { ColumnOf(t, "files", "labels").set_name("name"); }),
             Contains("two columns 'name'"));
  v1::Spec spec;
  spec.add_tables()->set_name("t");
  spec.add_tables()->set_name("t");
  CHECK(TablesOf(spec).status().code() == StatusCode::kDataLoss);
}

TEST_CASE("a type of column that this program does not know is refused", "[tables]") {
  v1::Static tables = CoqStatic();
  ColumnOf(tables, "files", "labels").set_type("float64");
  CHECK(Decode(tables).status().code() == StatusCode::kUnimplemented);
}

TEST_CASE("tables other than those of the spec are refused with the difference", "[tables]") {
  const NamedTables tables = *Decode(CoqStatic());
  v1::Spec spec;
  for (const NamedTable& table : tables.all()) ToProto(table.spec, spec.add_tables());
  std::vector<TableSpec> specs = *TablesOf(spec);
  CHECK(CheckTables(tables, specs).ok());
  specs[4].rows = 7;
  CHECK_THAT(CheckTables(tables, specs).message(),
             Contains("expected files: 7 rows") && Contains("got files: 2 rows"));
  specs.resize(4);
  CHECK_THAT(CheckTables(tables, specs).message(), Contains("expected no table"));
}

}  // namespace
}  // namespace millrace
