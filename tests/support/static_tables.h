// Static tables for tests, made with protobuf's own classes.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "millrace/v1/common.pb.h"

namespace millrace::test {

inline v1::TableColumn& AddColumn(v1::Table& table, const char* name, const char* type) {
  v1::TableColumn& column = *table.add_columns();
  column.set_name(name);
  column.set_type(type);
  return column;
}
inline void AddNumbers(v1::Table& table, const char* name,
                       const std::vector<std::uint64_t>& values) {
  v1::TableColumn& column = AddColumn(table, name, "uint64");
  column.mutable_numbers()->Assign(values.begin(), values.end());
  table.set_rows(values.size());
}
inline void AddSigned(v1::Table& table, const char* name, const std::vector<std::int64_t>& values) {
  v1::TableColumn& column = AddColumn(table, name, "int64");
  column.mutable_signed_numbers()->Assign(values.begin(), values.end());
  table.set_rows(values.size());
}
inline void AddTexts(v1::Table& table, const char* name, const std::vector<std::string>& values) {
  v1::TableColumn& column = AddColumn(table, name, "text");
  for (const std::string& text : values) {
    column.add_lengths(text.size());
    column.mutable_text()->append(text);
  }
  table.set_rows(values.size());
}

inline v1::Table& AddTable(v1::Static& tables, const char* name) {
  tables.set_format(2);
  v1::Table& table = *tables.add_tables();
  table.set_name(name);
  return table;
}

/// The tables of a Coq plan of 2 classes, and of 3 definitions in file 0 (2 <- 3 <- 4) and 2 in
/// file 1 (5 <- 6). Definitions in columns are labels + 1; 0 means none.
inline v1::Static CoqStatic() {
  v1::Static tables;
  AddTexts(AddTable(tables, "node_classes"), "name", {"rel", "app"});
  v1::Table& labels = AddTable(tables, "node_labels");
  AddTexts(labels, "name", {"rel", "app", "a", "b", "c", "d", "e"});
  AddSigned(labels, "ident", {0, 0, -7, 8, 9, 10, 11});
  AddNumbers(labels, "previous", {0, 0, 0, 3, 4, 0, 6});
  AddTexts(AddTable(tables, "edge_labels"), "name", {"arg"});
  v1::Table& tactics = AddTable(tables, "tactics");
  AddSigned(tactics, "ident", {-3});
  AddTexts(tactics, "text", {"auto"});
  AddNumbers(tactics, "arguments", {1});
  AddNumbers(tactics, "count", {12});
  v1::Table& files = AddTable(tables, "files");
  AddTexts(files, "name", {"a.bin", "b.bin"});
  AddNumbers(files, "labels", {3, 2});
  AddNumbers(files, "representative", {5, 7});
  v1::Table& lists = AddTable(tables, "context_lists");
  AddNumbers(lists, "parent", {0, 0, 1});
  AddNumbers(lists, "file", {0, 1, 0});
  v1::Table& contexts = AddTable(tables, "contexts");
  AddNumbers(contexts, "list", {0, 2, 1});
  AddNumbers(contexts, "start", {4, 6, 0});
  return tables;
}

/// A column of a table that is there.
inline v1::TableColumn& ColumnOf(v1::Static& tables, const std::string& table,
                                 const std::string& column) {
  for (v1::Table& one : *tables.mutable_tables()) {
    if (one.name() != table) continue;
    for (v1::TableColumn& found : *one.mutable_columns()) {
      if (found.name() == column) return found;
    }
  }
  std::abort();
}

}  // namespace millrace::test
