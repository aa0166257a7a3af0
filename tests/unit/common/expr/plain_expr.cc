#include "tests/unit/common/expr/plain_expr.h"

#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "common/math/exponential.h"
#include "common/math/trigonometry.h"

namespace millrace::test {
namespace {

using Type = PlainValue::Type;

int LevelOf(const PlainExpr& expr) {
  static const std::map<std::string, int> levels = {
      {"?", 0},  {"||", 1}, {"&&", 2}, {"==", 3}, {"!=", 3}, {"<", 4},  {"<=", 4}, {">", 4},
      {">=", 4}, {"+", 5},  {"-", 5},  {"*", 6},  {"/", 6},  {"//", 6}, {"%", 6},  {"!", 7}};
  if (expr.operands.empty()) return 8;
  if (expr.operands.size() == 1 && expr.text == "-") return 7;
  const auto found = levels.find(expr.text);
  return found == levels.end() ? 8 : found->second;
}

std::string TextAt(const PlainExpr& expr, int least) {
  const std::string text = TextOf(expr);
  return LevelOf(expr) < least ? "(" + text + ")" : text;
}

PlainValue Make(Type type, std::int64_t integer, double number) {
  PlainValue value;
  value.type = type;
  value.integer = integer;
  value.number = type == Type::kFloat32 ? static_cast<double>(static_cast<float>(number)) : number;
  return value;
}
PlainValue MakeBool(bool value) { return Make(Type::kBool, value ? 1 : 0, 0); }

/// The value as one of kInt64, kFloat32 and kFloat64.
PlainValue As(const PlainValue& value, Type type) {
  if (type == Type::kInt64) {
    if (!value.is_float()) return Make(type, value.integer, 0);
    if (std::isnan(value.number)) return Make(type, 0, 0);
    if (value.number >= 0x1p63) return Make(type, std::numeric_limits<std::int64_t>::max(), 0);
    if (value.number <= -0x1p63) return Make(type, std::numeric_limits<std::int64_t>::min(), 0);
    return Make(type, static_cast<std::int64_t>(value.number), 0);
  }
  if (value.is_float()) return Make(type, 0, value.number);
  if (type == Type::kFloat32) return Make(type, 0, static_cast<float>(value.integer));
  return Make(type, 0, static_cast<double>(value.integer));
}

Type Common(const PlainValue& a, const PlainValue& b) {
  const auto any = [&](auto holds) { return holds(a) || holds(b); };
  const bool both_weak = a.weak && b.weak;
  if (!any([](const PlainValue& v) { return v.is_float(); })) return Type::kInt64;
  if (both_weak) return Type::kFloat64;
  if (any([](const PlainValue& v) { return !v.weak && v.type == Type::kFloat64; })) {
    return Type::kFloat64;
  }
  const bool strong_float32 =
      any([](const PlainValue& v) { return !v.weak && v.type == Type::kFloat32; });
  const bool wide = any([](const PlainValue& v) { return !v.weak && v.type == Type::kInt64; });
  return strong_float32 && !wide ? Type::kFloat32 : Type::kFloat64;
}

bool IsTrue(const PlainValue& value) {
  return value.is_float() ? value.number != 0 : value.integer != 0;
}

__extension__ using Int128 = __int128;

Int128 Wide(std::int64_t value) { return value; }
std::int64_t Wrapped(Int128 value) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(value));
}

PlainValue OfIntegers(const std::string& text, std::int64_t a, std::int64_t b) {
  const auto integer = [](Int128 value) { return Make(Type::kInt64, Wrapped(value), 0); };
  if (text == "+") return integer(Wide(a) + b);
  if (text == "-") return integer(Wide(a) - b);
  if (text == "*") return integer(Wide(a) * b);
  if (text == "min") return integer(a < b ? a : b);
  if (text == "max") return integer(a > b ? a : b);
  if (text == "<") return MakeBool(a < b);
  if (text == "<=") return MakeBool(a <= b);
  if (text == ">") return MakeBool(a > b);
  if (text == ">=") return MakeBool(a >= b);
  if (text == "==") return MakeBool(a == b);
  if (text == "!=") return MakeBool(a != b);
  if (b == 0) return integer(0);
  Int128 rest = Wide(a) % b;
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  return text == "%" ? integer(rest) : integer((Wide(a) - rest) / b);
}

template <class T>
PlainValue OfFloats(const std::string& text, Type type, T a, T b) {
  const auto number = [&](T value) { return Make(type, 0, static_cast<double>(value)); };
  if (text == "+") return number(a + b);
  if (text == "-") return number(a - b);
  if (text == "*") return number(a * b);
  if (text == "/") return number(a / b);
  if (text == "min") return number(a < b || std::isnan(a) ? a : b);
  if (text == "max") return number(a > b || std::isnan(a) ? a : b);
  if (text == "<") return MakeBool(a < b);
  if (text == "<=") return MakeBool(a <= b);
  if (text == ">") return MakeBool(a > b);
  if (text == ">=") return MakeBool(a >= b);
  if (text == "==") return MakeBool(a == b);
  return MakeBool(a != b);
}

std::optional<PlainValue> OfTwo(const std::string& text, const PlainValue& a, const PlainValue& b) {
  if (text == "&&") return MakeBool(IsTrue(a) && IsTrue(b));
  if (text == "||") return MakeBool(IsTrue(a) || IsTrue(b));
  Type type = Common(a, b);
  if ((text == "//" || text == "%") && (a.is_float() || b.is_float())) return std::nullopt;
  if (text == "/" && type == Type::kInt64) type = Type::kFloat64;
  const PlainValue left = As(a, type);
  const PlainValue right = As(b, type);
  if (type == Type::kInt64) return OfIntegers(text, left.integer, right.integer);
  if (type == Type::kFloat64) return OfFloats<double>(text, type, left.number, right.number);
  return OfFloats<float>(text, type, static_cast<float>(left.number),
                         static_cast<float>(right.number));
}

template <class T>
T OfFloat(const std::string& text, T x) {
  if (text == "-") return -x;
  if (text == "abs") return std::fabs(x);
  if (text == "sign") return std::isnan(x) ? x : static_cast<T>((x > 0 ? 1 : 0) - (x < 0 ? 1 : 0));
  if (text == "floor") return std::floor(x);
  if (text == "ceil") return std::ceil(x);
  if (text == "round") return std::nearbyint(x);
  if (text == "sqrt") return std::sqrt(x);
  if (text == "exp") return math::Exp(x);
  if (text == "log") return math::Log(x);
  if (text == "tanh") return math::Tanh(x);
  return text == "sin" ? math::Sin(x) : math::Cos(x);
}

PlainValue OfOne(const std::string& text, const PlainValue& a) {
  if (text == "!") return MakeBool(!IsTrue(a));
  if (text == "int64") return As(a, Type::kInt64);
  if (text == "float32") return As(a, Type::kFloat32);
  if (text == "float64") return As(a, Type::kFloat64);
  if (!a.is_float()) {
    const std::int64_t x = a.integer;
    const auto integer = [](Int128 value) { return Make(Type::kInt64, Wrapped(value), 0); };
    if (text == "-") return integer(-Wide(x));
    if (text == "abs") return integer(x < 0 ? -Wide(x) : Wide(x));
    if (text == "sign") return integer((x > 0 ? 1 : 0) - (x < 0 ? 1 : 0));
    if (text == "floor" || text == "ceil" || text == "round") return integer(x);
    return Make(Type::kFloat64, 0, OfFloat(text, static_cast<double>(x)));
  }
  if (a.type == Type::kFloat64) return Make(a.type, 0, OfFloat(text, a.number));
  return Make(a.type, 0, static_cast<double>(OfFloat(text, static_cast<float>(a.number))));
}

}  // namespace

DType PlainValue::dtype() const {
  if (type == Type::kBool) return DType::kBool;
  if (!is_float()) return DType::kInt64;
  return type == Type::kFloat32 ? DType::kFloat32 : DType::kFloat64;
}

std::uint64_t PlainValue::Bits() const {
  if (!is_float()) return static_cast<std::uint64_t>(integer);
  if (type == Type::kFloat32) {
    return std::isnan(number) ? 0x7fc00000
                              : std::bit_cast<std::uint32_t>(static_cast<float>(number));
  }
  return std::isnan(number) ? 0x7ff8000000000000 : std::bit_cast<std::uint64_t>(number);
}

PlainPtr PlainNumber(std::string text, std::int64_t value) {
  PlainValue constant = Make(Type::kInt64, value, 0);
  constant.weak = constant.constant = true;
  return std::make_shared<PlainExpr>(PlainExpr{std::move(text), constant, {}});
}
PlainPtr PlainNumber(std::string text, double value) {
  PlainValue constant = Make(Type::kFloat64, 0, value);
  constant.weak = constant.constant = true;
  return std::make_shared<PlainExpr>(PlainExpr{std::move(text), constant, {}});
}
PlainPtr PlainColumn(std::string name) {
  return std::make_shared<PlainExpr>(PlainExpr{std::move(name), {}, {}});
}
PlainPtr Plain(std::string text, std::vector<PlainPtr> operands) {
  return std::make_shared<PlainExpr>(PlainExpr{std::move(text), {}, std::move(operands)});
}

std::string TextOf(const PlainExpr& expr) {
  const int level = LevelOf(expr);
  const auto& operands = expr.operands;
  if (operands.empty()) return expr.text;
  if (level == 0) {
    return TextAt(*operands[0], 1) + " ? " + TextAt(*operands[1], 0) + " : " +
           TextAt(*operands[2], 0);
  }
  if (level == 7) return expr.text + TextAt(*operands[0], 7);
  if (level == 8) {
    std::string text = expr.text + "(";
    for (std::size_t i = 0; i < operands.size(); ++i) {
      text += (i == 0 ? "" : ", ") + TextOf(*operands[i]);
    }
    return text + ")";
  }
  const bool compares = level == 3 || level == 4;
  return TextAt(*operands[0], compares ? level + 1 : level) + " " + expr.text + " " +
         TextAt(*operands[1], level + 1);
}

std::optional<PlainValue> Evaluate(const PlainExpr& expr,
                                   const std::map<std::string, PlainValue>& columns) {
  if (expr.value) return expr.value;
  if (expr.operands.empty()) return columns.at(expr.text);
  std::vector<PlainValue> in;
  bool constant = true;
  bool weak = true;
  for (const PlainPtr& operand : expr.operands) {
    const std::optional<PlainValue> value = Evaluate(*operand, columns);
    if (!value) return std::nullopt;
    constant = constant && value->constant;
    if (in.empty() ? expr.text != "?" : true) weak = weak && value->weak;
    in.push_back(*value);
  }
  std::optional<PlainValue> result;
  if (in.size() == 3) {
    result = As(IsTrue(in[0]) ? in[1] : in[2], Common(in[1], in[2]));
  } else {
    result = in.size() == 2 ? OfTwo(expr.text, in[0], in[1]) : OfOne(expr.text, in[0]);
  }
  if (!result) return std::nullopt;
  const bool cast = expr.text == "int64" || expr.text == "float32" || expr.text == "float64";
  result->constant = constant;
  result->weak = constant && weak && !cast;
  return result;
}

}  // namespace millrace::test
