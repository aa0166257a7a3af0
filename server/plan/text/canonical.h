// The canonical form of a pipeline: the text from which digests are computed, and the stages'
// fingerprints. docs/reference/pipeline.md, "Fingerprints", specifies it.
//
// Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/source/stage.h"
#include "server/source/tensors_part.h"

namespace millrace {

class Pipeline;
struct StageConfig;

/// For example "closure.order". The first parameter of a scalar stage is its name alone.
std::string CanonicalKey(const StageType& stage, const Parameter& parameter);

enum class CanonicalScope : std::uint8_t {
  kAll,
  kOrder,  // leaves out keys that keep every example in its place (exclude, tensors, output, pad)
  kBuild,  // only keys that decide what is built from an example, without computed tensors
};

/// The stage's part of the canonical text: `key=value` lines without newlines, one for each
/// parameter of the scope that differs from its default for the pipeline's source, and one for a
/// version above 1. The first parameter of an optional stage shows that the stage is present.
std::vector<std::string> CanonicalLines(const StageType& stage, const Params& params,
                                        CanonicalScope scope = CanonicalScope::kAll);

/// A definition as one line of YAML: the operation with its inputs or, if its text names them, the
/// text; then the parameters that differ from their defaults, and the place, sorted.
std::string FormatDefinition(const TensorDefinition& definition, const OperationType& operation);

/// Parameters of `pad.NAME` as one line of YAML.
std::string FormatPad(std::string_view name, const Params& params);

/// The tensors' part of the canonical text: a line for each definition, one more for each operation
/// whose version is above 1, a line for the output if it is given, and one for each pad.
std::vector<std::string> CanonicalLines(const TensorsPart& part);

/// All lines and `semantics=N`, sorted by bytes; each line ends with a newline. The lines of a
/// branch begin with "branches.NAME.". REQUIRES: the branches have their texts.
std::string CanonicalTextOf(const Pipeline& pipeline, CanonicalScope scope);

/// Sets the fingerprint of every stage of a chain.
void SetFingerprints(std::vector<StageConfig>& stages);

}  // namespace millrace
