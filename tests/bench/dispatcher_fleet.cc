#include "tests/bench/dispatcher_fleet.h"

#include <set>
#include <utility>

#include <fmt/core.h>

#include "common/base/protocol_limits.h"
#include "common/base/protocol_version.h"
#include "common/batch/layout/semantics.h"
#include "common/transport/convert/places.h"
#include "common/transport/convert/steps.h"
#include "server/dispatcher/service/plan_compiler.h"
#include "server/plan/facts/plan_facts.h"

namespace millrace::bench {
namespace {

constexpr const char* kDataset = "stdlib";
constexpr Digest128 kDatasetDigest{0x1234567890abcdef, 0xfedcba0987654321};
constexpr std::uint64_t kExamples = 10'000'000;
constexpr std::uint64_t kBatch = 512;

PlanFacts BenchFacts() {
  const Fingerprint fingerprint{kDatasetDigest, {3, 4}};
  PlanFields fields{.fingerprint = fingerprint,
                    .order_fingerprint = fingerprint,
                    .datasets = {{kDataset, kDatasetDigest}},
                    .canonical_text = "source=proof_states\n",
                    .static_digest = Digest128{5, 6}.ToHex(),
                    .steps = {.examples = kExamples, .size = kBatch}};
  fields.spec.mutable_steps()->set_examples(kExamples);
  fields.spec.mutable_steps()->set_size(kBatch);
  for (int t = 0; t < 20; ++t) {
    v1::TensorSpec& tensor = *fields.spec.add_tensors();
    tensor.set_path(fmt::format("tensor_of_a_plan_{}", t));
    tensor.set_kind("ragged_values");
    tensor.set_packed_dtype("uint16");
    tensor.set_delivered_dtype("int32");
    tensor.set_dimension("nodes");
    tensor.set_splits("node_splits");
  }
  return PlanFacts(std::move(fields));
}

class BenchCompiler final : public PlanCompiler {
 public:
  Result<std::shared_ptr<const PlanFacts>> Compile(const v1::PipelineText&) override {
    return std::make_shared<const PlanFacts>(BenchFacts());
  }
};

std::string Nonce(char kind, std::uint32_t number) { return fmt::format("{}{:015}", kind, number); }

}  // namespace

std::shared_ptr<PlanCompiler> MakeBenchCompiler() { return std::make_shared<BenchCompiler>(); }

std::string BenchFingerprint() { return BenchFacts().fingerprint().ToString(); }

v1::DatasetState BenchDataset() {
  v1::DatasetState state;
  state.set_digest(kDatasetDigest.ToHex());
  state.set_verifying(1);
  state.set_files(1000);
  state.set_examples(kExamples);
  return state;
}

v1::WorkRequest MakeWorkReport(std::uint32_t worker, const std::string& fingerprint) {
  v1::WorkRequest request;
  request.set_protocol(kProtocol);
  request.set_nonce(Nonce('w', worker));
  request.set_name(fmt::format("worker-{}", worker));
  request.mutable_self()->set_address(
      fmt::format("10.1.{}.{}:7701", worker / 250, worker % 250 + 1));
  request.mutable_self()->set_host_id(fmt::format("host-of-worker-{}", worker));
  request.add_semantics(kSemantics);
  (*request.mutable_datasets())[kDataset] = BenchDataset();
  if (!fingerprint.empty()) {
    v1::PlanState& plan = *request.add_plans();
    plan.set_fingerprint(fingerprint);
    plan.set_phase(v1::READY);
    plan.set_static_digest(Digest128{5, 6}.ToHex());
  }
  request.set_queue_seconds(0.01 * (worker % 7));
  request.set_memory_bytes(100 << 20);
  request.set_streams(8);
  request.set_threads(16);
  request.set_slots(32);
  request.set_idle_threads(worker % 2);
  request.set_owed(16);
  for (const char* stage : {"shuffle", "closure", "batch"}) {
    v1::StageSeconds& seconds = *request.add_build();
    seconds.set_stage(stage);
    seconds.set_seconds(100);
    seconds.set_count(10'000);
  }
  return request;
}

BenchConsumer::BenchConsumer(const FleetOptions& options, std::uint32_t number)
    : options_(options), number_(number), rank_(number / options.jobs) {}

v1::AttachRequest BenchConsumer::Hello() const {
  v1::AttachRequest request;
  v1::Hello& hello = *request.mutable_hello();
  hello.set_protocol(kProtocol);
  hello.set_job(fmt::format("job-{}", number_ % options_.jobs));
  hello.set_rank(rank_);
  hello.set_world_size(options_.world_size());
  hello.mutable_pipeline()->set_yaml(std::string(400, '#'));
  hello.mutable_start();
  hello.set_nonce(Nonce('c', number_));
  hello.set_where(fmt::format("trainer-{}:4121", number_));
  hello.set_host_id(fmt::format("host-of-trainer-{}", number_ / 8));
  return request;
}

Status BenchConsumer::Receive(const v1::AttachResponse& response) {
  if (response.has_welcome()) {
    const v1::Welcome& welcome = response.welcome();
    MILLRACE_ASSIGN_OR_RETURN(steps_, StepArithmetic::Create(FromProto(welcome.spec().steps())));
    next_ = FromProto(welcome.start());
  }
  if (!response.has_list()) return OkStatus();
  const v1::WorkerList& list = response.list();
  std::set<std::pair<std::uint64_t, std::uint64_t>> members;
  for (const v1::WorkerRef& worker : list.workers()) {
    members.emplace(worker.id().term(), worker.id().n());
  }
  if (list.number() <= list_ || members.size() > kMaxListMembers ||
      members.size() != static_cast<std::size_t>(list.workers_size())) {
    return InvalidArgument(
        fmt::format("consumer {}: list {} of {} members, {} of them different, "
                    "is wrong after list {}",
                    number_, list.number(), list.workers_size(), members.size(), list_));
  }
  list_ = list.number();
  members_ = static_cast<std::uint32_t>(members.size());
  return OkStatus();
}

void BenchConsumer::TakeStep() {
  ++batches_;
  next_ = steps_->Next(next_);
}

v1::AttachRequest BenchConsumer::Report(bool has_list) const {
  v1::AttachRequest request;
  v1::Report& report = *request.mutable_report();
  report.mutable_next()->set_epoch(next_.epoch);
  report.mutable_next()->set_example(next_.example);
  report.set_step_ms(250);
  report.set_used(members_);
  report.set_asked(14);
  report.set_built(2);
  report.set_list(has_list ? list_ : list_ - 1);
  v1::Counters& counters = *report.mutable_counters();
  counters.set_batches(batches_);
  counters.set_examples(batches_ * kBatch);
  counters.set_bytes(batches_ * (1 << 20));
  for (const auto cause : {v1::WAIT_LEASE, v1::WAIT_BUILD}) {
    v1::WaitedSeconds& waited = *counters.add_waited();
    waited.set_cause(cause);
    waited.set_seconds(1.5);
  }
  report.set_buffered_batches(8);
  report.set_buffered_bytes(8 << 20);
  return request;
}

}  // namespace millrace::bench
