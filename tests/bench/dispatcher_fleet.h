// A made-up fleet as a dispatcher sees it: workers that report once a second, and consumers that
// take their batches in order and report which leases they still hold. There is no network, and
// there are no batches.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/epoch/position.h"
#include "millrace/v1/dispatcher.pb.h"
#include "server/dispatcher/machine/plan_facts.h"
#include "server/dispatcher/service/plan_compiler.h"

namespace millrace::bench {

struct FleetOptions {
  std::uint32_t workers = 1000;
  std::uint32_t consumers = 1000;
  std::uint32_t jobs = 8;
  std::uint32_t window = 32;  // in batches

  std::uint32_t world_size() const { return (consumers + jobs - 1) / jobs; }
};

/// Compiles any pipeline text to the same plan, which is as large as a real one.
std::shared_ptr<PlanCompiler> MakeBenchCompiler();
std::string BenchFingerprint();
/// The dataset of those plans.
v1::DatasetState BenchDataset();

/// The report of a worker. If a plan is given, the worker is ready for it.
v1::WorkRequest MakeWorkReport(std::uint32_t worker, const std::string& fingerprint);

class BenchConsumer {
 public:
  BenchConsumer(const FleetOptions& options, std::uint32_t number);

  v1::AttachRequest Hello() const;
  /// Fails with InvalidArgument if the dispatcher has broken a promise: the lease overlaps another,
  /// lies before the next batch, or has batches of another rank.
  Status Receive(const v1::AttachResponse& response);

  bool welcomed() const { return steps_.has_value(); }
  std::uint64_t leases_received() const { return received_; }
  /// Whether leases cover the whole window.
  bool covered() const;

  /// Takes all batches of the first lease. False if no lease has the batch `next`.
  bool FinishLease();
  v1::AttachRequest Report() const;

 private:
  struct Held {
    v1::Lease lease;
    std::uint64_t begin;  // in examples over all epochs
    std::uint64_t end;
  };

  std::uint64_t PerEpoch() const { return steps_->StepsFrom(0) * steps_->stride(); }
  std::uint64_t Linear(std::uint64_t epoch, std::uint64_t position) const {
    return epoch * PerEpoch() + position;
  }

  const FleetOptions options_;
  const std::uint32_t number_;
  const std::uint32_t rank_;
  std::optional<StepArithmetic> steps_;
  std::deque<Held> held_;   // in ascending order
  std::uint64_t next_ = 0;  // in examples over all epochs
  v1::Number session_;
  v1::Number last_lease_;
  std::uint64_t received_ = 0;
  std::uint64_t batches_ = 0;
};

}  // namespace millrace::bench
