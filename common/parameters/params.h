// The parameters of one use of a stage, an operation or a generator: values by name.
//
// Value type; pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/parameters/parameter.h"

namespace millrace {

class Params {
 public:
  Params() = default;
  /// `source`: a pipeline's source, which may have defaults of its own.
  explicit Params(std::map<std::string, ParamValue> values, std::string source = "")
      : values_(std::move(values)), source_(std::move(source)) {}

  const std::map<std::string, ParamValue>& values() const { return values_; }
  const std::string& source() const { return source_; }
  /// The value; null if the parameter is unset.
  const ParamValue& Get(std::string_view name) const;
  bool is_set(std::string_view name) const { return Get(name).index() != 0; }
  /// Whether the value is of this type, which is an alternative of ParamValue.
  template <class T>
  bool Is(std::string_view name) const {
    return std::holds_alternative<T>(Get(name));
  }
  /// Whether the parameter has its default.
  bool IsDefault(const Parameter& parameter) const {
    return Get(parameter.name) == parameter.DefaultFor(source_, values_);
  }

  // REQUIRES: the parameter is set and has this type. Readers of parameters ensure it.
  bool GetBool(std::string_view name) const { return std::get<bool>(Get(name)); }
  std::int64_t GetInt(std::string_view name) const { return std::get<std::int64_t>(Get(name)); }
  /// An integer that is not negative, or a seed.
  std::uint64_t GetUnsigned(std::string_view name) const {
    return static_cast<std::uint64_t>(GetInt(name));
  }
  /// The same; `otherwise` if the parameter is not set.
  std::uint64_t GetUnsignedOr(std::string_view name, std::uint64_t otherwise) const {
    return is_set(name) ? GetUnsigned(name) : otherwise;
  }
  ParamNumber GetNumber(std::string_view name) const { return GetNumbers(name).front(); }
  const std::string& GetText(std::string_view name) const {
    return std::get<std::string>(Get(name));
  }
  const std::string& GetTree(std::string_view name) const {
    return std::get<ParamTree>(Get(name)).json;
  }
  /// A single integer is a list of one.
  std::vector<std::int64_t> GetInts(std::string_view name) const;
  std::vector<ParamNumber> GetNumbers(std::string_view name) const;
  const std::vector<std::vector<std::string>>& GetTextLists(std::string_view name) const {
    return std::get<std::vector<std::vector<std::string>>>(Get(name));
  }

  // Empty if the parameter is not set.
  std::vector<std::string> GetTexts(std::string_view name) const;
  std::map<std::string, ParamNumber> GetNamedNumbers(std::string_view name) const;
  std::map<std::string, std::string> GetNamedTexts(std::string_view name) const;

 private:
  std::map<std::string, ParamValue> values_;
  std::string source_;
};

/// The given parameters with defaults filled in, or the first error among them, which begins with
/// the parameter's name and ": ".
Result<Params> WithDefaults(std::span<const Parameter> parameters, const Params& given);

/// A text that is equal for equal parameters, and different for others.
std::string ParamsKey(const Params& params);

}  // namespace millrace
