#include "common/expr/graph.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include <fmt/format.h>

#include "common/expr/lexer.h"

namespace millrace::expr_internal {
namespace {

bool IsFloat(ValueType type) { return type >= ValueType::kFloat32; }

Machine MachineOf(ValueType type) {
  if (!IsFloat(type)) return Machine::kInt64;
  return type == ValueType::kFloat32 ? Machine::kFloat32 : Machine::kFloat64;
}

std::string_view NameOf(ValueType type) {
  constexpr std::array<std::string_view, 5> kNames = {"bool", "an integer", "an integer", "float32",
                                                      "float64"};
  return kNames[static_cast<std::size_t>(type)];
}

/// The type in which two values are computed together.
ValueType CommonType(Value a, Value b) {
  if (a.weak && b.weak) {
    return IsFloat(a.type) || IsFloat(b.type) ? ValueType::kFloat64 : ValueType::kInt64;
  }
  if (a.weak) std::swap(a, b);
  if (b.weak) {
    if (IsFloat(a.type)) return a.type;
    return IsFloat(b.type) ? ValueType::kFloat64 : ValueType::kInt64;
  }
  const auto [least, greatest] = std::minmax(a.type, b.type);
  if (!IsFloat(greatest)) return ValueType::kInt64;
  return least == ValueType::kInt64 ? ValueType::kFloat64 : greatest;
}

/// The type in which the real functions and `/` compute a value of this type.
ValueType RealType(ValueType type) { return IsFloat(type) ? type : ValueType::kFloat64; }
ValueType NumberType(ValueType type) { return IsFloat(type) ? type : ValueType::kInt64; }

struct Operator {
  std::string_view symbol;
  Operation operation;
};
constexpr std::array<Operator, 6> kArithmetic = {{{"+", Operation::kAdd},
                                                  {"-", Operation::kSubtract},
                                                  {"*", Operation::kMultiply},
                                                  {"/", Operation::kDivide},
                                                  {"//", Operation::kFloorDivide},
                                                  {"%", Operation::kModulo}}};
constexpr std::array<Operator, 4> kComparisons = {{{"<", Operation::kLess},
                                                   {"<=", Operation::kLessOrEqual},
                                                   {"==", Operation::kEqual},
                                                   {"!=", Operation::kNotEqual}}};

bool IsComparison(Operation operation) {
  return std::any_of(kComparisons.begin(), kComparisons.end(),
                     [&](const Operator& one) { return one.operation == operation; });
}

}  // namespace

int Arity(Operation operation) {
  if (operation <= Operation::kConstant) return 0;
  if (operation < Operation::kSelect) return 2;
  return operation == Operation::kSelect ? 3 : 1;
}

Value Graph::Constant(std::int64_t value) {
  Node node;
  node.bits = static_cast<std::uint64_t>(value);
  return {Add(node), ValueType::kInt64, true};
}

Value Graph::Constant(double value) {
  Node node;
  node.machine = node.operands = Machine::kFloat64;
  node.bits = std::bit_cast<std::uint64_t>(value);
  return {Add(node), ValueType::kFloat64, true};
}

Value Graph::Input(std::size_t number, DType dtype) {
  ValueType type = ValueType::kInt64;
  if (millrace::IsFloat(dtype)) {
    type = dtype == DType::kFloat64 ? ValueType::kFloat64 : ValueType::kFloat32;
  } else if (dtype == DType::kBool) {
    type = ValueType::kBool;
  } else if (DTypeSize(dtype) <= 2) {
    type = ValueType::kNarrow;
  }
  Node node;
  node.operation = Operation::kLoad;
  node.machine = MachineOf(type);
  node.bits = number;
  return {Add(node), type, false};
}

Result<Value> Graph::Binary(std::string_view symbol, Value a, Value b, std::size_t column) {
  if (symbol == "&&" || symbol == "||") {
    Node node;
    node.operation = symbol == "&&" ? Operation::kAnd : Operation::kOr;
    node.in = {Truth(a), Truth(b)};
    return Value{Add(node), ValueType::kBool, a.weak && b.weak};
  }
  const ValueType common = CommonType(a, b);
  if (symbol.starts_with('>')) {  // a > b is b < a, also if one is NaN
    std::swap(a, b);
    symbol = symbol == ">" ? "<" : "<=";
  }
  for (const Operator& one : kComparisons) {
    if (one.symbol != symbol) continue;
    const Value compared = Compute(one.operation, a, b, common, ValueType::kBool);
    const bool takes_nan = one.operation == Operation::kNotEqual && IsFloat(common);
    const Value of_numbers =
        takes_nan && nan_ == NanComparison::kFails ? AndNumbers(compared, a, b, common) : compared;
    return AndPresent(of_numbers, a, b);
  }
  for (const Operator& one : kArithmetic) {
    if (one.symbol != symbol) continue;
    const bool whole =
        one.operation == Operation::kFloorDivide || one.operation == Operation::kModulo;
    if (whole && (IsFloat(a.type) || IsFloat(b.type))) {
      return ErrorAt(column, fmt::format("'{}' is for integers, got {} and {}", symbol,
                                         NameOf(a.type), NameOf(b.type)));
    }
    const ValueType type = one.operation == Operation::kDivide ? RealType(common) : common;
    return Compute(one.operation, a, b, type, type);
  }
  return Internal(fmt::format("no operator '{}'", symbol));
}

void Graph::SetPresence(std::size_t input, Value presence) {
  presence_.insert_or_assign(input, presence);
}

Value Graph::AndPresent(Value compared, Value a, Value b) {
  if (presence_.empty()) return compared;
  std::set<std::size_t> optional;  // in their order, so that equal texts make equal graphs
  std::set<std::uint32_t> seen;
  std::vector<std::uint32_t> left = {a.node, b.node};
  while (!left.empty()) {
    const std::uint32_t number = left.back();
    left.pop_back();
    if (!seen.insert(number).second) continue;
    const Node& node = nodes_[number];
    if (node.operation == Operation::kLoad && presence_.contains(node.bits)) {
      optional.insert(node.bits);
    }
    if (IsComparison(node.operation)) continue;
    left.insert(left.end(), node.in.begin(), node.in.begin() + Arity(node.operation));
  }
  for (const std::size_t input : optional) {
    Node both;
    both.operation = Operation::kAnd;
    both.in = {Truth(compared), Truth(presence_.at(input))};
    compared = {Add(both), ValueType::kBool, false};
  }
  return compared;
}

Value Graph::AndNumbers(Value compared, Value a, Value b, ValueType common) {
  for (const Value one : {a, b}) {
    const Value is_number = Compute(Operation::kEqual, one, one, common, ValueType::kBool);
    Node both;
    both.operation = Operation::kAnd;
    both.in = {Truth(compared), Truth(is_number)};
    compared = {Add(both), ValueType::kBool, compared.weak};
  }
  return compared;
}

Value Graph::Compute(Operation operation, Value a, Value b, ValueType common, ValueType result) {
  Node node;
  node.operation = operation;
  node.operands = MachineOf(common);
  node.machine = MachineOf(result);
  node.in = {Convert(a.node, node.operands), Convert(b.node, node.operands)};
  return {Add(node), result, a.weak && b.weak};
}

Value Graph::Extreme(Operation operation, Value a, Value b) {
  const ValueType common = CommonType(a, b);
  return Compute(operation, a, b, common, common);
}

Value Graph::Negate(Value a) { return Function(Operation::kNegate, a); }

Value Graph::Not(Value a) {
  Node node;
  node.operation = Operation::kIsZero;
  node.operands = MachineOf(a.type);
  node.in = {a.node};
  return {Add(node), ValueType::kBool, a.weak};
}

Value Graph::Select(Value condition, Value a, Value b) {
  const ValueType common = CommonType(a, b);
  Node node;
  node.operation = Operation::kSelect;
  node.operands = node.machine = MachineOf(common);
  // An integer is a condition as it is.
  const bool integer = !IsFloat(condition.type);
  node.in = {integer ? condition.node : Truth(condition), Convert(a.node, node.machine),
             Convert(b.node, node.machine)};
  const bool weak = a.weak && b.weak && IsConstant(node.in[0]);
  return {Add(node), common, weak};
}

Value Graph::Function(Operation operation, Value a) {
  Node node;
  node.operation = operation;
  switch (operation) {
    case Operation::kToInt64:
      return {Convert(a.node, Machine::kInt64), ValueType::kInt64, false};
    case Operation::kToFloat32:
      return {Convert(a.node, Machine::kFloat32), ValueType::kFloat32, false};
    case Operation::kToFloat64:
      return {Convert(a.node, Machine::kFloat64), ValueType::kFloat64, false};
    case Operation::kFloor:
    case Operation::kCeil:
    case Operation::kRound:
      if (!IsFloat(a.type)) return {a.node, ValueType::kInt64, a.weak};
      break;
    default:
      break;
  }
  const ValueType type = operation >= Operation::kFloor ? RealType(a.type) : NumberType(a.type);
  node.operands = node.machine = MachineOf(type);
  node.in = {Convert(a.node, node.machine)};
  return {Add(node), type, a.weak};
}

/// A node with 1 where the value differs from 0, otherwise 0.
std::uint32_t Graph::Truth(Value a) {
  if (a.type == ValueType::kBool) return a.node;
  Node node;
  node.operation = Operation::kNotZero;
  node.operands = MachineOf(a.type);
  node.in = {a.node};
  return Add(node);
}

std::uint32_t Graph::Convert(std::uint32_t number, Machine to) {
  const Node& from = nodes_[number];
  if (from.machine == to) return number;
  Node node;
  if (from.operation == Operation::kLoad && from.machine == Machine::kInt64) {
    // The load can do it: an integer is rounded once on either way.
    node = from;
    node.machine = to;
    return Add(node);
  }
  constexpr std::array kConversions = {Operation::kToInt64, Operation::kToFloat32,
                                       Operation::kToFloat64};
  node.operation = kConversions[static_cast<std::size_t>(to)];
  node.machine = to;
  node.operands = from.machine;
  node.in = {number};
  return Add(node);
}

bool Graph::IsConstant(std::uint32_t node) const {
  return nodes_[node].operation == Operation::kConstant;
}

std::uint32_t Graph::Add(Node node) {
  const int arity = Arity(node.operation);
  if (arity > 0 && std::all_of(node.in.begin(), node.in.begin() + arity,
                               [&](std::uint32_t in) { return IsConstant(in); })) {
    return Fold(node);
  }
  const Key key{node.operation, node.machine, node.operands, node.in, node.bits};
  const auto [place, inserted] = numbers_.emplace(key, static_cast<std::uint32_t>(nodes_.size()));
  if (inserted) nodes_.push_back(node);
  return place->second;
}

/// The kernels themselves compute constants, so a folded value has the bits of one that is not.
std::uint32_t Graph::Fold(const Node& node) {
  alignas(std::uint64_t) std::array<std::array<std::byte, sizeof(std::uint64_t)>, 4> words = {};
  for (int i = 0; i < Arity(node.operation); ++i) {
    std::memcpy(words[i].data(), &nodes_[node.in[i]].bits, sizeof(words[i]));
  }
  FindKernel(node.operation, node.operands)(&words[3], &words[0], &words[1], &words[2], 1);
  Node constant;
  constant.machine = constant.operands = node.machine;
  std::memcpy(&constant.bits, words[3].data(), sizeof(words[3]));
  return Add(constant);
}

}  // namespace millrace::expr_internal
