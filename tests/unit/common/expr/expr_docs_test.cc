// The expressions of docs/reference/tensors.md have the types and values that the page says.
#include <fstream>
#include <string>
#include <vector>

#include "tests/unit/common/expr/columns.h"

#include <catch2/catch.hpp>

namespace millrace::test {
namespace {

/// The cells of a table's row, as they stand between "| " and " |".
std::vector<std::string> Cells(const std::string& line) {
  std::vector<std::string> cells;
  for (std::size_t at = 2; at < line.size();) {
    const std::size_t end = line.find(" |", at);
    if (end == std::string::npos) break;
    cells.push_back(line.substr(at, end - at));
    at = end + 3;
  }
  return cells;
}

double ValueOf(const Expression& expression) {
  const std::vector<std::byte> bytes = RunOver(expression, {}, {.rows = 1});
  switch (expression.type()) {
    case DType::kBool:
      return ValuesOf<std::uint8_t>(bytes).at(0);
    case DType::kInt64:
      return static_cast<double>(ValuesOf<std::int64_t>(bytes).at(0));
    case DType::kFloat32:
      return ValuesOf<float>(bytes).at(0);
    default:
      return ValuesOf<double>(bytes).at(0);
  }
}

}  // namespace

TEST_CASE("the expressions of the page have the types and values that it says", "[docs]") {
  std::ifstream file(std::string(MILLRACE_SOURCE_DIR) + "/docs/reference/tensors.md");
  REQUIRE(file.good());
  int found = 0;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line == "| expression | dtype | value |") {
      inside = true;
      std::getline(file, line);
      continue;
    }
    inside = inside && line.starts_with("| `");
    if (!inside) continue;
    const std::vector<std::string> cells = Cells(line);
    REQUIRE(cells.size() == 3);
    const std::string text = cells[0].substr(1, cells[0].size() - 2);
    INFO(text);
    const auto expression = CompileOver(text, {});
    REQUIRE(expression.status() == OkStatus());
    CHECK(DTypeName(expression->type()) == cells[1]);
    CHECK(ValueOf(*expression) == std::stod(cells[2]));
    ++found;
  }
  CHECK(found >= 10);
}

}  // namespace millrace::test
