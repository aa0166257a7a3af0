#include "server/yaml/tree_text.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/base/json_text.h"
#include "server/yaml/scalars.h"

namespace millrace {
namespace {

/// Whether YAML readers take a text for a number that ScalarNumber does not read.
bool IsOddNumber(std::string_view text) {
  if (text.empty()) return false;
  const bool digits = std::all_of(text.begin() + (text.front() == '-' ? 1 : 0), text.end(),
                                  [](char c) { return c >= '0' && c <= '9'; });
  return (digits && text != "-") || text == ".inf" || text == "-.inf" || text == ".nan";
}

class TreeWriter {
 public:
  explicit TreeWriter(TreeText& out) : out_(out) {}

  void Write(const YamlNode& node, const std::string& path, bool in_list) {
    switch (node.kind) {
      case YamlNode::Kind::kNull:
        out_.json += "null";
        break;
      case YamlNode::Kind::kScalar:
        out_.json += Scalar(node);
        break;
      case YamlNode::Kind::kList:
        List(node, path);
        break;
      case YamlNode::Kind::kMap:
        Map(node, path, in_list);
        break;
    }
  }

 private:
  std::string Scalar(const YamlNode& node) {
    if (const auto boolean = ScalarBool(node)) return *boolean ? "true" : "false";
    if (const auto number = ScalarNumber(node)) return FormatNumber(*number);
    if (!node.quoted && IsOddNumber(node.scalar) && !out_.error) {
      out_.error = {node.mark,
                    fmt::format("expected a finite number of at most 64 bits without leading "
                                "zeros, or a quoted text; got {}",
                                node.scalar)};
    }
    return JsonText(node.scalar);
  }

  void List(const YamlNode& node, const std::string& path) {
    out_.json += '[';
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      if (i > 0) out_.json += ", ";
      Write(*node.items[i], path, true);
    }
    out_.json += ']';
  }

  void Map(const YamlNode& node, const std::string& path, bool in_list) {
    std::vector<const YamlEntry*> entries;
    for (const YamlEntry& entry : node.entries) entries.push_back(&entry);
    std::sort(entries.begin(), entries.end(),
              [](const YamlEntry* a, const YamlEntry* b) { return a->key < b->key; });
    out_.json += '{';
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const std::string below = path.empty() ? entries[i]->key : path + "." + entries[i]->key;
      if (!in_list) out_.marks.emplace(below, entries[i]->mark);
      out_.json += fmt::format("{}{}: ", i > 0 ? ", " : "", JsonText(entries[i]->key));
      Write(*entries[i]->value, below, in_list);
    }
    out_.json += '}';
  }

  TreeText& out_;
};

}  // namespace

TreeText WriteTree(const YamlNode& node) {
  TreeText text;
  TreeWriter(text).Write(node, "", false);
  return text;
}

}  // namespace millrace
