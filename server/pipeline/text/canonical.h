// The canonical form of a pipeline: the text that digests are computed from, and the stages'
// fingerprints. docs/pipeline.md, "Fingerprints", specifies it.
//
// Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/pipeline/graph/stage.h"

namespace millrace {

struct StageConfig;

/// For example "closure.order". A scalar stage is its name alone.
std::string CanonicalKey(const StageType& stage, const Parameter& parameter);

/// Whether the canonical text shows the parameter. It does if the value differs from the default,
/// or if the parameter is the first one of an optional stage: it then shows that the stage is
/// present.
bool IsCanonical(const StageType& stage, const Parameter& parameter, const Params& params);

/// The stage's part of the canonical text: `key=value` lines without newlines, one for each
/// parameter that IsCanonical accepts, and one for a version above 1.
std::vector<std::string> CanonicalLines(const StageType& stage, const Params& params);

enum class CanonicalScope : std::uint8_t {
  kAll,
  kOrder,  // leaves out stages that keep every example in its place (exclude)
};

/// All lines and `semantics=N`, sorted by bytes; each line ends with a newline.
std::string CanonicalText(const std::vector<StageConfig>& stages, CanonicalScope scope);

/// Sets the fingerprint of every stage of a chain.
void SetFingerprints(std::vector<StageConfig>& stages);

}  // namespace millrace
