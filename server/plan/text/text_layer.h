// A layer of a pipeline: a text that sets keys, which is the file, a variant or an override. Also
// the places in it that messages name.
//
// Value types; not thread-safe while keys are claimed.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/result.h"
#include "server/yaml/yaml_reader.h"

namespace millrace {

/// Splits "closure.order" into "closure" and "order", at the first dot. Without a dot, the second
/// part is empty.
std::pair<std::string, std::string> SplitKey(const std::string& key);

/// How messages name a layer.
struct LayerName {
  std::string name;       // begins every message about the layer
  bool has_lines = true;  // messages name line and column

  /// "file:3:5".
  std::string At(YamlMark mark) const;
  /// InvalidArgument, with the place before the message.
  Status Error(YamlMark mark, std::string_view message) const;
};

struct TextLayer : LayerName {
  bool is_file = false;                      // in the file itself, null does not reset a parameter
  std::map<std::string, YamlMark> set = {};  // keys that the layer has set, and where
  std::string above = {};  // prefix of the keys that are claimed now: "branches.a."

  /// Notes that the layer sets `above` + `key`. Fails if it has set this key, a key above it or a
  /// key below it before.
  Status Claim(const std::string& key, YamlMark mark);
};

}  // namespace millrace
