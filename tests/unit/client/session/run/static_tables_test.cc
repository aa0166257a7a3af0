#include <catch2/catch.hpp>

#include "client/session/run/static_tables.h"

namespace millrace::client {
namespace {

// Tables with 3 definitions of file 0 (26 <- 27 <- 28) and 2 of file 1 (29 <- 30). Entries are
// labels + 1; 0 means none.
v1::Static Tables() {
  v1::Static tables;
  v1::ContextTable& c = *tables.mutable_contexts();
  for (const std::uint32_t label : {0u, 27u, 28u, 0u, 30u}) c.add_previous_label(label);
  for (const std::uint32_t label : {29u, 31u}) c.add_file_representative(label);
  for (const std::uint32_t parent : {0u, 0u, 1u}) c.add_list_parent(parent);
  for (const std::uint32_t file : {0u, 1u, 0u}) c.add_list_file(file);
  for (const std::uint32_t list : {0u, 2u, 1u}) c.add_context_list(list);
  for (const std::uint32_t start : {28u, 30u, 0u}) c.add_context_start(start);
  return tables;
}

Result<std::shared_ptr<const StaticTables>> Parse(const v1::Static& tables) {
  return StaticTables::Parse(tables.SerializeAsString(), 26);
}

TEST_CASE("a context is the spines of its files in order, then its own chain", "[static]") {
  const auto tables = Parse(Tables()).value();
  CHECK(tables->Context(0).value() == std::vector<std::uint32_t>{27, 26});
  CHECK(tables->Context(1).value() == std::vector<std::uint32_t>{30, 29, 28, 27, 26, 29});
  CHECK(tables->Context(2).value() == std::vector<std::uint32_t>{30, 29});
  CHECK(tables->Context(3).status().code() == StatusCode::kOutOfRange);
}

TEST_CASE("files come with the labels of their definitions", "[static]") {
  v1::Static tables = Tables();
  v1::Vocabulary& v = *tables.mutable_vocabulary();
  v.add_files("a.bin");
  CHECK(Parse(tables).status().code() == StatusCode::kDataLoss);
  v.add_labels_of_file(3);
  CHECK(Parse(tables).value()->vocabulary().files == std::vector<std::string>{"a.bin"});
  CHECK(Parse(tables).value()->vocabulary().labels_of_file == std::vector<std::uint32_t>{3});
}

TEST_CASE("tables that refer to what does not exist are refused", "[static]") {
  const auto bad = [](const std::function<void(v1::ContextTable&)>& change) {
    v1::Static tables = Tables();
    change(*tables.mutable_contexts());
    return Parse(tables).status().code() == StatusCode::kDataLoss;
  };
  CHECK(bad([](v1::ContextTable& c) { c.set_previous_label(1, 99); }));
  CHECK(bad([](v1::ContextTable& c) { c.set_previous_label(1, 3); }));  // 3 is a class
  CHECK(bad([](v1::ContextTable& c) { c.set_file_representative(0, 32); }));
  CHECK(bad([](v1::ContextTable& c) { c.set_list_file(1, 2); }));
  CHECK(bad([](v1::ContextTable& c) { c.set_context_list(0, 3); }));
  CHECK(bad([](v1::ContextTable& c) { c.set_context_start(0, 32); }));
  CHECK(bad([](v1::ContextTable& c) { c.add_list_parent(0); }));
  CHECK(bad([](v1::ContextTable& c) { c.add_context_list(0); }));
}

TEST_CASE("tables whose walks would never end are refused", "[static]") {
  v1::Static tables = Tables();
  tables.mutable_contexts()->set_previous_label(0, 29);  // 26 -> 28 -> 27 -> 26
  CHECK(Parse(tables).status().code() == StatusCode::kDataLoss);
  tables = Tables();
  tables.mutable_contexts()->set_list_parent(1, 1);
  CHECK(Parse(tables).status().code() == StatusCode::kDataLoss);
}

TEST_CASE("bytes that are no tables are refused", "[static]") {
  CHECK(StaticTables::Parse("\xff\xff\xff", 26).status().code() == StatusCode::kDataLoss);
}

}  // namespace
}  // namespace millrace::client
