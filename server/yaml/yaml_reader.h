// YAML text as a tree that knows where everything was written. It is stricter than yaml-cpp's own
// tree: duplicate keys, merge keys, tags, further documents and cyclic aliases are errors. So is
// text that is too large, too deep, or not text at all.
//
// The tree is immutable; aliases in the text share nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace millrace {

/// Limits of a pipeline file. They are far above any real file, and too low to exhaust a server.
inline constexpr std::size_t kMaxYamlBytes = std::size_t{1} << 20;
inline constexpr int kMaxYamlDepth = 16;
inline constexpr std::uint64_t kMaxYamlNodes = 100'000;  // an alias counts as its target

/// The place where something was written. Line and column count from 1; line 0: the text has no
/// lines.
struct YamlMark {
  int line = 0;
  int column = 0;
};

struct YamlNode;
using YamlPtr = std::shared_ptr<const YamlNode>;

struct YamlEntry {
  std::string key;
  YamlMark mark;  // place of the key
  YamlPtr value;
};

struct YamlNode {
  enum class Kind : std::uint8_t { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  YamlMark mark;
  std::string scalar;              // for a scalar: its text
  bool quoted = false;             // for a scalar: it is quoted, so it can only be a string
  std::vector<YamlPtr> items;      // for a list
  std::vector<YamlEntry> entries;  // for a map, in the order of the text; no key occurs twice
  std::uint64_t nodes = 1;         // this one and all below it

  /// Names the node for messages: "a list", "the integer 3", …
  std::string Describe() const;
};

/// Reads the only document of `text`; an empty text gives a null node. InvalidArgument
/// "<name>:<line>:<column>: …".
Result<YamlPtr> ReadYaml(std::string_view text, std::string_view name);

}  // namespace millrace
