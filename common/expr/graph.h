// The operations of an expression with their types: every rule about types is here.
//
// Equal operations on equal operands are one node, and operations on constants are constants.
// Thread-compatible.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/result.h"
#include "common/expr/expression.h"
#include "common/expr/kernels.h"

namespace millrace::expr_internal {

/// kNarrow: an integer of at most 16 bits, straight from a column.
enum class ValueType : std::uint8_t { kBool, kNarrow, kInt64, kFloat32, kFloat64 };

struct Node {
  Operation operation = Operation::kConstant;
  Machine machine = Machine::kInt64;  // of the result
  Machine operands = Machine::kInt64;
  std::array<std::uint32_t, 3> in = {};
  std::uint64_t bits = 0;  // of a constant: its value; of a load: the number of the input
};

/// How many operands an operation has.
int Arity(Operation operation);

/// A node, and the type of its value in the language.
struct Value {
  std::uint32_t node = 0;
  ValueType type = ValueType::kInt64;
  bool weak = false;
};

class Graph {
 public:
  explicit Graph(NanComparison nan = NanComparison::kIeee) : nan_(nan) {}

  Value Constant(std::int64_t value);
  Value Constant(double value);
  Value Input(std::size_t number, DType dtype);
  /// Says that an input has a value only in rows where another one, an int64, is not 0.
  void SetPresence(std::size_t input, Value presence);

  /// For an operator between two values, such as "+". `column`: the place that errors name.
  Result<Value> Binary(std::string_view symbol, Value a, Value b, std::size_t column);
  Value Negate(Value a);
  Value Not(Value a);
  Value Select(Value condition, Value a, Value b);
  /// kMin or kMax.
  Value Extreme(Operation operation, Value a, Value b);
  /// A function of one value.
  Value Function(Operation operation, Value a);

  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  using Key = std::tuple<Operation, Machine, Machine, std::array<std::uint32_t, 3>, std::uint64_t>;

  std::uint32_t Add(Node node);
  bool IsConstant(std::uint32_t node) const;
  std::uint32_t Fold(const Node& node);
  std::uint32_t Convert(std::uint32_t node, Machine to);
  std::uint32_t Truth(Value a);
  Value Compute(Operation operation, Value a, Value b, ValueType common, ValueType result);

  /// True if `compared` is, and every optional input below both values has a value.
  Value AndPresent(Value compared, Value a, Value b);
  /// Whether both values are numbers, besides what was compared.
  Value AndNumbers(Value compared, Value a, Value b, ValueType common);

  NanComparison nan_;
  std::vector<Node> nodes_;
  std::map<Key, std::uint32_t> numbers_;
  std::map<std::size_t, Value> presence_;  // by the numbers of inputs
};

}  // namespace millrace::expr_internal
