#include "server/plan/text/tensor_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/suggestion.h"
#include "common/tensor/tensor_word.h"

namespace millrace {

bool IsTensorName(const YamlNode& node) {
  return node.kind == YamlNode::Kind::kScalar && !node.scalar.empty() &&
         node.scalar.size() <= kMaxTensorName;
}

std::string ShownName(std::string_view name) {
  constexpr std::size_t kShown = 60;
  if (name.size() <= kShown) return std::string(name);
  std::size_t end = kShown;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
  return std::string(name.substr(0, end)) + "…";
}

std::string UnknownParameter(std::string_view whole, std::string_view key,
                             const std::vector<std::string>& known) {
  return fmt::format("unknown key '{}.{}'{}; expected one of {}", whole, ShownName(key),
                     Suggestion(key, known), fmt::join(known, ", "));
}

}  // namespace millrace
