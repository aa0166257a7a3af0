// A user's pipeline: it is parsed and checked, and its variant and overrides are applied. It has a
// canonical text and digests.
//
// Immutable value type.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/batch/layout/semantics.h"
#include "server/source/mix_parts.h"
#include "server/source/stage.h"
#include "server/source/tensors_part.h"

namespace millrace {

/// Whether a text can be a dataset id: 1 to 128 letters, digits, dots, hyphens and underscores.
bool IsDatasetId(std::string_view text);
inline constexpr std::string_view kDatasetIdRule =
    "an id of at most 128 letters, digits, '.', '-' and '_'";

/// One stage of a pipeline.
struct StageConfig {
  const StageType* type = nullptr;
  Params params;                    // all parameters, with defaults filled in, also for unused keys
  std::vector<std::string> unused;  // parameters without meaning for this pipeline, written or not
  std::string fingerprint;  // 32 hex digits, made from type, version, parameters that differ from
                            // their defaults, and the inputs' fingerprints
};

/// A pipeline as the user gives it: the file's text, a variant ("" for no variant) and `key=value`
/// overrides.
struct PipelineSource {
  std::string yaml;
  std::string variant;
  std::vector<std::string> overrides;
  std::string name = "pipeline";  // name of the file, for messages
};

class Pipeline;

/// One source of a mix. Its pipeline has all that concerns the source, the selection and the order
/// of its examples, but no batches.
struct PipelineBranch {
  std::string name;
  std::shared_ptr<const Pipeline> pipeline;
};

class Pipeline {
 public:
  /// InvalidArgument: "<name>:<line>:<column>: …" with the key, the expected (allowed) values, and
  /// the value found. The tables must outlive the result.
  static Result<Pipeline> Parse(const PipelineSource& source, const StageTable& table,
                                const OperationTable& operations = OperationTable::Default());

  /// The first of its datasets.
  const std::string& dataset() const { return datasets_.front(); }
  /// The ids of its datasets, each once, in the order of the branches.
  const std::vector<std::string>& datasets() const { return datasets_; }
  /// The branches that it mixes, in the order of the file; empty: it does not mix.
  const std::vector<PipelineBranch>& branches() const { return branches_; }
  const MixPart& mix() const { return mix_; }
  /// The name of the source; empty if the pipeline has branches.
  const std::string& source() const { return source_; }
  /// The chain of stages, in order.
  const std::vector<StageConfig>& stages() const { return stages_; }
  /// The stage with this name, or nullptr if it is absent.
  const StageConfig* Find(std::string_view stage) const;
  /// Files to exclude. Their examples are dropped in their places.
  const std::vector<std::string>& excluded_files() const { return excluded_files_; }
  /// The tensors that it defines and delivers: the keys `tensors`, `output` and `pad`.
  const TensorsPart& tensors() const { return tensors_; }
  /// Where the keys of stages were written, by their names ("closure.order"), in the form that
  /// messages use ("file:3:5").
  const std::map<std::string, std::string, std::less<>>& origins() const { return origins_; }
  /// Each is a "stage.key" that was written but has no meaning for the source or with the other
  /// settings.
  const std::vector<std::string>& unused_keys() const { return unused_keys_; }
  /// Names of the variants in the file.
  const std::vector<std::string>& variants() const { return variants_; }

  /// Sorted `key=value` lines, with `semantics=N`. Defaults, unused keys and the dataset id are
  /// left out.
  const std::string& canonical_text() const { return canonical_text_; }
  /// XXH3-128 of the canonical text.
  Digest128 digest() const { return digest_; }
  /// The digest of the same text with an empty `exclude`, and without tensors, output, pad and
  /// parameters that leave examples in their places. It is one half of the order fingerprint.
  Digest128 order_digest() const { return order_digest_; }

  /// The digest of all keys that decide what is built from an example, whatever order and
  /// selection: keys of the source, and keys that its kind and the workers' stages add.
  Digest128 build_digest() const { return build_digest_; }

 private:
  friend class PipelineParser;
  Pipeline() = default;

  std::vector<std::string> datasets_;
  std::vector<PipelineBranch> branches_;
  MixPart mix_;
  std::string source_;
  std::vector<StageConfig> stages_;
  std::vector<std::string> excluded_files_;
  TensorsPart tensors_;
  std::map<std::string, std::string, std::less<>> origins_;
  std::vector<std::string> unused_keys_;
  std::vector<std::string> variants_;
  std::string canonical_text_;
  Digest128 digest_;
  Digest128 order_digest_;
  Digest128 build_digest_;
};

}  // namespace millrace
