#include "server/plugin/reply/reply_message.h"

#include <limits>
#include <utility>

#include <fmt/format.h>

#include "common/json/json.h"

namespace millrace {
namespace {

constexpr std::size_t kShown = 200;

Status Unexpected(std::string_view text) {
  return Internal(fmt::format("a process of a plugin answers {}{}",
                              PlainText(text.substr(0, kShown)), text.size() > kShown ? "…" : ""));
}

/// The text of a member; empty if there is none.
std::string TextOf(const Json& object, std::string_view key) {
  const Json* const found = object.Find(key);
  return found == nullptr || !found->is_string() ? "" : found->AsString();
}

bool FlagOf(const Json& object, std::string_view key) {
  const Json* const found = object.Find(key);
  return found != nullptr && found->is_bool() && found->AsBool();
}

std::optional<std::uint64_t> NumberOf(const Json& object, std::string_view key) {
  const Json* const found = object.Find(key);
  if (found == nullptr || !found->is_unsigned()) return std::nullopt;
  return found->AsUnsigned();
}

PluginFailure FailureOf(const Json& object) {
  PluginFailure failure;
  failure.type = TextOf(object, "type");
  failure.message = TextOf(object, "message");
  failure.traceback = TextOf(object, "traceback");
  failure.kind = failure.type.empty() ? FailureKind::kValue : FailureKind::kException;
  return failure;
}

/// The only member of a message, which has to be `key`. Messages need no deeper containers.
Result<Json> ContentOf(std::string_view text, std::string_view key) {
  constexpr int kMaxDepth = 6;
  const Result<Json> message = Json::Parse(text, {.max_depth = kMaxDepth});
  if (!message.ok() || !message->is_object()) return Unexpected(text);
  if (const Json* const error = message->Find("error"); error != nullptr && error->is_object()) {
    const PluginFailure failure = FailureOf(*error);
    std::string said = FailureLine(failure);
    if (!failure.traceback.empty()) said += "\n" + failure.traceback;
    return FailedPrecondition(std::move(said));
  }
  const Json* const found = message->Find(key);
  if (found == nullptr) return Unexpected(text);
  return *found;
}

Result<std::int32_t> ReadNumber(std::string_view text, std::string_view key) {
  MILLRACE_ASSIGN_OR_RETURN(const Json number, ContentOf(text, key));
  if (!number.is_integer()) return Unexpected(text);
  const auto value = number.AsInteger();
  if (value < 0 || value > std::numeric_limits<std::int32_t>::max()) return Unexpected(text);
  return static_cast<std::int32_t>(value);
}

/// Whether every item is a list of two, of which the first is a text and the second a text or null.
bool ArePairs(const Json& list) {
  if (!list.is_array()) return false;
  for (const Json& item : list.AsArray()) {
    if (!item.is_array()) return false;
    const Json::Array& pair = item.AsArray();
    if (pair.size() != 2 || !pair[0].is_string()) return false;
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
  for (const Json& item : content["spec"].AsArray()) {
    const Json::Array& pair = item.AsArray();
    if (!pair[1].is_string()) return Unexpected(text);
    message.spec.push_back({pair[0].AsString(), pair[1].AsString()});
  }
  return message;
}

Result<FactsMessage> ReadFacts(std::string_view text) {
  MILLRACE_ASSIGN_OR_RETURN(const Json content, ContentOf(text, "facts"));
  if (!content.is_object()) return Unexpected(text);
  FactsMessage message;
  if (const Json* const columns = content.Find("columns")) {
    if (!ArePairs(*columns)) return Unexpected(text);
    for (const Json& item : columns->AsArray()) {
      const Json::Array& pair = item.AsArray();
      const std::string dtype = pair[1].is_null() ? "" : pair[1].AsString();
      if (!dtype.empty() && dtype != "int64" && dtype != "float64") return Unexpected(text);
      message.columns.push_back({pair[0].AsString(), dtype});
    }
  }
  if (const Json* const digest = content.Find("digest"); digest != nullptr && digest->is_string()) {
    message.digest = digest->AsString();
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
  for (const Json& version : content.AsArray()) {
    if (!version.is_string()) return Unexpected(text);
    versions.push_back(version.AsString());
  }
  return versions;
}

Result<BuiltMessage> ReadBuilt(std::string_view text, std::uint64_t rows) {
  MILLRACE_ASSIGN_OR_RETURN(const Json content, ContentOf(text, "built"));
  BuiltMessage message;
  const Json* const failures = content.Find("failures");
  if (failures == nullptr || !failures->is_array()) return Unexpected(text);
  for (const Json& one : failures->AsArray()) {
    if (!one.is_object()) return Unexpected(text);
    const Json* const row = one.Find("row");
    if (row == nullptr) return Unexpected(text);
    BuiltMessage::Failure failure{NumberOf(one, "row"), FailureOf(one)};
    if (failure.row ? *failure.row >= rows : !row->is_null()) return Unexpected(text);
    message.failures.push_back(std::move(failure));
  }
  return message;
}

Result<std::int32_t> ReadForked(std::string_view text) { return ReadNumber(text, "pid"); }

Result<std::int32_t> ReadReaped(std::string_view text) { return ReadNumber(text, "status"); }

}  // namespace millrace
