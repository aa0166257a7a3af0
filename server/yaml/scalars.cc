#include "server/yaml/scalars.h"

#include <charconv>
#include <string_view>
#include <system_error>

#include "common/base/parse_number.h"

namespace millrace {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

/// Whether the text is a number such as 1, -0.5, .5, 1e-3: without sign '+' and leading zeros.
bool LooksLikeNumber(std::string_view text) {
  std::size_t at = text.starts_with('-') ? 1 : 0;
  const auto digits = [&] {
    const std::size_t begin = at;
    while (at < text.size() && IsDigit(text[at])) ++at;
    return at - begin;
  };
  const std::size_t whole = digits();
  if (whole > 1 && text[at - whole] == '0') return false;
  std::size_t fraction = 0;
  if (at < text.size() && text[at] == '.') {
    ++at;
    fraction = digits();
  }
  if (whole + fraction == 0) return false;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (digits() == 0) return false;
  }
  return at == text.size();
}

}  // namespace

std::optional<bool> ScalarBool(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::kScalar || node.quoted) return std::nullopt;
  if (node.scalar == "true" || node.scalar == "True" || node.scalar == "TRUE") return true;
  if (node.scalar == "false" || node.scalar == "False" || node.scalar == "FALSE") return false;
  return std::nullopt;
}

std::optional<std::int64_t> ScalarInt(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::kScalar || node.quoted) return std::nullopt;
  const auto value = ParseNumber<std::int64_t>(node.scalar, {}, LeadingZeros::kRefused);
  return value.ok() ? std::optional(*value) : std::nullopt;
}

std::optional<std::uint64_t> ScalarSeed(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::kScalar || node.quoted) return std::nullopt;
  const auto value = ParseNumber<std::uint64_t>(node.scalar, {}, LeadingZeros::kRefused);
  return value.ok() ? std::optional(*value) : std::nullopt;
}

std::optional<ParamNumber> ScalarNumber(const YamlNode& node) {
  if (const auto integer = ScalarInt(node)) return *integer;
  if (node.kind != YamlNode::Kind::kScalar || node.quoted || !LooksLikeNumber(node.scalar)) {
    return std::nullopt;
  }
  // An integer beyond 64 bits would become another number.
  if (node.scalar.find_first_of(".eE") == std::string::npos) return std::nullopt;
  double value = 0;
  const char* const end = node.scalar.data() + node.scalar.size();
  if (std::from_chars(node.scalar.data(), end, value).ec != std::errc()) return std::nullopt;
  return value;
}

}  // namespace millrace
