// Parameters of a stage, an operation, a program, a session or a generator of data. A parameter has
// a name, types, bounds, a default and help. Its value is read from a command line (ReadText), from
// YAML (server/yaml/read_parameter.h) or from Python, is checked here, and is printed here: all in
// the same words.
//
// Errors are InvalidArgument. They say "expected …", and callers add the subject.
//
// Value types and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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

/// A value of any shape, whose parts other code checks: one line of JSON with sorted keys.
struct ParamTree {
  std::string json;
  friend bool operator==(const ParamTree&, const ParamTree&) = default;
};

/// A parameter's value. monostate is null, or a parameter that is absent by default.
using ParamValue =
    std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                 std::vector<ParamNumber>, std::vector<std::string>,
                 std::vector<std::vector<std::string>>, std::map<std::string, ParamNumber>,
                 std::map<std::string, std::string>, ParamTree>;

enum class ParamType : std::uint8_t {
  kBool,
  kInt,
  kSeed,     // an integer of [0, 2^64), in the bits of an int64
  kBytes,    // an integer; a text may have a unit: 300MB
  kSeconds,  // a double, at least 0
  kNumber,   // an int64 or a double
  kText,
  kInts,
  kNumbers,  // integers, too
  kTexts,
  kTextLists,
  kNamedNumbers,
  kNamedTexts,
  kTree,  // a map of any shape
};

struct Parameter {
  std::string name;
  std::vector<ParamType> types;  // any of these is accepted; the first is the usual one
  ParamValue default_value = {};
  std::string help;                      // one line
  std::optional<std::int64_t> min = {};  // for integers, also in lists; inclusive
  std::optional<std::int64_t> max = {};
  std::optional<std::size_t> count = {};  // of a list
  /// For texts; empty: any text that is not empty. For a truth value: the words for true and false.
  std::vector<std::string> allowed = {};
  /// It must be given. If the default of a stage's parameter is null, the stage must be written
  /// too.
  bool required = false;
  /// A list may be empty, and a text too.
  bool may_be_empty = false;
  /// A single integer is a list of one.
  bool one_is_list = false;
  /// Order and repetition have no meaning in a list. For a list of lists this holds for the inner
  /// lists.
  bool unordered = false;
  /// For stages. False if the parameter only selects examples. Then it is no part of the build
  /// digest.
  bool in_build = true;
  /// For stages. False if the parameter leaves every example in its place. Then it is no part of
  /// the order digest, and a cursor stays good if it changes.
  bool in_order = true;
  /// Checks a given value beyond types and ranges; may be empty. A message that begins with ".a: "
  /// or ".a.b: " is about the value under these keys of a tree.
  std::function<Status(const ParamValue&)> check = {};
  /// Other defaults for some sources, by their names.
  std::map<std::string, ParamValue, std::less<>> default_of_source = {};
  /// Another default if another parameter of the stage has this value.
  struct OtherDefault {
    std::string parameter;
    ParamValue value;
    ParamValue default_value;
  };
  std::optional<OtherDefault> default_beside = {};

  bool Takes(ParamType type) const;
  bool has_default() const { return !std::holds_alternative<std::monostate>(default_value); }
  /// `values`: the other given values, by the names of parameters.
  const ParamValue& DefaultFor(std::string_view source,
                               const std::map<std::string, ParamValue>& values) const;
};

/// The parameter with this name, or nullptr.
const Parameter* FindParameter(std::span<const Parameter> parameters, std::string_view name);

/// Says which values a parameter takes, for messages and help: "an integer from 1 to 1048576".
std::string Expected(const Parameter& parameter);

/// Whether the parameter takes the value: its type, range, count and words; not Parameter::check.
bool IsTaken(const Parameter& parameter, const ParamValue& value);

/// The value of a text, as a command line or a configuration file has it. "expected …, got '…'"; an
/// error of Parameter::check stays unchanged. REQUIRES: the first type is a truth value, a text or
/// a single number.
Result<ParamValue> ReadText(const Parameter& parameter, const std::string& text);

/// The value as a text that ReadText reads as the same value; a list has commas between its texts.
std::string PlainText(const Parameter& parameter, const ParamValue& value);

/// The value as one line of YAML that reads back as the same value: integers unchanged, other
/// numbers with the fewest digits that read back as the same number, and with a point or an
/// exponent; texts of a fixed set bare, all others quoted as in JSON.
std::string FormatParamValue(const Parameter& parameter, const ParamValue& value);

/// An integer unchanged; another number with the fewest digits that read back as the same number,
/// and with a point or an exponent.
std::string FormatNumber(const ParamNumber& number);

}  // namespace millrace
