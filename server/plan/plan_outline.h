// The facts of a plan for those who build no batch: its identity, its steps and its tensors. It
// takes a few kilobytes, however large the dataset is.
//
// Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/epoch/position.h"
#include "millrace/v1/common.pb.h"
#include "server/plan/order/make_order.h"
#include "server/plan/static_data.h"
#include "server/source/source.h"

namespace millrace {

class TensorPlan;

/// Identifies a plan.
struct PlanIdentity {
  Fingerprint fingerprint;
  Fingerprint order_fingerprint;
  StaticOutline statics;
  std::vector<Digest128> dataset_digests;  // of Pipeline::datasets(), in its order
  std::string code = {};                   // Source::code
};

class PlanOutline {
 public:
  /// `computed`: null if the source's tensors are delivered. `steps`: for a world size of 1.
  /// Neither source nor tensors nor order are kept.
  PlanOutline(PlanIdentity identity, const Source& source, const TensorPlan* computed,
              const StepOptions& steps, const PlannedOrder& order);
  /// One that another process has sent. InvalidArgument if a fingerprint or digest cannot be read.
  static Result<PlanOutline> FromProto(const v1::PlanOutline& outline);
  void ToProto(v1::PlanOutline* to) const;

  const Fingerprint& fingerprint() const { return identity_.fingerprint; }
  const Fingerprint& order_fingerprint() const { return identity_.order_fingerprint; }
  const std::string& static_digest() const { return identity_.statics.digest; }
  /// The digests of the plan's datasets, in the order of Pipeline::datasets().
  const std::vector<Digest128>& dataset_digests() const { return identity_.dataset_digests; }
  const std::string& code() const { return identity_.code; }

  /// InvalidArgument, with the numbers, if the plan does not fit the world size.
  Result<StepArithmetic> Steps(std::uint32_t world_size) const;
  /// Everything that Welcome says, for a world size. Errors are those of Steps.
  Result<v1::Spec> Spec(std::uint32_t world_size) const;

 private:
  PlanOutline() = default;

  PlanIdentity identity_;
  StepOptions steps_;  // for a world size of 1
  std::uint64_t max_example_bytes_ = 0;
  v1::Spec spec_;  // without the fields that depend on the world size
};

}  // namespace millrace
