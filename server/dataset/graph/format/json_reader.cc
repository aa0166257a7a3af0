#include "server/dataset/graph/format/json_reader.h"

#include <functional>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "server/dataset/graph/format/array_type.h"

namespace millrace {
namespace {

using Json = nlohmann::json;

/// Thrown through the parser, which then ends at once.
struct Refused {
  Status status;
};

/// Looks at each value while it is parsed.
class Watcher {
 public:
  explicit Watcher(int max_depth) : max_depth_(max_depth) {}

  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    if (++events_ > kMaxJsonValues) {
      throw Refused{DataLoss(fmt::format("has more than {} keys and values", kMaxJsonValues))};
    }
    switch (event) {
      case Json::parse_event_t::object_start:
      case Json::parse_event_t::array_start:
        if (depth >= max_depth_) {
          throw Refused{DataLoss(fmt::format("is nested more than {} deep", max_depth_))};
        }
        keys_.emplace_back();
        break;
      case Json::parse_event_t::object_end:
      case Json::parse_event_t::array_end:
        keys_.pop_back();
        break;
      case Json::parse_event_t::key: {
        const auto& key = parsed.get_ref<const std::string&>();
        if (!keys_.back().insert(key).second) {
          throw Refused{DataLoss(fmt::format("has the key {} twice in one object", Quoted(key)))};
        }
        break;
      }
      case Json::parse_event_t::value:
        break;
    }
    return true;
  }

 private:
  const int max_depth_;
  std::size_t events_ = 0;
  std::vector<std::set<std::string>> keys_;  // those of each object and array that is open
};

Status WrongType(const Json& value, std::string_view key, std::string_view expected) {
  return DataLoss(fmt::format("{}: expected {}, got {}", key, expected,
                              value.is_primitive() && !value.is_string()
                                  ? value.dump()
                                  : std::string("a ") + value.type_name()));
}

}  // namespace

Result<Json> ReadJson(std::string_view text, int max_depth) {
  Watcher watcher(max_depth);
  try {
    return Json::parse(text, std::ref(watcher));
  } catch (const Refused& refused) {
    return refused.status;
  } catch (const Json::parse_error& error) {
    return DataLoss(fmt::format("is no JSON: at byte {}", error.byte));
  } catch (const Json::exception&) {
    return DataLoss("is no JSON: a number is too large");
  }
}

Result<std::uint64_t> JsonNumber(const Json& value, std::string_view key, std::uint64_t max) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > max) {
    return WrongType(value, key, fmt::format("a whole number from 0 to {}", max));
  }
  return value.get<std::uint64_t>();
}

Result<std::vector<std::uint64_t>> JsonNumbers(const Json& value, std::string_view key,
                                               std::uint64_t max) {
  if (!value.is_array()) return WrongType(value, key, "a list of whole numbers");
  std::vector<std::uint64_t> numbers;
  for (const Json& one : value) {
    MILLRACE_ASSIGN_OR_RETURN(const std::uint64_t number, JsonNumber(one, key, max));
    numbers.push_back(number);
  }
  return numbers;
}

Result<std::string_view> JsonString(const Json& value, std::string_view key) {
  if (!value.is_string()) return WrongType(value, key, "a text");
  return std::string_view(value.get_ref<const std::string&>());
}

}  // namespace millrace
