#include "server/plugin/reply/reply_message.h"

#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace millrace {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kShown = 200;

Status Unexpected(std::string_view text) {
  return Internal(fmt::format("a process of a plugin answers {}{}",
                              PlainText(text.substr(0, kShown)), text.size() > kShown ? "…" : ""));
}

/// The text of a member; empty if there is none.
std::string TextOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return "";
  return found->get<std::string>();
}

bool FlagOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

std::optional<std::uint64_t> NumberOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<std::uint64_t>();
}

PluginFailure FailureOf(const Json& object) {
  PluginFailure failure;
  failure.type = TextOf(object, "type");
  failure.message = TextOf(object, "message");
  failure.traceback = TextOf(object, "traceback");
  failure.kind = failure.type.empty() ? FailureKind::kValue : FailureKind::kException;
  return failure;
}

/// Reads a message. Containers may not lie deeper in each other than messages need, because values
/// are copied and destroyed recursively.
Json ParseMessage(std::string_view text) {
  constexpr int kMaxDepth = 6;
  bool too_deep = false;
  Json message = Json::parse(
      text,
      [&too_deep](int depth, Json::parse_event_t, Json&) {
        too_deep |= depth > kMaxDepth;
        return !too_deep;
      },
      false);
  return too_deep ? Json(Json::value_t::discarded) : message;
}

/// The only member of a message, which has to be `key`.
Result<Json> ContentOf(std::string_view text, const char* key) {
  const Json message = ParseMessage(text);
  if (!message.is_object()) return Unexpected(text);
  if (const auto error = message.find("error"); error != message.end() && error->is_object()) {
    const PluginFailure failure = FailureOf(*error);
    std::string said = FailureLine(failure);
    if (!failure.traceback.empty()) said += "\n" + failure.traceback;
    return FailedPrecondition(std::move(said));
  }
  const auto found = message.find(key);
  if (found == message.end()) return Unexpected(text);
  return *found;
}

Result<std::int32_t> ReadNumber(std::string_view text, const char* key) {
  MILLRACE_ASSIGN_OR_RETURN(const Json number, ContentOf(text, key));
  if (!number.is_number_integer()) return Unexpected(text);
  const auto value = number.get<std::int64_t>();
  if (value < 0 || value > std::numeric_limits<std::int32_t>::max()) return Unexpected(text);
  return static_cast<std::int32_t>(value);
}

/// Whether every item is a list of two, of which the first is a text and the second a text or null.
bool ArePairs(const Json& list) {
  if (!list.is_array()) return false;
  for (const Json& pair : list) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string()) return false;
    if (!pair[1].is_string() && !pair[1].is_null()) return false;
  }
  return true;
}

}  // namespace

Result<ImportedMessage> ReadImported(std::string_view text) {
  MILLRACE_ASSIGN_OR_RETURN(const Json content, ContentOf(text, "imported"));
  ImportedMessage message;
  const auto threads = NumberOf(content, "threads");
  if (!threads) return Unexpected(text);
  message.threads = *threads;
  message.python = TextOf(content, "python");
  message.numpy = TextOf(content, "numpy");
  return message;
}

Result<OpenedMessage> ReadOpened(std::string_view text) {
  MILLRACE_ASSIGN_OR_RETURN(const Json content, ContentOf(text, "opened"));
  const auto length = NumberOf(content, "length");
  if (!length || !content.contains("spec") || !ArePairs(content["spec"])) return Unexpected(text);
  OpenedMessage message;
  message.length = *length;
  for (const Json& pair : content["spec"]) {
    if (!pair[1].is_string()) return Unexpected(text);
    message.spec.push_back({pair[0].get<std::string>(), pair[1].get<std::string>()});
  }
  return message;
}

Result<FactsMessage> ReadFacts(std::string_view text) {
  MILLRACE_ASSIGN_OR_RETURN(const Json content, ContentOf(text, "facts"));
  if (!content.is_object()) return Unexpected(text);
  FactsMessage message;
  if (const auto columns = content.find("columns"); columns != content.end()) {
    if (!ArePairs(*columns)) return Unexpected(text);
    for (const Json& pair : *columns) {
      const std::string dtype = pair[1].is_null() ? "" : pair[1].get<std::string>();
      if (!dtype.empty() && dtype != "int64" && dtype != "float64") return Unexpected(text);
      message.columns.push_back({pair[0].get<std::string>(), dtype});
    }
  }
  if (const auto digest = content.find("digest"); digest != content.end() && digest->is_string()) {
    message.digest = digest->get<std::string>();
  }
  message.has_version = FlagOf(content, "has_version");
  message.uses_chance = FlagOf(content, "uses_chance");
  message.environment = TextOf(content, "environment");
  return message;
}

Result<ColumnMessage> ReadColumn(std::string_view text) {
  MILLRACE_ASSIGN_OR_RETURN(const Json content, ContentOf(text, "column"));
  const auto place = NumberOf(content, "place");
  if (!place) return Unexpected(text);
  return ColumnMessage{*place, TextOf(content, "dtype")};
}

Result<std::vector<std::string>> ReadVersions(std::string_view text) {
  MILLRACE_ASSIGN_OR_RETURN(const Json content, ContentOf(text, "versions"));
  if (!content.is_array()) return Unexpected(text);
  std::vector<std::string> versions;
  for (const Json& version : content) {
    if (!version.is_string()) return Unexpected(text);
    versions.push_back(version.get<std::string>());
  }
  return versions;
}

Result<BuiltMessage> ReadBuilt(std::string_view text, std::uint64_t rows) {
  MILLRACE_ASSIGN_OR_RETURN(const Json content, ContentOf(text, "built"));
  BuiltMessage message;
  const auto failures = content.find("failures");
  if (failures == content.end() || !failures->is_array()) return Unexpected(text);
  for (const Json& one : *failures) {
    if (!one.is_object()) return Unexpected(text);
    const auto row = one.find("row");
    if (row == one.end()) return Unexpected(text);
    BuiltMessage::Failure failure{NumberOf(one, "row"), FailureOf(one)};
    if (failure.row ? *failure.row >= rows : !row->is_null()) return Unexpected(text);
    message.failures.push_back(std::move(failure));
  }
  return message;
}

Result<std::int32_t> ReadForked(std::string_view text) { return ReadNumber(text, "pid"); }

Result<std::int32_t> ReadReaped(std::string_view text) { return ReadNumber(text, "status"); }

}  // namespace millrace
