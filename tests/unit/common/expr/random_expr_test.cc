// Random expressions give the bits that a plain interpreter of the rules gives.

#include <rapidcheck.h>
#include <rapidcheck/catch.h>
#include <catch2/catch.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/unit/common/expr/columns.h"
#include "tests/unit/common/expr/plain_expr.h"

namespace millrace::test {
namespace {

const std::vector<std::string> kNames = {"c0", "c1", "c2", "c3", "c0.length", "c2.length"};

/// Numbers that decide what a tree and its columns are. After the last one it gives 0, which is
/// always the simplest choice, so that fewer numbers make a smaller tree.
class Choices {
 public:
  explicit Choices(std::vector<std::uint32_t> numbers) : numbers_(std::move(numbers)) {}

  std::uint32_t Below(std::size_t count) {
    return at_ < numbers_.size() ? static_cast<std::uint32_t>(numbers_[at_++] % count) : 0;
  }

 private:
  std::vector<std::uint32_t> numbers_;
  std::size_t at_ = 0;
};

PlainPtr Leaf(Choices& choices) {
  static const std::vector<PlainPtr> numbers = {
      PlainNumber("1", std::int64_t{1}),
      PlainNumber("0", std::int64_t{0}),
      PlainNumber("3", std::int64_t{3}),
      PlainNumber("W", std::int64_t{50}),
      PlainNumber("16777217", std::int64_t{16777217}),
      PlainNumber("9007199254740993", std::int64_t{9007199254740993}),
      PlainNumber("9223372036854775807", std::numeric_limits<std::int64_t>::max()),
      PlainNumber("0.0", 0.0),
      PlainNumber("V", 0.1),
      PlainNumber("2.5", 2.5),
      PlainNumber("1e-310", 1e-310),
      PlainNumber("1e300", 1e300)};
  if (choices.Below(5) >= 2) return PlainColumn(kNames[choices.Below(kNames.size())]);
  return numbers[choices.Below(numbers.size())];
}

PlainPtr Tree(Choices& choices, int depth) {
  static const std::vector<std::string> unary = {
      "-",   "!",    "abs",  "sign", "floor", "ceil",  "round",   "exp",
      "log", "sqrt", "tanh", "sin",  "cos",   "int64", "float32", "float64"};
  static const std::vector<std::string> binary = {
      "+", "-", "*", "/", "<", "<=", ">", ">=", "==", "!=", "&&", "||", "min", "max", "//", "%"};
  const std::uint32_t kind = depth == 0 ? 0 : choices.Below(10);
  if (kind < 2) return Leaf(choices);
  if (kind < 4) {
    const std::string text = unary[choices.Below(unary.size())];
    return Plain(text, {Tree(choices, depth - 1)});
  }
  if (kind < 9) {
    const std::string text = binary[choices.Below(binary.size())];
    const bool whole = text == "//" || text == "%";
    std::vector<PlainPtr> operands;
    for (int i = 0; i < 2; ++i) {
      operands.push_back(Tree(choices, depth - 1));
      // Most of them get operands that fit.
      if (whole && choices.Below(8) != 0) operands.back() = Plain("int64", {operands.back()});
    }
    return Plain(text, operands);
  }
  const PlainPtr condition = Tree(choices, depth - 1);
  const PlainPtr yes = Tree(choices, depth - 1);
  return Plain("?", {condition, yes, Tree(choices, depth - 1)});
}

/// A column for the library, and its values for the interpreter.
struct BothColumns {
  Column column;
  std::vector<PlainValue> values;
};

constexpr std::array<std::int64_t, 12> kIntegers = {0,
                                                    1,
                                                    -1,
                                                    3,
                                                    -7,
                                                    127,
                                                    50,
                                                    16777217,
                                                    9007199254740993,
                                                    std::numeric_limits<std::int64_t>::min(),
                                                    std::numeric_limits<std::int64_t>::max(),
                                                    -400};
constexpr std::array<double, 14> kFloats = {0.0,
                                            1.0,
                                            -0.0,
                                            0.1,
                                            -2.5,
                                            1e30,
                                            -1e-40,
                                            0.5,
                                            3e300,
                                            700.25,
                                            1e-310,
                                            -1e10,
                                            std::numeric_limits<double>::infinity(),
                                            std::numeric_limits<double>::quiet_NaN()};
// Bits of float16 and bfloat16, and their values.
constexpr std::array<std::uint16_t, 4> kSmallBits = {0x0000, 0x3c00, 0xc100, 0x7c00};
constexpr std::array<float, 4> kHalfs = {0, 1, -2.5f, std::numeric_limits<float>::infinity()};
constexpr std::array<float, 4> kBFloats = {0, 0x1p-7f, -8, 0x1p121f};

template <class T>
void AddInteger(BothColumns& both, std::int64_t value) {
  const auto stored = static_cast<T>(value);
  const auto* bytes = reinterpret_cast<const std::byte*>(&stored);
  both.column.bytes.insert(both.column.bytes.end(), bytes, bytes + sizeof(T));
  PlainValue plain;
  plain.type = sizeof(T) <= 2 ? PlainValue::Type::kNarrow : PlainValue::Type::kInt64;
  plain.integer = static_cast<std::int64_t>(stored);
  both.values.push_back(plain);
}

template <class T>
void AddFloat(BothColumns& both, T stored, PlainValue::Type type, double value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&stored);
  both.column.bytes.insert(both.column.bytes.end(), bytes, bytes + sizeof(T));
  PlainValue plain;
  plain.type = type;
  plain.number = value;
  both.values.push_back(plain);
}

void AddValue(BothColumns& both, Choices& choices) {
  const std::int64_t integer = kIntegers[choices.Below(kIntegers.size())];
  const double number = kFloats[choices.Below(kFloats.size())];
  const std::uint32_t small = choices.Below(kSmallBits.size());
  switch (both.column.input.dtype) {
    case DType::kUint8:
      return AddInteger<std::uint8_t>(both, integer);
    case DType::kUint16:
      return AddInteger<std::uint16_t>(both, integer);
    case DType::kUint32:
      return AddInteger<std::uint32_t>(both, integer);
    case DType::kUint64:
      return AddInteger<std::uint64_t>(both, integer);
    case DType::kInt8:
      return AddInteger<std::int8_t>(both, integer);
    case DType::kInt16:
      return AddInteger<std::int16_t>(both, integer);
    case DType::kInt32:
      return AddInteger<std::int32_t>(both, integer);
    case DType::kInt64:
      return AddInteger<std::int64_t>(both, integer);
    case DType::kBool:
      AddInteger<std::uint8_t>(both, integer & 1);
      both.values.back().type = PlainValue::Type::kBool;
      return;
    case DType::kFloat16:
      return AddFloat(both, kSmallBits[small], PlainValue::Type::kFloat32, kHalfs[small]);
    case DType::kBFloat16:
      return AddFloat(both, kSmallBits[small], PlainValue::Type::kFloat32, kBFloats[small]);
    case DType::kFloat32: {
      const auto narrow = static_cast<float>(number);
      return AddFloat(both, narrow, PlainValue::Type::kFloat32, narrow);
    }
    case DType::kFloat64:
      return AddFloat(both, number, PlainValue::Type::kFloat64, number);
  }
}

std::vector<std::uint64_t> BitsOf(DType type, const std::vector<std::byte>& bytes) {
  std::vector<std::uint64_t> bits(bytes.size() / DTypeSize(type));
  for (std::size_t i = 0; i < bits.size(); ++i) {
    std::memcpy(&bits[i], bytes.data() + i * DTypeSize(type), DTypeSize(type));
  }
  return bits;
}

/// The text of what differs, empty if nothing does.
std::string Difference(const PlainExpr& tree, const std::vector<BothColumns>& columns,
                       const std::vector<std::int64_t>& splits) {
  const std::size_t rows = splits.size() - 1;
  std::vector<Column> library;
  for (const BothColumns& one : columns) library.push_back(one.column);
  const std::string text = TextOf(tree);
  const auto expression = CompileOver(text, library, {{"W", std::int64_t{50}}, {"V", 0.1}});
  // The values at element `i` of row `r`.
  const auto values_at = [&](std::size_t r, std::size_t i) {
    std::map<std::string, PlainValue> values;
    for (const BothColumns& one : columns) {
      values[one.column.input.name] = one.values[one.column.input.scalar ? r : i];
    }
    return values;
  };
  const std::optional<PlainValue> first = Evaluate(tree, values_at(0, 0));
  if (!first || !expression.ok()) {
    if (!first && !expression.ok()) return "";
    return text + ": " + expression.status().ToString();
  }
  if (expression->type() != first->dtype()) {
    return text + ": " + std::string(DTypeName(expression->type()));
  }
  const std::vector<std::uint64_t> got =
      BitsOf(expression->type(), RunOver(*expression, library, {.rows = rows, .splits = splits}));
  std::size_t at = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    const auto begin = static_cast<std::size_t>(expression->scalar() ? r : splits[r]);
    const auto end = static_cast<std::size_t>(expression->scalar() ? r + 1 : splits[r + 1]);
    for (std::size_t i = begin; i < end; ++i, ++at) {
      const std::uint64_t expected = Evaluate(tree, values_at(r, i))->Bits();
      if (at >= got.size() || got[at] != expected) {
        return text + ": value " + std::to_string(at) + " is " +
               std::to_string(at < got.size() ? got[at] : 0) + ", not " + std::to_string(expected);
      }
    }
  }
  return at == got.size() ? "" : text + ": too many values";
}

std::vector<BothColumns> MakeColumns(const std::vector<DType>& dtypes, Choices& choices,
                                     const std::vector<std::int64_t>& splits) {
  std::vector<BothColumns> columns;
  for (std::size_t c = 0; c < kNames.size(); ++c) {
    BothColumns both;
    both.column.input = {kNames[c], dtypes[c], c % 2 == 0};
    const std::size_t count = c % 2 == 0 ? splits.size() - 1 : splits.back();
    for (std::size_t i = 0; i < count; ++i) AddValue(both, choices);
    columns.push_back(std::move(both));
  }
  return columns;
}

TEST_CASE("random expressions give what an interpreter of the rules gives", "[expr]") {
  rc::prop("for columns of any types, over ragged rows", [] {
    const auto numbers = [] {
      return *rc::gen::scale(3.0, rc::gen::container<std::vector<std::uint32_t>>(
                                      rc::gen::resize(100, rc::gen::arbitrary<std::uint32_t>())));
    };
    Choices for_tree(numbers());
    const PlainPtr tree = Tree(for_tree, 6);
    Choices for_columns(numbers());
    std::vector<DType> dtypes;
    for (std::size_t c = 0; c < kNames.size(); ++c) {
      dtypes.push_back(static_cast<DType>(for_columns.Below(kDTypes)));
    }
    const std::vector<std::int64_t> splits = {0, 2, 2, 7, 8, 20};
    const auto columns = MakeColumns(dtypes, for_columns, splits);
    const std::string difference = Difference(*tree, columns, splits);
    RC_TAG(Evaluate(*tree, {{"c0", columns[0].values[0]},
                            {"c1", columns[1].values[0]},
                            {"c2", columns[2].values[0]},
                            {"c3", columns[3].values[0]},
                            {"c0.length", columns[4].values[0]},
                            {"c2.length", columns[5].values[0]}})
               ? "good"
               : "refused");
    RC_ASSERT(difference == "");
  });
}

TEST_CASE("a literal beside a bool under a constant condition stays a number", "[expr]") {
  // -(((int64(c3) / max(c2.length, 0.0)) > ceil(max(c1, c1))) %
  //   (max(!c0.length, (c3 ? c1 : c3)) - ceil((9007199254740993 ? 3 : c3))))
  const PlainPtr c1 = PlainColumn("c1");
  const PlainPtr c3 = PlainColumn("c3");
  const PlainPtr quotient = Plain(
      "/",
      {Plain("int64", {c3}), Plain("max", {PlainColumn("c2.length"), PlainNumber("0.0", 0.0)})});
  const PlainPtr left = Plain(">", {quotient, Plain("ceil", {Plain("max", {c1, c1})})});
  const PlainPtr constant =
      Plain("?", {PlainNumber("9007199254740993", std::int64_t{9007199254740993}),
                  PlainNumber("3", std::int64_t{3}), c3});
  const PlainPtr right =
      Plain("-", {Plain("max", {Plain("!", {PlainColumn("c0.length")}), Plain("?", {c3, c1, c3})}),
                  Plain("ceil", {constant})});
  const PlainPtr tree = Plain("-", {Plain("%", {left, right})});
  CHECK(TextOf(*tree) ==
        "-((int64(c3) / max(c2.length, 0.0) > ceil(max(c1, c1))) % "
        "(max(!c0.length, c3 ? c1 : c3) - ceil(9007199254740993 ? 3 : c3)))");
  const std::vector<std::int64_t> splits = {0, 3, 6, 12};
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t i = 0; i < 300; ++i) numbers.push_back(i * i * 7 + i / 5);
  for (std::size_t first = 0; first < kDTypes; ++first) {
    for (std::size_t third = 0; third < kDTypes; ++third) {
      Choices choices(numbers);
      const auto columns = MakeColumns({DType::kInt64, static_cast<DType>(first), DType::kInt64,
                                        static_cast<DType>(third), DType::kInt64, DType::kInt64},
                                       choices, splits);
      CHECK(Difference(*tree, columns, splits) == "");
    }
  }
}

}  // namespace
}  // namespace millrace::test
