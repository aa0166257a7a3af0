#include "server/yaml/yaml_reader.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>
#include <algorithm>

#include <exception>
#include <map>
#include <sstream>
#include <utility>

#include <fmt/core.h>

namespace millrace {
namespace {

/// Thrown through yaml-cpp's parser by the handler below, and caught in ReadYaml.
struct ReadError {
  YamlMark mark;
  std::string message;
};

YamlMark MarkOf(const YAML::Mark& mark) {
  return mark.is_null() ? YamlMark{1, 1} : YamlMark{mark.line + 1, mark.column + 1};
}

bool IsNullText(std::string_view text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

/// Builds the tree from the parser's events.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::string_view text) : text_(text) {}

  YamlPtr root() const { return root_ != nullptr ? root_ : std::make_shared<YamlNode>(); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) {
      throw ReadError{MarkOf(mark), "a second document; a pipeline is one document (no '---')"};
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    auto node = NewNode(YamlNode::Kind::kNull, mark, "", anchor);
    // A written null keeps its text. If there is no value at all, the text at this place is
    // something else.
    const auto at = mark.pos < 0 ? text_.size() : static_cast<std::size_t>(mark.pos);
    const std::string_view here = text_.substr(std::min(at, text_.size()));
    for (const std::string_view written : {"~", "null", "Null", "NULL"}) {
      if (here.starts_with(written)) node->scalar = written;
    }
    Add(std::move(node));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end())
      throw ReadError{MarkOf(mark), "an alias inside what it stands for"};
    if (ExpectsKey()) throw ReadError{MarkOf(mark), "a key cannot be an alias"};
    Attach(found->second, MarkOf(mark));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const bool quoted = tag == "!";
    if (ExpectsKey()) return BeginEntry(MarkOf(mark), value, anchor);
    const bool null = !quoted && IsNullText(value);
    auto node = NewNode(null ? YamlNode::Kind::kNull : YamlNode::Kind::kScalar, mark,
                        quoted ? "" : tag, anchor);
    node->scalar = value;
    node->quoted = quoted;
    Add(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(NewNode(YamlNode::Kind::kList, mark, tag, anchor), anchor);
  }
  void OnSequenceEnd() override { Close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(NewNode(YamlNode::Kind::kMap, mark, tag, anchor), anchor);
  }
  void OnMapEnd() override { Close(); }

 private:
  struct Level {
    std::shared_ptr<YamlNode> node;
    YAML::anchor_t anchor;
    bool has_key = false;                  // for a map: the last entry waits for its value
    std::map<std::string, int> key_lines;  // for a map: the keys so far, and their lines
  };

  bool ExpectsKey() const {
    return !levels_.empty() && levels_.back().node->kind == YamlNode::Kind::kMap &&
           !levels_.back().has_key;
  }

  std::shared_ptr<YamlNode> NewNode(YamlNode::Kind kind, const YAML::Mark& mark,
                                    const std::string& tag, YAML::anchor_t anchor) {
    if (!tag.empty() && tag != "?" && tag != "!") {
      throw ReadError{MarkOf(mark), fmt::format("the tag '{}': tags are not supported", tag)};
    }
    if (ExpectsKey())
      throw ReadError{MarkOf(mark), "a key has to be a name; or is a bracket not closed?"};
    auto node = std::make_shared<YamlNode>();
    node->kind = kind;
    node->mark = MarkOf(mark);
    last_anchor_ = anchor;
    return node;
  }

  void BeginEntry(YamlMark mark, const std::string& key, YAML::anchor_t anchor) {
    if (anchor != 0) throw ReadError{mark, "a key cannot have an anchor"};
    if (key == "<<") {
      throw ReadError{mark, "the merge key '<<' is not supported; write the keys, or use variants"};
    }
    Level& level = levels_.back();
    const auto [first, is_new] = level.key_lines.emplace(key, mark.line);
    if (!is_new) {
      throw ReadError{
          mark, fmt::format("duplicate key '{}', first written at line {}", key, first->second)};
    }
    level.node->entries.push_back({key, mark, nullptr});
    level.has_key = true;
  }

  void Open(std::shared_ptr<YamlNode> node, YAML::anchor_t anchor) {
    if (levels_.size() >= kMaxYamlDepth) {
      throw ReadError{node->mark, fmt::format("nested deeper than {} levels", kMaxYamlDepth)};
    }
    levels_.push_back({std::move(node), anchor, false, {}});
  }

  void Close() {
    Level level = std::move(levels_.back());
    levels_.pop_back();
    last_anchor_ = level.anchor;
    Add(std::move(level.node));
  }

  /// Adds a finished node to the open level, and stores it under its anchor if it has one.
  void Add(std::shared_ptr<YamlNode> node) {
    if (last_anchor_ != 0) anchors_[last_anchor_] = node;
    const YamlMark mark = node->mark;
    Attach(std::move(node), mark);
  }

  void Attach(YamlPtr node, YamlMark mark) {
    if (levels_.empty()) {
      root_ = std::move(node);
      return;
    }
    Level& level = levels_.back();
    level.node->nodes += node->nodes;
    if (level.node->nodes > kMaxYamlNodes) {
      throw ReadError{mark, fmt::format("more than {} values, aliases expanded", kMaxYamlNodes)};
    }
    if (level.node->kind == YamlNode::Kind::kList) {
      level.node->items.push_back(std::move(node));
    } else {
      level.node->entries.back().value = std::move(node);
      level.has_key = false;
    }
  }

  int documents_ = 0;
  const std::string_view text_;
  YamlPtr root_;
  std::vector<Level> levels_;
  YAML::anchor_t last_anchor_ = 0;             // anchor of the node to be added next
  std::map<YAML::anchor_t, YamlPtr> anchors_;  // finished nodes only
};

/// Number of bytes of the UTF-8 sequence that `text` begins with (RFC 3629); 0 if there is none.
std::size_t Utf8Length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool out_of_range = (first == 0xED && byte(1) > 0x9F) || (first == 0xF4 && byte(1) > 0x8F);
  return overlong || out_of_range ? 0 : length;
}

/// Checks what yaml-cpp does not: it stops silently at some control characters and accepts bytes
/// that are not UTF-8.
void CheckText(std::string_view text) {
  if (text.size() > kMaxYamlBytes) {
    throw ReadError{{1, 1},
                    fmt::format("{} bytes; expected at most {}", text.size(), kMaxYamlBytes)};
  }
  YamlMark mark{1, 1};
  for (std::size_t at = 0; at < text.size();) {
    const auto c = static_cast<unsigned char>(text[at]);
    const std::size_t length = Utf8Length(text.substr(at));
    if (length == 0) throw ReadError{mark, "a byte that is not UTF-8; is this a text file?"};
    if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F) {
      throw ReadError{mark, fmt::format("the control character 0x{:02x}; is this a text file?", c)};
    }
    at += length;
    ++mark.column;
    if (c == '\n') mark = {mark.line + 1, 1};
  }
}

}  // namespace

std::string YamlNode::Describe() const {
  constexpr std::size_t kShown = 60;
  switch (kind) {
    case Kind::kNull:
      return "null";
    case Kind::kList:
      return "a list";
    case Kind::kMap:
      return "a map";
    case Kind::kScalar:
      break;
  }
  std::string text = scalar;
  if (text.size() > kShown) {
    std::size_t end = kShown;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    text = text.substr(0, end) + "…";
  }
  return quoted ? fmt::format("the text '{}'", text) : fmt::format("'{}'", text);
}

Result<YamlPtr> ReadYaml(std::string_view text, std::string_view name) {
  const auto error = [&](YamlMark mark, std::string_view message) {
    return InvalidArgument(fmt::format("{}:{}:{}: {}", name, mark.line, mark.column, message));
  };
  try {
    CheckText(text);
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    TreeBuilder builder(text);
    while (parser.HandleNextDocument(builder)) {
    }
    return builder.root();
  } catch (const ReadError& e) {
    return error(e.mark, e.message);
  } catch (const YAML::Exception& e) {
    return error(MarkOf(e.mark), fmt::format("not valid YAML: {}", e.msg));
  } catch (const std::exception& e) {
    return error({1, 1}, fmt::format("cannot be read: {}", e.what()));
  }
}

}  // namespace millrace
