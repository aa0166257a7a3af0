// The parameters of an operation: what it takes, and what a user gave.
//
// Errors are InvalidArgument. The message begins with the parameter's name and ": ", so that a
// caller who knows where it was written can say so.
//
// Value types and pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/result.h"

namespace millrace {

/// A number as it was written: with or without a fraction.
using ParamNumber = std::variant<std::int64_t, double>;

using OperationValue =
    std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                 std::vector<ParamNumber>, std::map<std::string, ParamNumber>,
                 std::vector<std::string>, std::map<std::string, std::string>>;

enum class OperationValueType : std::uint8_t {
  kBool,
  kInt,
  kNumber,
  kText,
  kInts,
  kNumbers,       // a list of integers is one too
  kNamedNumbers,  // names and their numbers
  kTexts,
  kNamedTexts,  // names and their texts
  kTree,        // names and values of any shape, as the text of a JSON object
};

/// One parameter that an operation takes.
struct OperationParameter {
  std::string name;
  std::vector<OperationValueType> types;  // any of these is accepted; the first is the usual one
  std::string help;                       // one line
  std::optional<OperationValue> default_value = {};
  std::optional<std::int64_t> min = {};  // for integers, also those of lists; inclusive
  std::optional<std::int64_t> max = {};
  std::optional<std::size_t> count = {};  // of a list
  std::vector<std::string> allowed = {};  // for texts; empty: any
  bool required = false;
};

/// The parameters of one use of an operation.
class OperationParams {
 public:
  OperationParams() = default;
  explicit OperationParams(std::map<std::string, OperationValue> values)
      : values_(std::move(values)) {}

  const std::map<std::string, OperationValue>& values() const { return values_; }
  bool is_set(std::string_view name) const { return Find(name) != nullptr; }

  /// REQUIRES: the parameter is set and has this type. NormalParams makes sure of types.
  bool GetBool(std::string_view name) const;
  std::int64_t GetInt(std::string_view name) const;
  bool IsInt(std::string_view name) const;
  /// Whether it is set to a list.
  bool IsList(std::string_view name) const;
  bool IsNamedTexts(std::string_view name) const;
  const std::string& GetText(std::string_view name) const;
  const std::vector<std::int64_t>& GetInts(std::string_view name) const;
  ParamNumber GetNumber(std::string_view name) const;
  /// A single number is a list of one.
  std::vector<ParamNumber> GetNumbers(std::string_view name) const;
  std::map<std::string, ParamNumber> GetNamedNumbers(std::string_view name) const;
  /// Empty if it is not set.
  std::vector<std::string> GetTexts(std::string_view name) const;
  /// Empty if it is not set.
  std::map<std::string, std::string> GetNamedTexts(std::string_view name) const;

 private:
  const OperationValue* Find(std::string_view name) const;

  std::map<std::string, OperationValue> values_;
};

/// The given parameters with defaults filled in, or the first error among them.
Result<OperationParams> NormalParams(std::span<const OperationParameter> parameters,
                                     const OperationParams& given);

/// The values that a parameter takes, for messages and help: "an integer from 1 to 8".
std::string DescribeAccepted(const OperationParameter& parameter);

/// A text that is equal for equal parameters, and differs for others.
std::string ParamsKey(const OperationParams& params);

}  // namespace millrace
