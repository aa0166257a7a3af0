#include "common/expr/expression.h"

#include <catch2/catch.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/unit/common/expr/columns.h"

namespace millrace::test {
namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A column of one row for each dtype, named by it.
std::vector<Column> OneOfEach() {
  std::vector<Column> columns;
  for (std::size_t i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    columns.push_back(MakeColumn(std::string(DTypeName(dtype)) + "s", dtype,
                                 std::vector<std::uint8_t>(DTypeSize(dtype), 0)));
  }
  return columns;
}

std::string TypeOf(const std::string& text) {
  const ExpressionConstants constants = {{"W", std::int64_t{2}}, {"V", 0.5}};
  const auto expression = CompileOver(text, OneOfEach(), constants);
  return expression.ok() ? std::string(DTypeName(expression->type()))
                         : expression.status().message();
}

template <class T>
std::vector<T> Run(const std::string& text, const std::vector<Column>& columns,
                   const ExpressionRows& rows, const ExpressionConstants& constants = {}) {
  INFO(text);
  const auto expression = CompileOver(text, columns, constants);
  REQUIRE(expression.status() == OkStatus());
  REQUIRE(DTypeSize(expression->type()) == sizeof(T));
  return ValuesOf<T>(RunOver(*expression, columns, rows));
}

template <class T>
T One(const std::string& text, const std::vector<Column>& columns = {}) {
  return Run<T>(text, columns, {.rows = 1}).at(0);
}

std::string Error(const std::string& text, const std::vector<Column>& columns = OneOfEach(),
                  const ExpressionConstants& constants = {}) {
  return CompileOver(text, columns, constants).status().message();
}

TEST_CASE("a name alone gives the type that it computes in", "[expr]") {
  for (const char* name :
       {"uint8s", "uint16s", "uint32s", "uint64s", "int8s", "int16s", "int32s", "int64s"}) {
    CHECK(TypeOf(name) == "int64");
  }
  CHECK(TypeOf("bools") == "bool");
  CHECK(TypeOf("float16s") == "float32");
  CHECK(TypeOf("bfloat16s") == "float32");
  CHECK(TypeOf("float32s") == "float32");
  CHECK(TypeOf("float64s") == "float64");
}

TEST_CASE("bools and narrow integers give float32 with float32, wider ones float64", "[expr]") {
  for (const char* name : {"bools", "uint8s", "int8s", "uint16s", "int16s"}) {
    CHECK(TypeOf(name + std::string(" * float32s")) == "float32");
    CHECK(TypeOf("float16s / " + std::string(name)) == "float32");
    CHECK(TypeOf(name + std::string(" + bools")) == "int64");
    CHECK(TypeOf(name + std::string(" / bools")) == "float64");
  }
  for (const char* name : {"uint32s", "int32s", "uint64s", "int64s", "int64(uint8s)",
                           "(uint8s + 1)", "-uint8s", "abs(bools)", "float64s"}) {
    CHECK(TypeOf(name + std::string(" * float32s")) == "float64");
  }
  CHECK(TypeOf("(uint8s < 3) * float32s") == "float32");
  CHECK(TypeOf("!uint8s * float32s") == "float32");
}

TEST_CASE("weak values take the type of the other operand", "[expr]") {
  CHECK(TypeOf("float32s * 0.1") == "float32");
  CHECK(TypeOf("V * float32s + W") == "float32");
  CHECK(TypeOf("float32s * (1 / 3)") == "float32");
  CHECK(TypeOf("float32s * exp(1)") == "float32");
  CHECK(TypeOf("int64s * W") == "int64");
  CHECK(TypeOf("uint8s * V") == "float64");
  CHECK(TypeOf("bools * 2") == "int64");
  CHECK(TypeOf("W + 1") == "int64");
  CHECK(TypeOf("W / 2") == "float64");
  CHECK(TypeOf("bools ? 1 : 0.5") == "float64");
  CHECK(TypeOf("(1 ? 2 : 3.0) * float32s") == "float32");
}

TEST_CASE("what is no constant and what is cast is not weak", "[expr]") {
  CHECK(TypeOf("float32s * float64(0.1)") == "float64");
  CHECK(TypeOf("int64s * float32(0.1)") == "float64");
  CHECK(TypeOf("uint8s * float32(0.1)") == "float32");
  CHECK(TypeOf("float32s * int64(2)") == "float64");
  CHECK(TypeOf("float32s * (bools ? 1 : 2)") == "float64");
}

TEST_CASE("functions give the types of their rules", "[expr]") {
  for (const char* function : {"abs", "sign", "floor", "ceil", "round"}) {
    const std::string call = function + std::string("(");
    CHECK(TypeOf(call + "uint8s)") == "int64");
    CHECK(TypeOf(call + "bools)") == "int64");
    CHECK(TypeOf(call + "float16s)") == "float32");
    CHECK(TypeOf(call + "float64s)") == "float64");
  }
  for (const char* function : {"exp", "log", "sqrt", "tanh", "sin", "cos"}) {
    const std::string call = function + std::string("(");
    CHECK(TypeOf(call + "uint8s)") == "float64");
    CHECK(TypeOf(call + "bfloat16s)") == "float32");
    CHECK(TypeOf(call + "float64s)") == "float64");
  }
  CHECK(TypeOf("max(bools, bools)") == "int64");
  CHECK(TypeOf("bools ? bools : bools") == "int64");
  CHECK(TypeOf("float64s && uint8s") == "bool");
  CHECK(TypeOf("!float32s") == "bool");
}

TEST_CASE("operators bind as in C", "[expr]") {
  CHECK(One<std::int64_t>("2 + 3 * 4 - 6 // 4 % 3") == 13);
  CHECK(One<std::int64_t>("100 - 10 - 1") == 89);
  CHECK(One<std::int64_t>("-2 * -3") == 6);
  CHECK(One<std::int64_t>("--2") == 2);
  CHECK(One<std::uint8_t>("1 || 0 && 0") == 1);
  CHECK(One<std::uint8_t>("1 + 1 == 2 && 3 > 2") == 1);
  CHECK(One<std::uint8_t>("!1 == 0") == 1);
  CHECK(One<std::int64_t>("0 ? 1 : 0 ? 2 : 3") == 3);
  CHECK(One<std::int64_t>("1 ? 0 ? 1 : 2 : 3") == 2);
  CHECK(One<double>("1e2+.5+2.") == 102.5);
  CHECK(One<double>(" 1\t/\r\n4 ") == 0.25);
}

TEST_CASE("integers wrap, and division rounds down", "[expr]") {
  const std::vector<Column> columns = {
      MakeColumn("i", DType::kInt64, std::vector{kLeast}),
      MakeColumn("j", DType::kInt64, std::vector<std::int64_t>{-7})};
  const auto one = [&](const std::string& text) { return One<std::int64_t>(text, columns); };
  CHECK(one("i - 1") == std::numeric_limits<std::int64_t>::max());
  CHECK(one("-i") == kLeast);
  CHECK(one("abs(i)") == kLeast);
  CHECK(one("i * j") == kLeast);
  CHECK(one("i // -1") == kLeast);
  CHECK(one("i % -1") == 0);
  CHECK(one("j // 2") == -4);
  CHECK(one("j % 2") == 1);
  CHECK(one("7 // j") == -1);
  CHECK(one("8 // j") == -2);
  CHECK(one("8 % j") == -6);
  CHECK(one("j // 0") == 0);
  CHECK(one("j % 0") == 0);
  CHECK(one("9223372036854775807 + 1") == kLeast);
}

TEST_CASE("an unsigned value beyond int64 wraps before anything else", "[expr]") {
  const std::vector<Column> columns = {
      MakeColumn("u", DType::kUint64, std::vector{~std::uint64_t{0}})};
  CHECK(One<std::int64_t>("u", columns) == -1);
  CHECK(One<double>("u / 2", columns) == -0.5);
  CHECK(One<double>("float64(u)", columns) == -1);
  CHECK(One<std::uint8_t>("u < 0.5", columns) == 1);
}

TEST_CASE("float32 arithmetic rounds after every operation", "[expr]") {
  const std::vector<Column> columns = {
      MakeColumn("x", DType::kFloat32, std::vector<float>{0.1f}),
      MakeColumn("i", DType::kInt64, std::vector<std::int64_t>{(std::int64_t{1} << 53) + 1})};
  const float third = static_cast<float>(1.0 / 3.0);
  CHECK(One<float>("x * (1 / 3)", columns) == 0.1f * third);
  CHECK(One<float>("x * x + x", columns) == static_cast<float>(0.1f * 0.1f) + 0.1f);
  // Through double this would be rounded twice.
  CHECK(One<float>("float32(9007199791611905)") == 0x1.000002p+53f);
  CHECK(One<double>("float64(float32(i))", columns) == 0x1p53);
  CHECK(One<double>("float64(x)", columns) == static_cast<double>(0.1f));
}

TEST_CASE("a float becomes an integer by truncation and saturates", "[expr]") {
  CHECK(One<std::int64_t>("int64(-2.9)") == -2);
  CHECK(One<std::int64_t>("int64(1e300)") == std::numeric_limits<std::int64_t>::max());
  CHECK(One<std::int64_t>("int64(-1e300)") == kLeast);
  CHECK(One<std::int64_t>("int64(0 / 0)") == 0);
}

TEST_CASE("floor, ceil and round work for every magnitude and keep the sign of zero", "[expr]") {
  std::vector<double> values = {0.0,    -0.0,   0.3,   -0.3,          0.5,       -0.5,
                                1.5,    2.5,    -2.5,  0.7,           -0.7,      0x1p52 - 0.5,
                                0x1p52, 0x1p53, 1e300, -0x1p51 - 0.5, kInfinity, -kInfinity};
  const std::vector<Column> columns = {MakeColumn("d", DType::kFloat64, values)};
  const auto bits = [](const std::vector<double>& doubles) {
    std::vector<std::uint64_t> all;
    for (const double one : doubles) all.push_back(std::bit_cast<std::uint64_t>(one));
    return all;
  };
  const auto expected = [&](auto function) {
    std::vector<double> all;
    for (const double value : values) all.push_back(function(value));
    return bits(all);
  };
  const ExpressionRows rows = {.rows = values.size()};
  CHECK(bits(Run<double>("floor(d)", columns, rows)) ==
        expected([](double x) { return std::floor(x); }));
  CHECK(bits(Run<double>("ceil(d)", columns, rows)) ==
        expected([](double x) { return std::ceil(x); }));
  CHECK(bits(Run<double>("round(d)", columns, rows)) ==
        expected([](double x) { return std::nearbyint(x); }));
  const std::vector<Column> floats = {MakeColumn(
      "x", DType::kFloat32, std::vector<float>{0x1p23f - 0.5f, -0x1p22f - 0.5f, 2.5f, -0.3f})};
  CHECK(Run<float>("round(x)", floats, {.rows = 4}) == std::vector<float>{0x1p23f, -0x1p22f, 2, 0});
}

TEST_CASE("max and min prefer the first operand if it is NaN, otherwise the second", "[expr]") {
  const std::vector<Column> columns = {MakeColumn("x", DType::kFloat64, std::vector{kNan, 1.0}),
                                       MakeColumn("y", DType::kFloat64, std::vector{2.0, kNan})};
  for (const char* text : {"max(x, y)", "min(x, y)"}) {
    const auto got = Run<double>(text, columns, {.rows = 2});
    CHECK(std::isnan(got[0]));
    CHECK(std::isnan(got[1]));
  }
  CHECK_FALSE(std::signbit(One<double>("max(-0.0, 0.0)")));
  CHECK(std::signbit(One<double>("max(0.0, -0.0)")));
}

TEST_CASE("NaN is true, and every NaN is written as the same one", "[expr]") {
  const double other = std::bit_cast<double>(0xfff8000000000123);
  const std::vector<Column> columns = {MakeColumn("d", DType::kFloat64, std::vector{other})};
  CHECK(One<std::int64_t>("d ? 1 : 0", columns) == 1);
  CHECK(One<std::uint8_t>("d && 1", columns) == 1);
  CHECK(One<std::uint8_t>("!d", columns) == 0);
  for (const char* text : {"d", "-d", "d + 1", "sign(d)", "0.0 / 0.0", "sqrt(-1)"}) {
    CHECK(std::bit_cast<std::uint64_t>(One<double>(text, columns)) == 0x7ff8000000000000);
  }
}

TEST_CASE("a comparison with an optional input is false in rows without a value", "[expr]") {
  std::vector<Column> columns = {MakeColumn("x", DType::kInt64, std::vector<std::int64_t>{1, 0}),
                                 MakeColumn("y", DType::kFloat32, std::vector<float>{0, 0.5f}),
                                 MakeColumn("x", DType::kInt64, std::vector<std::int64_t>{1, 0}),
                                 MakeColumn("y", DType::kInt64, std::vector<std::int64_t>{0, 1}),
                                 MakeColumn("z", DType::kInt64, std::vector<std::int64_t>{7, 7})};
  columns[0].input.optional = columns[1].input.optional = true;
  columns[2].input.presence = columns[3].input.presence = true;
  const auto run = [&](const std::string& text) {
    const auto got = Run<std::uint8_t>(text, columns, {.rows = 2});
    return std::to_string(got[0]) + std::to_string(got[1]);
  };
  for (const char* text : {"x == x", "x != 5", "x < 7", "7 > x", "0 <= x * 0", "max(x, z) == z",
                           "(x ? z : z) == 7", "-x <= 0", "int64(float64(x)) < 2"}) {
    CHECK(text + run(text) == text + std::string("10"));
  }
  CHECK(run("y == 0.5") == "01");
  CHECK(run("x + y < 100") == "00");
  CHECK(run("x == 1 || y == 0.5") == "11");
  CHECK(run("x == 1 && y == 0.5") == "00");
  CHECK(run("z == 7 && z != 8") == "11");
  // The result of a comparison is a value of its own.
  CHECK(run("!(x == 5)") == "11");
  CHECK(run("(x == 0) == 0") == "11");
  CHECK(run("!x") == "01");
}

TEST_CASE("an optional input is read with the input that says where it has a value", "[expr]") {
  ExpressionInput x{.name = "x", .optional = true};
  const auto expression = Expression::Compile("x > 1 && x < 5", {{x}});
  REQUIRE(expression.ok());
  CHECK(expression->inputs() == std::vector<ExpressionInput>{x, {.name = "x", .presence = true}});
}

TEST_CASE("small floats compute as float32", "[expr]") {
  const std::vector<Column> columns = {
      MakeColumn("h", DType::kFloat16, std::vector<std::uint16_t>{0x3555}),
      MakeColumn("b", DType::kBFloat16, std::vector<std::uint16_t>{0x3eab}),
      MakeColumn("d", DType::kFloat64, std::vector{1.0})};
  CHECK(One<float>("h * h", columns) == 0x1.554p-2f * 0x1.554p-2f);
  CHECK(One<float>("h + b", columns) == 0x1.554p-2f + 0x1.56p-2f);
  CHECK(One<double>("h * d", columns) == 0x1.554p-2);
}

TEST_CASE("any byte but 0 is true", "[expr]") {
  const std::vector<Column> columns = {
      MakeColumn("b", DType::kBool, std::vector<std::uint8_t>{0, 1, 7})};
  CHECK(Run<std::uint8_t>("b", columns, {.rows = 3}) == std::vector<std::uint8_t>{0, 1, 1});
  CHECK(Run<std::int64_t>("b + b", columns, {.rows = 3}) == std::vector<std::int64_t>{0, 2, 2});
}

TEST_CASE("a row's scalar spreads over its row, also a ragged one", "[expr]") {
  const std::vector<Column> columns = {
      MakeColumn("n", DType::kInt32, std::vector<std::int32_t>{10, 20, 30, 40}),
      MakeColumn("f", DType::kFloat32, std::vector<float>{1, 2, 3, 4}),
      MakeColumn("data", DType::kInt64, std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8}, false)};
  const std::vector<std::int64_t> splits = {0, 3, 3, 7, 8};
  const ExpressionRows ragged = {.rows = 4, .splits = splits};
  CHECK(Run<std::int64_t>("data + n", columns, ragged) ==
        std::vector<std::int64_t>{11, 12, 13, 34, 35, 36, 37, 48});
  CHECK(Run<double>("data * f", columns, ragged) ==
        std::vector<double>{1, 2, 3, 12, 15, 18, 21, 32});
  CHECK(Run<std::int64_t>("n + 1", columns, ragged) == std::vector<std::int64_t>{11, 21, 31, 41});
  CHECK(Run<std::int64_t>("7", columns, ragged) == std::vector<std::int64_t>{7, 7, 7, 7});
  CHECK(Run<std::int64_t>("data + n", columns, {.rows = 4, .width = 2}) ==
        std::vector<std::int64_t>{11, 12, 23, 24, 35, 36, 47, 48});
}

TEST_CASE("rows without values and no rows give nothing", "[expr]") {
  const std::vector<Column> columns = {
      MakeColumn("n", DType::kInt32, std::vector<std::int32_t>{}),
      MakeColumn("data", DType::kFloat64, std::vector<double>{}, false)};
  const std::vector<std::int64_t> none = {0};
  const std::vector<std::int64_t> empty = {0, 0, 0};
  CHECK(Run<double>("data + n", columns, {.rows = 0, .splits = none}).empty());
  CHECK(Run<double>("data + 1", columns, {.rows = 2, .splits = empty}).empty());
  CHECK(Run<double>("data + 1", columns, {.rows = 2, .width = 0}).empty());
  CHECK(Run<std::int64_t>("n", columns, {.rows = 0}).empty());
}

TEST_CASE("values do not depend on where blocks begin", "[expr]") {
  std::vector<std::int64_t> numbers;
  std::vector<std::uint8_t> bytes;
  std::vector<std::int64_t> expected;
  std::vector<std::int64_t> splits = {0};
  for (std::int64_t row = 0; row < 100; ++row) {
    bytes.push_back(static_cast<std::uint8_t>(row));
    for (std::int64_t i = 0; i < row % 17 * 5; ++i) {
      numbers.push_back(i);
      expected.push_back(i * 1000 + row);
    }
    splits.push_back(static_cast<std::int64_t>(numbers.size()));
  }
  const std::vector<Column> columns = {MakeColumn("row", DType::kUint8, bytes),
                                       MakeColumn("i", DType::kInt64, numbers, false)};
  CHECK(Run<std::int64_t>("i * 1000 + row", columns, {.rows = 100, .splits = splits}) == expected);
}

TEST_CASE("an expression says which inputs it reads and whether it is scalar", "[expr]") {
  const std::vector<Column> columns = {
      MakeColumn("n", DType::kInt32, std::vector<std::int32_t>{}),
      MakeColumn("data.length", DType::kInt64, std::vector<std::int64_t>{}),
      MakeColumn("target.y", DType::kFloat32, std::vector<float>{}, false)};
  const auto scalar = CompileOver("data.length + n * data.length", columns);
  REQUIRE(scalar.ok());
  CHECK(scalar->scalar());
  CHECK(scalar->inputs() == std::vector{columns[1].input, columns[0].input});
  const auto spread = CompileOver("target.y * n", columns);
  REQUIRE(spread.ok());
  CHECK_FALSE(spread->scalar());
}

TEST_CASE("the names of a text are known without inputs", "[expr]") {
  using Names = std::vector<ExpressionName>;
  const ExpressionConstants constants = {{"K", std::int64_t{400}}};
  CHECK(Expression::Names("tanh(b / K) + data.length - b * a", constants).value() ==
        Names{{"b", 6}, {"data.length", 15}, {"a", 33}});
  CHECK(Expression::Names("tanh(b / K)").value() == Names{{"b", 6}, {"K", 10}});
  CHECK(Expression::Names("K // 2 % 3", constants).value().empty());
  // Only types of inputs are unknown.
  CHECK(Expression::Names("a // b").ok());
  CHECK_THAT(Expression::Names("a + * b").status().message(), Catch::StartsWith("column 5: "));
  CHECK_THAT(Expression::Names("a / b // 2").status().message(), Catch::StartsWith("column 7: "));
}

TEST_CASE("a row's value spreads over elements of several values", "[expr]") {
  const std::vector<Column> columns = {
      MakeColumn("n", DType::kInt64, std::vector<std::int64_t>{10, 20, 30}),
      MakeColumn("data", DType::kInt64, std::vector<std::int64_t>{1, 2, 3, 4, 5, 6}, false)};
  const std::vector<std::int64_t> splits = {0, 2, 2, 3};
  CHECK(Run<std::int64_t>("data + n", columns, {.rows = 3, .width = 2, .splits = splits}) ==
        std::vector<std::int64_t>{11, 12, 13, 14, 35, 36});
}

TEST_CASE("errors name the column and what is wrong", "[expr]") {
  CHECK(Error("int64s &  1") == "column 8: unexpected '&'; write '&&'");
  CHECK(Error("1.5.2") == "column 4: unexpected '.' after a number");
  CHECK(Error("2e") == "column 2: unexpected 'e' after a number");
  CHECK(Error("3x") == "column 2: unexpected 'x' after a number");
  CHECK(Error("1e999") == "column 1: the number is too large or too small for float64");
  CHECK(Error("\xc3\xa9") == "column 1: unexpected '\\xc3'");
  CHECK(Error("1 == 2 == 3").starts_with("column 8: a chained comparison"));
  CHECK(Error("+1") == "column 1: expected a value, got '+'");
  CHECK(Error("1 2") == "column 3: expected an operator, got '2'");
  CHECK(Error("int64s // 2.0") == "column 8: '//' is for integers, got an integer and float64");
  CHECK(Error("bools % float16s") == "column 7: '%' is for integers, got bool and float32");
  CHECK(Error("min()").starts_with("column 1: min takes two arguments, got 0"));
  CHECK(Error("data.", {MakeColumn("data", DType::kInt8, std::vector<std::int8_t>{})}) ==
        "column 5: unexpected '.'");
  CHECK(Error("c", {}) == "column 1: no input or constant is named 'c'; there are none");
  CHECK(Error("n", {MakeColumn("n", DType::kInt8, std::vector<std::int8_t>{})},
              {{"n", std::int64_t{1}}}) == "column 1: 'n' is both a constant and an input");
}

TEST_CASE("long and deeply nested texts are refused", "[expr]") {
  CHECK(Error(std::string(Expression::kMaxLength + 1, ' ')) ==
        "column 8193: the expression is longer than 8192 bytes");
  for (const std::string opening : {"(", "-", "!", "abs(", "1?", "1?1:"}) {
    std::string text;
    while (text.size() + opening.size() < Expression::kMaxLength) text += opening;
    CHECK_THAT(Error(text), Catch::Contains("nested deeper than 200"));
  }
  std::string sum = "1";
  while (sum.size() + 4 < Expression::kMaxLength) sum += "+bools";
  sum.resize(sum.rfind('+'));
  CHECK(TypeOf(sum) == "int64");
}

TEST_CASE("a literal keeps its type beside a bool", "[expr]") {
  // A bool that made the literal a bool would turn 3 into 1.
  const std::vector<Column> columns = {MakeColumn("c", DType::kBool, std::vector<std::uint8_t>{1})};
  CHECK(One<std::int64_t>("9007199254740993 ? 3 : c", columns) == 3);
}

}  // namespace
}  // namespace millrace::test
