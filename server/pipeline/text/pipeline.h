// A user's pipeline: parsed, checked, its variant and overrides applied; its canonical text and
// digests.
//
// Immutable value type.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/batch/layout/semantics.h"
#include "server/pipeline/graph/stage.h"

namespace millrace {

namespace v1 {
class Pipeline;
}

/// Whether a text can be a dataset id: 1 to 128 letters, digits, dots, hyphens and underscores.
bool IsDatasetId(std::string_view text);
inline constexpr std::string_view kDatasetIdRule =
    "an id of at most 128 letters, digits, '.', '-' and '_'";

/// One stage of a pipeline.
struct StageConfig {
  const StageType* type = nullptr;
  Params params;            // complete: defaults filled in, also for unused keys
  std::string fingerprint;  // 32 hex digits: type, version, parameters that differ from their
                            // defaults, the inputs' fingerprints
};

/// How a pipeline is given: file text, variant ("" for none) and `key=value` overrides.
struct PipelineSource {
  std::string yaml;
  std::string variant;
  std::vector<std::string> overrides;
  std::string name = "pipeline";  // of the file, for messages
};

class Pipeline {
 public:
  /// InvalidArgument: "<name>:<line>:<column>: …" with the key, what was expected (the allowed
  /// values) and what was found. The table has to outlive the result.
  static Result<Pipeline> Parse(const PipelineSource& source,
                                const StageTable& table = StageTable::Default());

  const std::string& dataset() const { return dataset_; }
  /// "proof_states", "definitions", …
  const std::string& source() const { return source_; }
  /// The chain of stages, in order.
  const std::vector<StageConfig>& stages() const { return stages_; }
  /// The stage, or nullptr where it is absent.
  const StageConfig* Find(std::string_view stage) const;
  /// Files to exclude; their examples are dropped in their places.
  const std::vector<std::string>& excluded_files() const { return excluded_files_; }
  /// "stage.key" that were written but have no meaning for the source or the other settings.
  const std::vector<std::string>& unused_keys() const { return unused_keys_; }
  /// Names of the variants in the file.
  const std::vector<std::string>& variants() const { return variants_; }

  /// Sorted `key=value` lines without defaults, unused keys and dataset id, with `semantics=N`.
  const std::string& canonical_text() const { return canonical_text_; }
  /// XXH3-128 of the canonical text.
  Digest128 digest() const { return digest_; }
  /// The same with `exclude` empty: half of the order fingerprint.
  Digest128 order_digest() const { return order_digest_; }

  /// The canonical graph of stages (millrace/v1/pipeline.proto).
  v1::Pipeline ToProto() const;

 private:
  friend class PipelineParser;
  Pipeline() = default;

  std::string dataset_;
  std::string source_;
  std::vector<StageConfig> stages_;
  std::vector<std::string> excluded_files_;
  std::vector<std::string> unused_keys_;
  std::vector<std::string> variants_;
  std::string canonical_text_;
  Digest128 digest_;
  Digest128 order_digest_;
};

}  // namespace millrace
