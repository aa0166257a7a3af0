// The facts of a compiled plan that the dispatcher needs. The dispatcher builds no batch. It needs
// fingerprints to tell jobs apart, step arithmetic to check places, and the contents of Welcome.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/epoch/position.h"
#include "millrace/v1/common.pb.h"

namespace millrace {

/// A dataset that a plan needs.
struct PlanDataset {
  std::string id;
  Digest128 digest;
};

/// Immutable; thread-safe.
class PlanFacts {
 public:
  virtual ~PlanFacts() = default;

  virtual const Fingerprint& fingerprint() const = 0;
  /// The fingerprint that the cursors of this plan hold.
  virtual const Fingerprint& order_fingerprint() const = 0;
  /// The datasets of the pipeline, at least one, each id once: those of a mix in the order of its
  /// branches.
  virtual const std::vector<PlanDataset>& datasets() const = 0;
  /// The pipeline's options as sorted `key=value` lines. They show in which options two pipelines
  /// differ.
  virtual const std::string& canonical_text() const = 0;
  /// Lines about code that is not Millrace's own (Source::code); empty: there is none.
  virtual const std::string& code() const = 0;
  /// The digest of the vocabulary and the contexts, 32 hex digits.
  virtual const std::string& static_digest() const = 0;
  /// Spec.window_units: if it is not 0, ranks that read one window at one worker read its data once.
  virtual std::uint64_t window_units() const { return 0; }
  /// InvalidArgument, with the numbers, if the plan does not fit the world size.
  virtual Result<StepArithmetic> Steps(std::uint32_t world_size) const = 0;
  virtual Result<v1::Spec> Spec(std::uint32_t world_size) const = 0;
};

}  // namespace millrace
