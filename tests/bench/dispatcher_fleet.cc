#include "tests/bench/dispatcher_fleet.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "common/base/protocol_version.h"
#include "common/transport/convert/places.h"
#include "common/transport/convert/steps.h"
#include "server/dispatcher/service/plan_compiler.h"
#include "server/pipeline/plan_outline.h"

namespace millrace::bench {
namespace {

constexpr const char* kDataset = "stdlib";
constexpr Digest128 kDatasetDigest{0x1234567890abcdef, 0xfedcba0987654321};
constexpr std::uint64_t kExamples = 10'000'000;
constexpr std::uint64_t kBatch = 512;

class BenchFacts final : public PlanFacts {
 public:
  const Fingerprint& fingerprint() const override { return fingerprint_; }
  const Fingerprint& order_fingerprint() const override { return fingerprint_; }
  const std::vector<PlanDataset>& datasets() const override { return datasets_; }
  const std::string& canonical_text() const override { return canonical_; }
  const std::string& code() const override {
    static const std::string none;
    return none;
  }
  const std::string& static_digest() const override { return digest_; }
  Result<StepArithmetic> Steps(std::uint32_t world_size) const override {
    return StepArithmetic::Create(
        {.examples = kExamples, .size = kBatch, .world_size = world_size});
  }
  Result<v1::Spec> Spec(std::uint32_t world_size) const override {
    v1::Spec spec;
    spec.mutable_steps()->set_examples(kExamples);
    spec.mutable_steps()->set_size(kBatch);
    spec.mutable_steps()->set_world_size(world_size);
    for (int t = 0; t < 20; ++t) {
      v1::TensorSpec& tensor = *spec.add_tensors();
      tensor.set_path(fmt::format("tensor_of_a_plan_{}", t));
      tensor.set_kind("ragged_values");
      tensor.set_packed_dtype("uint16");
      tensor.set_delivered_dtype("int32");
      tensor.set_dimension("nodes");
      tensor.set_splits("node_splits");
    }
    return spec;
  }

 private:
  const Fingerprint fingerprint_{kDatasetDigest, {3, 4}};
  const std::vector<PlanDataset> datasets_{{kDataset, kDatasetDigest}};
  const std::string canonical_ = "source=proof_states\n";
  const std::string digest_ = Digest128{5, 6}.ToHex();
};

class BenchCompiler final : public PlanCompiler {
 public:
  Result<std::shared_ptr<const PlanFacts>> Compile(const v1::PipelineText&) override {
    return std::shared_ptr<const PlanFacts>(std::make_shared<BenchFacts>());
  }
};

bool Less(const v1::Number& a, const v1::Number& b) {
  return std::pair(a.term(), a.n()) < std::pair(b.term(), b.n());
}

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
    session_ = welcome.session();
    MILLRACE_ASSIGN_OR_RETURN(steps_, StepArithmetic::Create(FromProto(welcome.spec().steps())));
    next_ = Linear(welcome.start().epoch(), welcome.start().example());
  }
  for (const v1::Lease& lease : response.leases()) {
    const v1::Shard& shard = lease.shard();
    const std::uint64_t begin = Linear(shard.epoch(), shard.position());
    const Held held{lease, begin, begin + shard.batches() * steps_->stride()};
    const auto after = std::upper_bound(held_.begin(), held_.end(), begin,
                                        [](std::uint64_t b, const Held& h) { return b < h.begin; });
    const bool overlaps = (after != held_.end() && after->begin < held.end) ||
                          (after != held_.begin() && (after - 1)->end > begin);
    const ExampleRange own = steps_->RankExamples(PositionOf(shard), rank_);
    if (overlaps || begin < next_ || shard.first_example() != own.first ||
        shard.examples() != own.count) {
      return InvalidArgument(fmt::format("consumer {}: lease {}.{} of {} batches from {} is wrong",
                                         number_, lease.id().term(), lease.id().n(),
                                         shard.batches(), begin));
    }
    if (Less(last_lease_, lease.id())) last_lease_ = lease.id();
    held_.insert(after, held);
    ++received_;
  }
  return OkStatus();
}

bool BenchConsumer::covered() const {
  std::uint64_t at = next_;
  for (const Held& held : held_) {
    if (held.begin != at) break;
    at = held.end;
  }
  return welcomed() && at >= next_ + options_.window * steps_->stride();
}

bool BenchConsumer::FinishLease() {
  if (held_.empty() || held_.front().begin != next_) return false;
  batches_ += held_.front().lease.shard().batches();
  next_ = held_.front().end;
  held_.pop_front();
  return true;
}

v1::AttachRequest BenchConsumer::Report() const {
  v1::AttachRequest request;
  v1::Report& report = *request.mutable_report();
  report.mutable_next()->set_epoch(next_ / PerEpoch());
  report.mutable_next()->set_example(next_ % PerEpoch());
  report.set_window(options_.window);
  for (const Held& held : held_) {
    v1::Lease& lease = *report.add_held();
    *lease.mutable_id() = held.lease.id();
    *lease.mutable_shard() = held.lease.shard();
    *lease.mutable_worker()->mutable_id() = held.lease.worker().id();
  }
  *report.mutable_last_lease() = last_lease_;
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
