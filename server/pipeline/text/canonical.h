// The canonical form of a pipeline: the text that digests are made of, and the stages'
// fingerprints. docs/pipeline.md, "Fingerprints", is its specification.
//
// Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/pipeline/graph/stage.h"

namespace millrace {

struct StageConfig;

/// "closure.order"; for a scalar stage its name alone.
std::string CanonicalKey(const StageType& stage, const Parameter& parameter);

/// Whether the canonical text shows the parameter: it differs from its default, or it is the first
/// one of an optional stage, whose presence it shows.
bool IsCanonical(const StageType& stage, const Parameter& parameter, const Params& params);

/// The stage's part of the canonical text: `key=value` lines without newlines, of the parameters
/// that IsCanonical and of a version above 1.
std::vector<std::string> CanonicalLines(const StageType& stage, const Params& params);

enum class CanonicalScope : std::uint8_t {
  kAll,
  kOrder,  // without the stages that leave every example in its place (exclude)
};

/// All lines and `semantics=N`, sorted by bytes, each ended by a newline.
std::string CanonicalText(const std::vector<StageConfig>& stages, CanonicalScope scope);

/// Sets the fingerprint of every stage of a chain.
void SetFingerprints(std::vector<StageConfig>& stages);

}  // namespace millrace
