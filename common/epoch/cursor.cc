#include "common/epoch/cursor.h"

#include <fmt/core.h>

#include <cstddef>
#include <system_error>

#include "common/base/parse_number.h"

namespace millrace {
namespace {

constexpr std::string_view kForm = "expected v2,FINGERPRINT:EPOCH:EXAMPLE";

/// Cuts `rest` at the next `separator`, and returns the text before it.
std::string_view CutAt(char separator, std::string_view& rest) {
  const std::size_t at = rest.find(separator);
  const std::string_view head = rest.substr(0, at);
  rest.remove_prefix(at == std::string_view::npos ? rest.size() : at + 1);
  return head;
}

/// `text` as messages show it: unprintable characters replaced, and cut, in case it is a whole
/// wrong file.
std::string ShownCursor(std::string_view text) {
  constexpr std::size_t kMost = 80;
  std::string shown(text.substr(0, kMost));
  for (char& c : shown) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text.size() > kMost ? shown + "…" : shown;
}

/// Reads `text` as a number. Only the form that ToString writes is accepted.
bool ParseField(std::string_view text, std::uint64_t& value) {
  const Result<std::uint64_t> number = ParseNumber<std::uint64_t>(text, {}, LeadingZeros::kRefused);
  if (number.ok()) value = *number;
  return number.ok();
}

Status ParseEntry(std::string_view text, CursorEntry& entry) {
  const std::string_view whole = text;
  const std::string_view fingerprint = CutAt(':', text);
  const std::string_view epoch = CutAt(':', text);
  auto order = Fingerprint::FromString(fingerprint);
  if (!order.ok()) {
    return InvalidArgument(
        fmt::format("'{}' does not begin with a fingerprint: {}", ShownCursor(whole), kForm));
  }
  entry.order = *order;
  if (!ParseField(epoch, entry.position.epoch)) {
    return InvalidArgument(
        fmt::format("epoch '{}' is no number from 0 to 2^64 - 1: {}", ShownCursor(epoch), kForm));
  }
  if (!ParseField(text, entry.position.example)) {
    return InvalidArgument(
        fmt::format("example '{}' is no number from 0 to 2^64 - 1: {}", ShownCursor(text), kForm));
  }
  return OkStatus();
}

}  // namespace

std::string Cursor::ToString() const {
  std::string text = fmt::format("v{}", kVersion);
  for (const CursorEntry& entry : entries) {
    text += fmt::format(",{}:{}:{}", entry.order.ToString(), entry.position.epoch,
                        entry.position.example);
  }
  return text;
}

Result<Cursor> Cursor::Parse(std::string_view text) {
  std::string_view rest = text;
  const std::string_view version = CutAt(',', rest);
  std::uint64_t number = 0;
  if (version.empty() || version.front() != 'v' || !ParseField(version.substr(1), number)) {
    return InvalidArgument(fmt::format("'{}' is no cursor: {}", ShownCursor(text), kForm));
  }
  if (number != kVersion) {
    return FailedPrecondition(fmt::format(
        "cursor has version {}, this program reads version {}: use the release that wrote it",
        number, kVersion));
  }
  Cursor cursor;
  do {
    CursorEntry entry;
    MILLRACE_RETURN_IF_ERROR(
        ParseEntry(CutAt(',', rest), entry)
            .WithContext(fmt::format("cursor entry {}", cursor.entries.size())));
    cursor.entries.push_back(entry);
  } while (!rest.empty());
  if (text.back() == ',') {
    return InvalidArgument(fmt::format("cursor ends with ',' after entry {}: it may be cut off",
                                       cursor.entries.size() - 1));
  }
  return cursor;
}

Result<CursorEntry> Cursor::ParseOne(std::string_view text) {
  MILLRACE_ASSIGN_OR_RETURN(const Cursor cursor, Parse(text));
  if (cursor.entries.size() == 1) return cursor.entries[0];
  return InvalidArgument(
      fmt::format("a cursor with {} sources: expected 1", cursor.entries.size()));
}

Result<Position> Cursor::PlaceIn(const Fingerprint& order, std::string_view text) {
  MILLRACE_ASSIGN_OR_RETURN(const CursorEntry entry, ParseOne(text));
  if (entry.order == order) return entry.position;
  return FailedPrecondition(
      fmt::format("the cursor {} is of another order than {}: go on with the dataset and the "
                  "pipeline that it was made with",
                  text, order.ToString()));
}

}  // namespace millrace
