// JSON (RFC 8259): a value, read from text and written as text. A library reads and writes it; its
// header takes a compiler many seconds, so only json.cc includes it.
//
// A value is thread-compatible.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/result.h"

namespace millrace {

/// The limits of a text that is read.
struct JsonLimits {
  /// The deepest nesting of objects and arrays. Values are copied and destroyed recursively.
  int max_depth = 512;
  /// The most keys and values; objects and arrays count twice. Each takes a hundred bytes of
  /// memory, so a text of some dozen MiB could take gigabytes otherwise.
  std::size_t max_values = std::numeric_limits<std::size_t>::max();
  /// An object with a repeated key is refused. Otherwise the last value counts.
  bool unique_keys = false;
};

class Json;
/// A key and its value.
using JsonMember = std::pair<std::string, Json>;

class Json {
 public:
  using Array = std::vector<Json>;
  /// In the order in which members were added; in the order of their keys if the object was read.
  using Object = std::vector<JsonMember>;

  Json() = default;                                      // null
  Json(bool value) : value_(value) {}                    // NOLINT(google-explicit-constructor)
  Json(double value) : value_(value) {}                  // NOLINT(google-explicit-constructor)
  Json(std::string value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Json(std::string_view value)
      : value_(std::string(value)) {}                      // NOLINT(google-explicit-constructor)
  Json(const char* value) : value_(std::string(value)) {}  // NOLINT(google-explicit-constructor)
  Json(Array value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Json(Object value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  template <std::unsigned_integral T>
  Json(T value)
      : value_(static_cast<std::uint64_t>(value)) {}  // NOLINT(google-explicit-constructor)
  template <std::signed_integral T>
  Json(T value)
      : value_(static_cast<std::int64_t>(value)) {}  // NOLINT(google-explicit-constructor)
  template <class T>
  Json(const std::vector<T>& values)  // NOLINT(google-explicit-constructor)
      : value_(Array(values.begin(), values.end())) {}

  /// Reads one value that is the whole text. DataLoss if the text is no JSON in UTF-8, or exceeds
  /// the limits.
  static Result<Json> Parse(std::string_view text, const JsonLimits& limits = {});

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  /// A whole number of at least 0.
  bool is_unsigned() const { return std::holds_alternative<std::uint64_t>(value_); }
  bool is_integer() const { return is_unsigned() || std::holds_alternative<std::int64_t>(value_); }
  bool is_number() const { return is_integer() || std::holds_alternative<double>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }
  /// "null", "boolean", "number", "string", "array" or "object".
  std::string_view type_name() const;

  /// REQUIRES for each of these: the value is of the type.
  bool AsBool() const { return std::get<bool>(value_); }
  std::uint64_t AsUnsigned() const { return std::get<std::uint64_t>(value_); }
  /// An unsigned value beyond int64 wraps.
  std::int64_t AsInteger() const;
  double AsDouble() const;
  const std::string& AsString() const { return std::get<std::string>(value_); }
  const Array& AsArray() const { return std::get<Array>(value_); }
  const Object& AsObject() const { return std::get<Object>(value_); }

  /// The value of a key; null if this is no object, or has no such key.
  const Json* Find(std::string_view key) const;
  bool contains(std::string_view key) const { return Find(key) != nullptr; }
  /// REQUIRES: the object has the key.
  const Json& operator[](std::string_view key) const { return *Find(key); }
  /// The value of a key, which is added if it is absent. Null becomes an object.
  Json& operator[](std::string_view key);
  /// Appends to an array. Null becomes an array.
  Json& Append(Json value);

  /// As text, on one line. Bytes that are no UTF-8 are replaced by U+FFFD.
  std::string ToText() const;

  friend bool operator==(const Json& a, const Json& b) = default;

 private:
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Array,
               Object>
      value_;
};

}  // namespace millrace
