// A made-up fleet as a dispatcher sees it: workers that report once a second, and consumers that
// take their batches in order and report which list of workers they have. There is no network, and
// there are no batches.
//
// Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/epoch/position.h"
#include "millrace/v1/dispatcher.pb.h"
#include "server/dispatcher/service/plan_compiler.h"
#include "server/plan/facts/plan_facts.h"

namespace millrace::bench {

struct FleetOptions {
  std::uint32_t workers = 1000;
  std::uint32_t consumers = 1000;
  std::uint32_t jobs = 8;

  std::uint32_t world_size() const { return (consumers + jobs - 1) / jobs; }
  /// Members of each list once all are there: 8 times the consumer's share of the workers.
  std::uint32_t members() const {
    return std::min(workers, std::max(8U, (8 * workers + consumers - 1) / consumers));
  }
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
  /// Fails with InvalidArgument if the dispatcher has broken a promise: a list's number does not
  /// rise, a worker is in it twice, or it has more members than a list may have.
  Status Receive(const v1::AttachResponse& response);

  bool welcomed() const { return steps_.has_value(); }
  /// Members of its list.
  std::uint32_t members() const { return members_; }

  /// Takes a batch.
  void TakeStep();
  /// `has_list`: otherwise it says that its last list is lost.
  v1::AttachRequest Report(bool has_list = true) const;

 private:
  const FleetOptions options_;
  const std::uint32_t number_;
  const std::uint32_t rank_;
  std::optional<StepArithmetic> steps_;
  Position next_;
  std::uint64_t list_ = 0;  // its number
  std::uint32_t members_ = 0;
  std::uint64_t batches_ = 0;
};

}  // namespace millrace::bench
