// Static tables from a hostile worker: the bytes of a v1::Static, and the vocabulary in them.
#include <memory>

#include "client/coq/vocabulary.h"
#include "common/transport/convert/tables.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/static_tables.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  auto tables = DecodeTables(bytes);
  if (!tables.ok()) return 0;
  for (const NamedTable& table : tables->all()) {
    fuzz::Require(table.columns.size() == table.spec.columns.size(), "every column has values");
    for (const TableColumn& column : table.columns) {
      const std::size_t rows = std::visit([](const auto& values) { return values.size(); }, column);
      fuzz::Require(rows == table.spec.rows, "every column has a value for every row");
      if (const auto* const texts = std::get_if<TextColumn>(&column)) {
        std::size_t sum = 0;
        for (std::size_t i = 0; i < texts->size(); ++i) sum += (*texts)[i].size();
        fuzz::Require(sum <= size, "texts lie in the input");
      }
    }
  }
  const auto vocabulary =
      CoqVocabulary::Decode(std::make_shared<const NamedTables>(*std::move(tables)));
  if (!vocabulary.ok()) return 0;
  static_cast<void>((*vocabulary)->SpineLabels());
  for (std::uint64_t id = 0; id <= (*vocabulary)->contexts(); ++id) {
    fuzz::Require((*vocabulary)->Context(id).ok() == (id < (*vocabulary)->contexts()),
                  "contexts that exist");
  }
  return 0;
}

std::vector<std::string> millrace::fuzz::Seeds() {
  v1::Static graph;
  test::AddTexts(test::AddTable(graph, "node_labels"), "name", {"red", "", "blue"});
  return {test::CoqStatic().SerializeAsString(), graph.SerializeAsString()};
}
