// YAML text as a tree that knows where everything was written. Stricter than yaml-cpp's own tree:
// duplicate keys, merge keys, tags, further documents and cyclic aliases are errors, and so is text
// that is too large, too deep, or no text at all.
//
// The tree is immutable; nodes are shared where the text has aliases.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace millrace {

/// What a pipeline file is held to. Far above any real one; below what could exhaust a server.
inline constexpr std::size_t kMaxYamlBytes = std::size_t{1} << 20;
inline constexpr int kMaxYamlDepth = 16;
inline constexpr std::uint64_t kMaxYamlNodes = 100'000;  // aliases counted as what they stand for

/// Where something was written. 1-based; line 0: in something that has no lines.
struct YamlMark {
  int line = 0;
  int column = 0;
};

struct YamlNode;
using YamlPtr = std::shared_ptr<const YamlNode>;

struct YamlEntry {
  std::string key;
  YamlMark mark;  // of the key
  YamlPtr value;
};

struct YamlNode {
  enum class Kind : std::uint8_t { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  YamlMark mark;
  std::string scalar;              // the text of a scalar
  bool quoted = false;             // of a scalar: it can only be a string
  std::vector<YamlPtr> items;      // of a list
  std::vector<YamlEntry> entries;  // of a map, in the order of the text; no key twice
  std::uint64_t nodes = 1;         // this one and all below it

  /// "a list", "the integer 3"…: how messages call it.
  std::string Describe() const;
};

/// The one document of `text`; a null node for an empty one. InvalidArgument
/// "<name>:<line>:<column>: …".
Result<YamlPtr> ReadYaml(std::string_view text, std::string_view name);

}  // namespace millrace
