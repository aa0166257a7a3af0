// Finds definitions by their nodes, in a table that holds no nodes.
#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include <map>
#include <utility>
#include <vector>

#include <rapidcheck/catch.h>

#include "server/kinds/coq/index/definition_table.h"

namespace millrace::test {
namespace {

FileRecord FileOf(std::uint32_t nodes) {
  FileRecord file{};
  file.node_count = nodes;
  return file;
}

DefinitionRecord At(std::uint32_t file, std::uint32_t node) {
  DefinitionRecord definition{};
  definition.file = file;
  definition.node = node;
  return definition;
}

TEST_CASE("a table finds every definition, and nothing at other nodes", "[definition_table]") {
  rc::prop("for files of any size, and definitions close together or far apart", [] {
    std::vector<FileRecord> files;
    std::vector<DefinitionRecord> definitions;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> expected;
    const auto count = *rc::gen::inRange<std::uint32_t>(0, 6);
    for (std::uint32_t f = 0; f < count; ++f) {
      const auto nodes = *rc::gen::element<std::uint32_t>(0, 1, 60, 5'000, 1u << 24, 0xFFFFFFFF);
      files.push_back(FileOf(nodes));
      const auto stride = *rc::gen::element<std::uint32_t>(1, 2, 64, 4'096, 1'000'003);
      std::uint64_t node = *rc::gen::inRange<std::uint32_t>(0, 9);
      for (int d = *rc::gen::inRange(0, 400); d > 0 && node < nodes; --d, node += stride) {
        expected[{f, static_cast<std::uint32_t>(node)}] =
            static_cast<std::uint32_t>(definitions.size());
        definitions.push_back(At(f, static_cast<std::uint32_t>(node)));
      }
    }
    const DefinitionTable table(files, definitions);
    for (const auto& [node, definition] : expected) {
      RC_ASSERT(table.Find({node.first, node.second}) == definition);
      for (const std::uint32_t other : {node.second - 1, node.second + 1, node.second ^ 0x10000}) {
        if (expected.contains({node.first, other})) continue;
        RC_ASSERT(table.Find({node.first, other}) == kNoRef);
      }
    }
    RC_ASSERT(table.Find({count, 0}) == kNoRef);
    RC_ASSERT(table.Find({kNoRef, kNoRef}) == kNoRef);
  });
}

TEST_CASE("a table takes 11 bytes a definition", "[definition_table]") {
  constexpr std::uint32_t kDefinitions = 100'000;
  const std::vector<FileRecord> files(20, FileOf(1'000'000));
  std::vector<DefinitionRecord> definitions;
  for (std::uint32_t d = 0; d < kDefinitions; ++d) definitions.push_back(At(d % 20, d / 20 * 190));
  CHECK(DefinitionTable(files, definitions).bytes() < 11 * kDefinitions);
}

TEST_CASE("a definition that lies at no node of its file is not found", "[definition_table]") {
  const std::vector<FileRecord> files = {FileOf(3)};
  const std::vector<DefinitionRecord> definitions = {At(0, 2), At(0, 3), At(1, 0)};
  const DefinitionTable table(files, definitions);
  CHECK(table.Find({0, 2}) == 0);
  CHECK(table.Find({0, 3}) == kNoRef);
  CHECK(table.Find({1, 0}) == kNoRef);
}

}  // namespace
}  // namespace millrace::test
