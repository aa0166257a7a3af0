#include "common/json/json.h"

#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/base/quoted.h"

namespace millrace {
namespace {

using Library = nlohmann::ordered_json;

/// Builds a value from the events of the library's parser, which ends at once if it is told false.
class Builder final : public nlohmann::json_sax<Library> {
 public:
  explicit Builder(const JsonLimits& limits) : limits_(limits) {}

  /// The value, or why there is none.
  Result<Json> Take() {
    if (!refused_.ok()) return refused_;
    return std::move(*root_);
  }

  bool null() override { return Add(Json()); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(std::int64_t value) override { return Add(value); }
  bool number_unsigned(std::uint64_t value) override { return Add(value); }
  bool number_float(double value, const std::string&) override { return Add(value); }
  bool string(std::string& value) override { return Add(std::move(value)); }
  bool binary(Library::binary_t&) override { return false; }
  bool start_object(std::size_t) override { return Open(); }
  bool start_array(std::size_t) override { return Open(); }
  bool key(std::string& value) override {
    Level& level = open_.back();
    if (limits_.unique_keys && !level.known.insert(value).second) {
      return Refuse(fmt::format("has the key {} twice in one object", Quoted(value)));
    }
    level.keys.push_back(std::move(value));
    return Count();
  }
  bool end_object() override {
    Level level = std::move(open_.back());
    open_.pop_back();
    std::map<std::string, Json> members;
    for (std::size_t i = 0; i < level.keys.size(); ++i) {
      members.insert_or_assign(std::move(level.keys[i]), std::move(level.values[i]));
    }
    Json::Object object;
    for (auto& [name, value] : members) object.emplace_back(name, std::move(value));
    return Close(std::move(object));
  }
  bool end_array() override {
    Json::Array values = std::move(open_.back().values);
    open_.pop_back();
    return Close(std::move(values));
  }
  bool parse_error(std::size_t byte, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // 406: a number that is too large for a double.
    return Refuse(error.id == 406 ? std::string("is no JSON: a number is too large")
                                  : fmt::format("is no JSON: at byte {}", byte));
  }

 private:
  /// An object or array whose end has not come yet.
  struct Level {
    std::vector<std::string> keys;
    std::set<std::string> known;  // the keys, if none may come twice
    Json::Array values;
  };

  bool Refuse(std::string why) {
    if (refused_.ok()) refused_ = DataLoss(std::move(why));
    return false;
  }
  bool Count() {
    if (++values_ <= limits_.max_values) return true;
    return Refuse(fmt::format("has more than {} keys and values", limits_.max_values));
  }
  bool Open() {
    if (!Count()) return false;
    if (open_.size() >= static_cast<std::size_t>(limits_.max_depth)) {
      return Refuse(fmt::format("is nested more than {} deep", limits_.max_depth));
    }
    open_.emplace_back();
    return true;
  }
  bool Close(Json value) { return Add(std::move(value)); }
  bool Add(Json value) {
    if (!Count()) return false;
    if (open_.empty()) {
      root_ = std::move(value);
    } else {
      open_.back().values.push_back(std::move(value));
    }
    return true;
  }

  const JsonLimits limits_;
  std::size_t values_ = 0;
  std::vector<Level> open_;
  std::optional<Json> root_;
  Status refused_;
};

Library ToLibrary(const Json& value) {
  if (value.is_null()) return nullptr;
  if (value.is_bool()) return value.AsBool();
  if (value.is_unsigned()) return value.AsUnsigned();
  if (value.is_integer()) return value.AsInteger();
  if (value.is_number()) return value.AsDouble();
  if (value.is_string()) return value.AsString();
  if (value.is_array()) {
    Library list = Library::array();
    for (const Json& one : value.AsArray()) list.push_back(ToLibrary(one));
    return list;
  }
  Library object = Library::object();
  for (const JsonMember& member : value.AsObject()) object[member.first] = ToLibrary(member.second);
  return object;
}

}  // namespace

Result<Json> Json::Parse(std::string_view text, const JsonLimits& limits) {
  Builder builder(limits);
  (void)Library::sax_parse(text, &builder);
  return builder.Take();
}

std::string_view Json::type_name() const {
  if (is_null()) return "null";
  if (is_bool()) return "boolean";
  if (is_number()) return "number";
  if (is_string()) return "string";
  return is_array() ? "array" : "object";
}

std::int64_t Json::AsInteger() const {
  if (is_unsigned()) return static_cast<std::int64_t>(AsUnsigned());
  return std::get<std::int64_t>(value_);
}

double Json::AsDouble() const {
  if (is_unsigned()) return static_cast<double>(AsUnsigned());
  if (is_integer()) return static_cast<double>(AsInteger());
  return std::get<double>(value_);
}

const Json* Json::Find(std::string_view key) const {
  if (!is_object()) return nullptr;
  for (const JsonMember& member : AsObject()) {
    if (member.first == key) return &member.second;
  }
  return nullptr;
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) value_ = Object();
  Object& members = std::get<Object>(value_);
  for (JsonMember& member : members) {
    if (member.first == key) return member.second;
  }
  return members.emplace_back(std::string(key), Json()).second;
}

Json& Json::Append(Json value) {
  if (is_null()) value_ = Array();
  return std::get<Array>(value_).emplace_back(std::move(value));
}

std::string Json::ToText() const {
  return ToLibrary(*this).dump(-1, ' ', false, Library::error_handler_t::replace);
}

}  // namespace millrace
