#include "server/plan/text/text_layer.h"

#include <fmt/format.h>

namespace millrace {

std::pair<std::string, std::string> SplitKey(const std::string& key) {
  const std::size_t dot = key.find('.');
  if (dot == std::string::npos) return {key, ""};
  return {key.substr(0, dot), key.substr(dot + 1)};
}

std::string LayerName::At(YamlMark mark) const {
  if (!has_lines) return name;
  return fmt::format("{}:{}:{}", name, mark.line, mark.column);
}

Status LayerName::Error(YamlMark mark, std::string_view message) const {
  return InvalidArgument(fmt::format("{}: {}", At(mark), message));
}

Status TextLayer::Claim(const std::string& written, YamlMark mark) {
  const std::string key = above + written;
  auto before = set.find(key);
  for (std::size_t dot = key.find('.'); dot != std::string::npos && before == set.end();
       dot = key.find('.', dot + 1)) {
    before = set.find(key.substr(0, dot));
  }
  if (before == set.end()) {
    const std::string below = key + '.';
    before = set.lower_bound(below);
    if (before != set.end() && !before->first.starts_with(below)) before = set.end();
  }
  if (before == set.end()) {
    set.emplace(key, mark);
    return OkStatus();
  }
  const std::string where =
      has_lines ? fmt::format(", '{}' first written at line {}", before->first, before->second.line)
                : "";
  return Error(mark, fmt::format("duplicate key '{}'{}", key, where));
}

}  // namespace millrace
