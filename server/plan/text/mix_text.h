// The keys `mix` and `tables` of a pipeline with branches, as its layers set them.
//
// Errors are InvalidArgument with the place, as all errors of the parser.
//
// Value type; not thread-safe while it is changed.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "server/plan/text/tensor_definition.h"
#include "server/plan/text/text_layer.h"
#include "server/source/mix_parts.h"
#include "server/yaml/yaml_reader.h"

namespace millrace {

class MixText {
 public:
  /// The keys of a pipeline that belong here.
  static std::vector<std::string> Keys() { return {"mix", "tables"}; }
  /// Whether a key of a layer, with or without the part after its first dot, is one of these.
  static bool Owns(std::string_view key);

  /// Takes a key over. REQUIRES: Owns(entry.key).
  Status Apply(TextLayer& layer, const YamlEntry& entry);
  /// The error of a pipeline that has these keys and no branches; ok if it has no such key.
  Status CheckAbsent() const;
  /// The part, for branches in this order. `origin`: the place of the branches.
  Result<MixPart> Finish(const std::vector<std::string>& branches, const std::string& origin) const;

 private:
  Status ApplyMix(TextLayer& layer, const YamlEntry& entry);
  Status ApplyKey(TextLayer& layer, const std::string& path, const YamlEntry& entry);
  Status ApplyWeight(TextLayer& layer, const std::string& branch, const YamlEntry& entry);
  Status FinishEpoch(const std::vector<std::string>& branches, MixPart& part) const;

  std::map<std::string, WrittenValue> weights_;  // by names of branches
  std::optional<WrittenValue> seed_;
  std::optional<WrittenValue> epoch_;
  std::optional<WrittenValue> tables_;
};

/// The lines of the canonical text: `mix.epoch`, `mix.weights`, and the others if they differ from
/// their defaults. Weights are divided by their greatest common divisor.
std::vector<std::string> CanonicalLines(const MixPart& mix,
                                        const std::vector<std::string>& branches);

}  // namespace millrace
