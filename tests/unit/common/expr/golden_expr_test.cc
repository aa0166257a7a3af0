// The recorded expressions of shared/golden-tensors: types, values and columns of errors.

#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "tests/unit/common/expr/golden_expr.h"

namespace millrace::test {
namespace {

TEST_CASE("expressions have the recorded types and values", "[expr][golden]") {
  const GoldenJson golden = ReadGoldenExpressions();
  const std::vector<Column> columns = GoldenColumns(golden);
  const ExpressionConstants constants = GoldenConstants(golden);
  const std::size_t rows = golden["columns"]["i"]["values"].size();
  CHECK(golden["cases"].size() == 83);
  for (const GoldenJson& one : golden["cases"]) {
    const auto text = one["expr"].get<std::string>();
    INFO(text);
    const auto expression = CompileOver(text, columns, constants);
    REQUIRE(expression.status() == OkStatus());
    CHECK(DTypeName(expression->type()) == one["dtype"].get<std::string>());
    const std::vector<std::byte> bytes = RunOver(*expression, columns, {.rows = rows});
    CheckValues(one, expression->type(), bytes);
  }
}

TEST_CASE("wrong expressions are refused at the recorded columns", "[expr][golden]") {
  const GoldenJson golden = ReadGoldenExpressions();
  const std::vector<Column> columns = GoldenColumns(golden);
  CHECK(golden["errors"].size() == 17);
  for (const GoldenJson& one : golden["errors"]) {
    const auto text = one["expr"].get<std::string>();
    INFO(text);
    const auto expression = CompileOver(text, columns, GoldenConstants(golden));
    REQUIRE_FALSE(expression.ok());
    CHECK(expression.status().code() == StatusCode::kInvalidArgument);
    const std::string& message = expression.status().message();
    const std::string where = "column " + std::to_string(one["column"].get<int>()) + ": ";
    CHECK(message.substr(0, where.size()) == where);
    CHECK_THAT(message, Catch::Contains(one["about"].get<std::string>()));
  }
}

}  // namespace
}  // namespace millrace::test
