// The keys `tensors`, `output` and `pad` of a pipeline, as its layers set them.
//
// A definition is a map with one operation, whose value names its inputs, and with parameters:
// `{take: planes, axis: -1, index: [0, 4]}`. A later layer changes the keys of a definition that it
// names. If it names another operation, it replaces the definition.
//
// Errors are InvalidArgument with the place, as all errors of the parser. Types of tensors are
// unknown here: errors that depend on them are found when a plan binds the tensors.
//
// Value type; not thread-safe while it is changed.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/operations/operation.h"
#include "server/plan/text/tensor_definition.h"
#include "server/plan/text/text_layer.h"
#include "server/source/tensors_part.h"
#include "server/yaml/yaml_reader.h"

namespace millrace {

class TensorsText {
 public:
  /// The most tensors that a pipeline can define.
  static constexpr std::size_t kMaxTensors = 1024;

  /// The table, and the text of the file, have to outlive this.
  TensorsText(const OperationTable& operations, std::string_view yaml)
      : operations_(&operations), yaml_(yaml) {}

  /// The keys of a pipeline that belong here.
  static std::vector<std::string> Keys() { return {"tensors", "output", "pad"}; }
  /// Whether a key of a layer, with or without the part after its first dot, is one of these.
  static bool Owns(std::string_view key);

  /// Takes a key over. REQUIRES: Owns(entry.key).
  Status Apply(TextLayer& layer, const YamlEntry& entry);
  /// Checks the definitions that the layer has changed. Called after the last key of every layer.
  Status EndLayer();
  Result<TensorsPart> Finish() const;

 private:
  Status ApplyTensors(TextLayer& layer, const YamlEntry& entry);
  Status ApplyDefinition(TextLayer& layer, const std::string& path, const YamlEntry& entry);
  Status ApplyKey(TextLayer& layer, const std::string& name, const std::string& key,
                  const YamlEntry& entry);
  Status ApplyOutput(TextLayer& layer, const YamlEntry& entry);
  Status ApplyPads(TextLayer& layer, const YamlEntry& entry);
  Status ApplyPad(TextLayer& layer, const std::string& path, const YamlEntry& entry);
  Status ApplyPadKey(TextLayer& layer, const std::string& path, const std::string& key,
                     const YamlEntry& entry);

  Status FinishOutput(TensorsPart& part) const;
  Status FinishPads(TensorsPart& part) const;
  Status FinishGraphPad(const WrittenDefinition& pad, TensorsPart& part) const;
  Status CheckCycles(const TensorsPart& part) const;

  /// Copies of a TensorsText share unchanged definitions: a file may have many variants.
  using Definitions = std::map<std::string, std::shared_ptr<WrittenDefinition>>;
  struct Written {
    Definitions definitions;
    std::optional<WrittenValue> output;
    Definitions pads;  // by dotted names; one of them may be `pad.graph`
  };
  Written& Edit();
  /// The definition with this name, to be changed. A new one begins at the mark.
  static WrittenDefinition& Edit(Definitions& definitions, const std::string& name,
                                 const LayerName& layer, YamlMark mark);

  const OperationTable* operations_;
  std::string_view yaml_;
  std::shared_ptr<Written> written_ = std::make_shared<Written>();
  std::set<std::string> changed_;  // names of definitions
};

}  // namespace millrace
