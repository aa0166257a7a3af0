// The facts of a plan: its identity, its steps and the content of Welcome. They take a few
// kilobytes, however large the dataset is. A worker sends them to a dispatcher without the data, a
// dispatcher keeps them for each job, and a Plan has them.
//
// Immutable value; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/epoch/position.h"
#include "millrace/v1/common.pb.h"

namespace millrace {

/// A dataset that a plan needs.
struct PlanDataset {
  std::string id;  // empty until the pipeline is known that names it
  Digest128 digest;
};

struct PlanFields {
  Fingerprint fingerprint;
  Fingerprint order_fingerprint;
  std::vector<PlanDataset> datasets;  // of Pipeline::datasets(), in its order
  std::string canonical_text = {};    // of the pipeline
  std::string code = {};              // SourceFacts::code
  std::string static_digest = {};
  StepOptions steps = {};               // for a world size of 1
  std::uint64_t max_example_bytes = 0;  // 0: unknown
  v1::Spec spec = {};                   // without the fields that depend on the world size
};

class PlanFacts {
 public:
  explicit PlanFacts(PlanFields fields) : fields_(std::move(fields)) {}
  /// The facts that another process has sent. InvalidArgument if a fingerprint or digest cannot be
  /// read.
  static Result<PlanFacts> FromProto(const v1::PlanOutline& outline);
  /// Everything except the names of datasets and the canonical text.
  v1::PlanOutline ToProto() const;

  const PlanFields& fields() const { return fields_; }
  const Fingerprint& fingerprint() const { return fields_.fingerprint; }
  /// The fingerprint that the cursors of this plan hold.
  const Fingerprint& order_fingerprint() const { return fields_.order_fingerprint; }
  /// The datasets of the pipeline, at least one, each id once; for a mix, in the order of its
  /// branches.
  const std::vector<PlanDataset>& datasets() const { return fields_.datasets; }
  /// The pipeline's options as sorted `key=value` lines. They show in which options two pipelines
  /// differ.
  const std::string& canonical_text() const { return fields_.canonical_text; }
  /// Lines about a user's code (SourceFacts::code); empty: there is no such code.
  const std::string& code() const { return fields_.code; }
  /// The digest of the vocabulary and the contexts, 32 hex digits.
  const std::string& static_digest() const { return fields_.static_digest; }
  /// Spec.window_units: if it is not 0, ranks that read one window at one worker read its data
  /// once.
  std::uint64_t window_units() const { return fields_.spec.window_units(); }

  /// The step arithmetic for a world size: number of units, step size and remainder.
  /// InvalidArgument, with the numbers, if the plan does not fit it.
  Result<StepArithmetic> Steps(std::uint32_t world_size) const;
  /// The content of Welcome for a world size. Errors of Steps.
  Result<v1::Spec> Spec(std::uint32_t world_size) const;

 private:
  PlanFields fields_;
};

}  // namespace millrace
