#include "server/kinds/graph/format/json_reader.h"

#include <string>

#include <fmt/format.h>

namespace millrace {
namespace {

Status WrongType(const Json& value, std::string_view key, std::string_view expected) {
  return DataLoss(fmt::format("{}: expected {}, got {}", key, expected,
                              value.is_null() || value.is_bool() || value.is_number()
                                  ? value.ToText()
                                  : fmt::format("a {}", value.type_name())));
}

}  // namespace

Result<Json> ReadJson(std::string_view text, int max_depth) {
  return Json::Parse(text,
                     {.max_depth = max_depth, .max_values = kMaxJsonValues, .unique_keys = true});
}

Result<std::uint64_t> JsonNumber(const Json& value, std::string_view key, std::uint64_t max) {
  if (!value.is_unsigned() || value.AsUnsigned() > max) {
    return WrongType(value, key, fmt::format("an integer from 0 to {}", max));
  }
  return value.AsUnsigned();
}

Result<std::vector<std::uint64_t>> JsonNumbers(const Json& value, std::string_view key,
                                               std::uint64_t max) {
  if (!value.is_array()) return WrongType(value, key, "a list of whole numbers");
  std::vector<std::uint64_t> numbers;
  for (const Json& one : value.AsArray()) {
    MILLRACE_ASSIGN_OR_RETURN(const std::uint64_t number, JsonNumber(one, key, max));
    numbers.push_back(number);
  }
  return numbers;
}

Result<std::string_view> JsonString(const Json& value, std::string_view key) {
  if (!value.is_string()) return WrongType(value, key, "a text");
  return std::string_view(value.AsString());
}

}  // namespace millrace
