// What the dispatcher knows of a compiled plan. The dispatcher builds no
// batch: it needs fingerprints to tell jobs apart, step arithmetic to cut shards, and what Welcome
// says.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/epoch/position.h"
#include "millrace/v1/common.pb.h"

namespace millrace {

/// Immutable; thread-safe.
class PlanFacts {
 public:
  virtual ~PlanFacts() = default;

  virtual const Fingerprint& fingerprint() const = 0;
  /// What a cursor of this plan holds.
  virtual const Fingerprint& order_fingerprint() const = 0;
  /// Dataset id of the pipeline.
  virtual const std::string& dataset() const = 0;
  /// Sorted `key=value` lines: names the options in which two pipelines differ.
  virtual const std::string& canonical_text() const = 0;
  /// Digest of vocabulary and contexts, 32 hex digits.
  virtual const std::string& static_digest() const = 0;
  /// InvalidArgument with the numbers where the plan does not fit the world size.
  virtual Result<StepArithmetic> Steps(std::uint32_t world_size) const = 0;
  virtual Result<v1::Spec> Spec(std::uint32_t world_size) const = 0;
};

}  // namespace millrace
