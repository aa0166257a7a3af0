// Tests of a worker and its consumers.
#include <future>
#include <set>
#include <string>
#include <thread>

#include "common/base/protocol_version.h"
#include "common/compression/compression.h"
#include "common/transport/convert/compression.h"
#include "common/transport/wire.h"
#include "tests/unit/server/worker/service/worker_fixture.h"

namespace millrace {
namespace {

using test::FakePlan;
using test::Fixture;
using test::NextFragment;
using test::Recorder;
using test::Wants;

TEST_CASE("a plan that fails here says why, and its steps are refused", "[worker]") {
  Fixture f;
  f.Compile("bad");
  auto failed = f.WaitReport(
      [](const auto& r) { return r.plans_size() == 1 && r.plans(0).phase() == v1::FAILED; });
  REQUIRE(failed);
  CHECK(failed->plans(0).error() == "no such pipeline");
  auto [consumer, stream] = f.Consume();
  stream->Write(Wants(f.fingerprint, 1));
  const auto first = consumer->Next();
  REQUIRE(first);
  CHECK(first->message.has_alive());
  const auto fragment = NextFragment(*consumer);
  REQUIRE(fragment);
  CHECK_FALSE(fragment->message.refused().has_at());
  CHECK(fragment->message.refused().code() ==
        static_cast<std::uint32_t>(StatusCode::kFailedPrecondition));
}

TEST_CASE("a stream beyond the worker's limit is refused with it, and those of before go on",
          "[worker][limits]") {
  Fixture f;
  std::vector<test::Consumer> consumers;
  for (int i = 0; i < 5; ++i) consumers.push_back(f.Consume());
  const auto closed = consumers.back().fragments->WaitClosed();
  REQUIRE(closed);
  CHECK(closed->code() == StatusCode::kResourceExhausted);
  CHECK(closed->message().find("4 streams") != std::string::npos);
  consumers.front().wants->Write(Wants(f.fingerprint, 1));
  CHECK(consumers.front().fragments->Next());  // an answer
}

TEST_CASE("a list of very many files is cut, so that the dispatcher takes the report",
          "[worker][limits]") {
  Fixture f;
  f.provider->files = 1'000'000;
  f.Serve();
  const v1::WorkRequest report = f.Ask();
  const int listed = report.datasets().at("data").file_list_size();
  CHECK(listed > 100'000);
  CHECK(listed < 1'000'000);
  CHECK(report.ByteSizeLong() < wire::kMaxToDispatcherBytes * 3 / 4);
}

TEST_CASE("a consumer of another protocol is refused and told both versions",
          "[worker][versions]") {
  Fixture f;
  f.Serve();
  v1::WantList wants = Wants(f.fingerprint, 1);
  const auto served = [&] {
    auto [consumer, stream] = f.Consume();
    stream->Write(wants);
    return consumer->Next().has_value();
  };
  wants.set_job("x");
  wants.set_priority(7);
  CHECK(served());
  wants.set_protocol(kProtocol + 1);
  auto [consumer, stream] = f.Consume();
  stream->Write(wants);
  const auto closed = consumer->WaitClosed();
  REQUIRE(closed);
  CHECK(closed->code() == StatusCode::kFailedPrecondition);
  CHECK(closed->message().find("protocol " + std::to_string(kProtocol + 1)) != std::string::npos);
  CHECK(closed->message().find("this build speaks " + std::to_string(kProtocol)) !=
        std::string::npos);
  MetricSet metrics;
  f.worker->AddMetrics(metrics);
  CHECK(metrics.values(Metric::kRefusedRequests).at({"StreamBatches", "failed_precondition"}) == 1);
}

TEST_CASE("a consumer gets the batches that it asks for, with the plan's bytes", "[worker]") {
  Fixture f;
  f.Serve();
  auto [consumer, stream] = f.Consume();
  stream->Write(Wants(f.fingerprint, 3));
  std::set<std::uint64_t> positions;
  for (int i = 0; i < 3; ++i) {
    const auto fragment = NextFragment(*consumer);
    REQUIRE(fragment);
    positions.insert(fragment->message.at().example());
    CHECK(fragment->message.total_bytes() == fragment->data_bytes());
    BatchScratch scratch;
    auto expected = f.provider->plan->Batch(0, {fragment->message.at().example(), 10}, scratch);
    REQUIRE(expected.ok());
    std::vector<std::byte> bytes(fragment->data_bytes());
    wire::GatherInto(*fragment, bytes);
    CHECK(std::equal(bytes.begin(), bytes.end(), (*expected)->bytes().begin(),
                     (*expected)->bytes().end()));
    CHECK(fragment->message.digest() == (*expected)->digest().ToBytes());
  }
  CHECK(positions == std::set<std::uint64_t>{0, 10, 20});
}

/// Batches of 300 examples, which are worth compressing.
v1::WantList LargeWants(const Fixture& f, std::uint32_t steps, v1::Compression compression) {
  v1::WantList wants = Wants(f.fingerprint, steps);
  wants.mutable_runs(0)->set_examples(300);
  wants.mutable_runs(0)->set_stride(300);
  wants.set_compression(compression);
  return wants;
}

/// Reads a batch and checks its bytes against those of the plan. Returns the bytes that came for
/// it.
std::size_t CheckBatch(Fixture& f, Recorder<IncomingFragment>& fragments,
                       v1::Compression compression) {
  const auto fragment = NextFragment(fragments);
  REQUIRE(fragment);
  CHECK(fragment->message.compression() == compression);
  BatchScratch scratch;
  const auto expected =
      f.provider->plan->Batch(0, {fragment->message.at().example(), 300}, scratch);
  REQUIRE(expected.ok());
  const std::span<const std::byte> bytes = (*expected)->bytes();
  CHECK(fragment->message.total_bytes() == bytes.size());
  CHECK(fragment->message.digest() == (*expected)->digest().ToBytes());
  REQUIRE(fragment->batch_bytes() == bytes.size());
  std::vector<std::byte> came(fragment->data_bytes());
  wire::GatherInto(*fragment, came);
  std::vector<std::byte> raw(bytes.size());
  if (compression == v1::COMPRESSION_OFF) {
    raw = came;
  } else {
    REQUIRE(Decompressor().Decompress(*FromProto(compression), came, raw).ok());
  }
  CHECK(std::equal(raw.begin(), raw.end(), bytes.begin(), bytes.end()));
  return came.size();
}

TEST_CASE("a consumer gets batches compressed as it asks for them", "[worker][compression]") {
  Fixture f;
  f.Serve();
  std::map<v1::Compression, std::size_t> came;
  for (const auto compression : {v1::COMPRESSION_OFF, v1::COMPRESSION_LZ4, v1::COMPRESSION_ZSTD}) {
    auto [fragments, stream] = f.Consume();
    stream->Write(LargeWants(f, 3, compression));
    for (int i = 0; i < 3; ++i) came[compression] += CheckBatch(f, *fragments, compression);
  }
  CHECK(came[v1::COMPRESSION_LZ4] < came[v1::COMPRESSION_OFF] * 2 / 3);
  CHECK(came[v1::COMPRESSION_ZSTD] < came[v1::COMPRESSION_OFF] * 2 / 3);
  MetricSet metrics;
  f.worker->AddMetrics(metrics);
  CHECK(metrics.values(Metric::kCompressSeconds).at({}) > 0);
}

TEST_CASE("twins get one batch in different compressions", "[worker][compression]") {
  Fixture f;
  f.Serve();
  auto [plain, plain_stream] = f.Consume();
  auto [small, small_stream] = f.Consume();
  plain_stream->Write(LargeWants(f, 3, v1::COMPRESSION_OFF));
  small_stream->Write(LargeWants(f, 3, v1::COMPRESSION_ZSTD));
  for (int i = 0; i < 3; ++i) {
    CheckBatch(f, *plain, v1::COMPRESSION_OFF);
    CheckBatch(f, *small, v1::COMPRESSION_ZSTD);
  }
}

TEST_CASE("a compression that a worker does not know is left out", "[worker][compression]") {
  Fixture f;
  f.Serve();
  auto [fragments, stream] = f.Consume();
  stream->Write(LargeWants(f, 1, static_cast<v1::Compression>(99)));
  CheckBatch(f, *fragments, v1::COMPRESSION_OFF);
}

TEST_CASE("a consumer that goes while its batch is compressed harms nothing",
          "[worker][compression]") {
  Fixture f;
  f.Serve();
  for (int i = 0; i < 50; ++i) {
    auto [fragments, stream] = f.Consume();
    stream->Write(LargeWants(f, 3, v1::COMPRESSION_ZSTD));
    if (i % 2 == 0) CheckBatch(f, *fragments, v1::COMPRESSION_ZSTD);
    stream->Close(Cancelled("gone"));
    REQUIRE(fragments->WaitClosed());
  }
  auto [fragments, stream] = f.Consume();
  stream->Write(LargeWants(f, 1, v1::COMPRESSION_LZ4));
  CheckBatch(f, *fragments, v1::COMPRESSION_LZ4);
}

TEST_CASE("a worker stops while batches are compressed", "[worker][compression]") {
  Fixture f;
  f.Serve();
  auto [fragments, stream] = f.Consume();
  stream->Write(LargeWants(f, 3, v1::COMPRESSION_ZSTD));
  f.worker->Stop();
  CHECK(fragments->WaitClosed());
}

TEST_CASE("a consumer that waits is told the stage of the build", "[worker][alive]") {
  Fixture f;
  std::promise<void> begun;
  std::promise<void> go_on;
  f.provider->plan->on_build = [&] {
    begun.set_value();
    go_on.get_future().wait();
  };
  f.Serve();
  auto [consumer, stream] = f.Consume();
  stream->Write(Wants(f.fingerprint, 1));
  REQUIRE(begun.get_future().wait_for(test::kPatience) == std::future_status::ready);
  // A tick says nothing while the message before it is still under way, so there are several.
  const auto is_told = [&, &fragments = consumer](const char* stage, const std::string& name) {
    f.provider->plan->stage = stage;
    for (int tick = 0; tick < 1000; ++tick) {
      f.clock->Advance(std::chrono::seconds(1));
      f.worker->Tick();
      const auto fragment = fragments->Next(std::chrono::milliseconds(20));
      if (fragment && fragment->message.alive().building_size() == 1 &&
          fragment->message.alive().building(0).stage() == name) {
        return fragment->message.alive().building(0).at().example() == 0;
      }
    }
    return false;
  };
  CHECK(is_told("shuffle", "shuffle"));
  CHECK(is_told("closure", "closure"));
  CHECK(is_told("", "seal"));  // the plan's stages are over: the digest is under way
  go_on.set_value();
  for (;;) {
    const auto fragment = consumer->Next();
    REQUIRE(fragment);
    if (fragment->message.has_alive()) continue;
    CHECK(fragment->data_bytes() > 0);
    break;
  }
}

TEST_CASE("metrics and reports have the time of each stage of builds, by name", "[worker]") {
  Fixture f;
  f.provider->plan->stages = {"closure", "tensors: take", "tensors: expr", "tensors: take"};
  f.Serve();
  auto [consumer, stream] = f.Consume();
  stream->Write(Wants(f.fingerprint, 3));
  for (int i = 0; i < 3; ++i) REQUIRE(NextFragment(*consumer));
  MetricSet metrics;
  f.worker->AddMetrics(metrics);
  const auto& stages = metrics.histograms(Metric::kBatchBuildSeconds);
  CHECK(stages.at({"closure"}).sum() == 3);
  CHECK(stages.at({"tensors: expr"}).sum() == 3);
  // A batch goes through this stage twice, and counts once.
  CHECK(stages.at({"tensors: take"}).sum() == 6);
  CHECK(stages.at({"tensors: take"}).count() == 3);
  CHECK(stages.at({"shuffle"}).count() == 0);  // of every plan, so it is there from the start
  const v1::WorkRequest report = f.Ask();
  REQUIRE(report.build_size() == 3);
  CHECK(report.build(2).stage() == "tensors: take");
  CHECK(report.build(2).seconds() == 6);
  CHECK(report.build(2).count() == 3);
}

TEST_CASE("a plan that was dropped and is asked for again builds as before", "[worker]") {
  Fixture f;
  for (int turn = 0; turn < 2; ++turn) {
    f.Serve();
    auto [consumer, stream] = f.Consume();
    stream->Write(Wants(f.fingerprint, 1));
    const auto fragment = NextFragment(*consumer);
    REQUIRE(fragment);
    CHECK(fragment->message.refused().message() == "");
    CHECK(fragment->data_bytes() > 0);
    stream->Close(Cancelled("done"));
    REQUIRE(consumer->WaitClosed());
    // The plan stays until the worker has noticed that this stream has ended.
    std::optional<v1::WorkRequest> report;
    do {
      f.Say({});
      f.clock->Advance(std::chrono::seconds(1));
      f.worker->Tick();
      report = f.work.recorder->Next();
    } while (report && report->plans_size() != 0);
    REQUIRE(report);
    f.provider->plan = std::make_shared<FakePlan>(StepOptions{1000, 10, 0, false, 1});
  }
}

/// Returns the next message that refuses a step. Skips signs of life before it.
std::optional<v1::Refused> NextRefusal(Recorder<IncomingFragment>& consumer) {
  while (auto fragment = consumer.Next()) {
    if (fragment->message.has_refused()) return fragment->message.refused();
    if (!fragment->message.has_alive()) return std::nullopt;
  }
  return std::nullopt;
}

TEST_CASE("files are looked at once a second; a plan of damaged ones fails, and its batches go",
          "[worker][files]") {
  Fixture f;
  f.Serve();
  auto [consumer, stream] = f.Consume();
  v1::WantList wants = Wants(f.fingerprint, 1);
  wants.set_credit_bytes(0);  // only the first batch is sent, because it is `next`
  stream->Write(wants);
  REQUIRE(NextFragment(*consumer));
  while (!f.worker->Idle()) std::this_thread::yield();
  wants.mutable_runs(0)->set_steps(3);  // the other batches are built and not sent
  stream->Write(wants);
  while (f.Ask().memory_bytes() == 0) std::this_thread::yield();
  f.provider->damaged = true;
  f.clock->Advance(std::chrono::milliseconds(500));
  f.worker->Tick();
  CHECK(f.provider->looks == 0);
  f.clock->Advance(std::chrono::milliseconds(500));
  f.worker->Tick();
  const auto failed = f.WaitReport(
      [](const auto& r) { return r.plans_size() == 1 && r.plans(0).phase() == v1::FAILED; });
  REQUIRE(failed);
  CHECK(failed->plans(0).error() == "b.bin was written to");
  CHECK(failed->plans(0).error_code() == static_cast<std::uint32_t>(StatusCode::kDataLoss));
  CHECK(failed->memory_bytes() == 0);
  const auto refused = NextRefusal(*consumer);
  REQUIRE(refused);
  CHECK_FALSE(refused->has_at());
  CHECK(refused->code() == static_cast<std::uint32_t>(StatusCode::kDataLoss));
  CHECK(refused->message() == "b.bin was written to");
  // Later lists are refused too.
  stream->Write(wants);
  const auto again = NextRefusal(*consumer);
  REQUIRE(again);
  CHECK(again->code() == static_cast<std::uint32_t>(StatusCode::kDataLoss));
}

TEST_CASE("a plan is judged by its own data, not by those that its dataset has by now",
          "[worker][files]") {
  Fixture f;
  f.Serve();
  f.provider->moved_to_damage = true;
  f.clock->Advance(std::chrono::seconds(1));
  f.worker->Tick();
  const auto report = f.WaitReport([&](const auto& r) {
    return r.plans_size() == 1 && (f.provider->checked > 0 || r.plans(0).phase() == v1::FAILED);
  });
  REQUIRE(report);
  CHECK(report->plans(0).phase() == v1::READY);
  auto [consumer, stream] = f.Consume();
  stream->Write(Wants(f.fingerprint, 1));
  CHECK(consumer->Next());
}

TEST_CASE("a range beyond the epoch is refused, not built", "[worker]") {
  Fixture f;
  f.Serve();
  auto [consumer, stream] = f.Consume();
  v1::WantList wants = Wants(f.fingerprint, 1);
  wants.mutable_runs(0)->set_first_example(5000);
  stream->Write(wants);
  const auto fragment = NextFragment(*consumer);
  REQUIRE(fragment);
  CHECK(fragment->message.refused().has_at());
  CHECK(fragment->message.refused().code() == static_cast<std::uint32_t>(StatusCode::kOutOfRange));
}

TEST_CASE("a want list that makes no sense ends its stream with the reason", "[worker]") {
  Fixture f;
  f.Serve();
  auto [consumer, stream] = f.Consume();
  stream->Write(Wants(f.fingerprint, 0));
  CHECK(consumer->WaitClosed()->code() == StatusCode::kInvalidArgument);
}

TEST_CASE("a want list without a fingerprint ends its stream: it would be a new job each time",
          "[worker]") {
  Fixture f;
  auto [consumer, stream] = f.Consume();
  stream->Write(Wants("", 1));
  const std::optional<Status> closed = consumer->WaitClosed();
  REQUIRE(closed);
  CHECK(closed->message().find("a want list without a fingerprint") != std::string::npos);
}

TEST_CASE("a draining worker asks its consumers to go elsewhere and tells the dispatcher",
          "[worker]") {
  Fixture f;
  f.Serve();
  auto [consumer, stream] = f.Consume();
  stream->Write(Wants(f.fingerprint, 1));
  REQUIRE(NextFragment(*consumer));
  v1::WorkResponse drain;
  v1::PlanSpec& spec = *drain.add_plans();
  spec.set_fingerprint(f.fingerprint);
  drain.set_drain(true);
  f.Say(drain);
  const auto fragment = NextFragment(*consumer);
  REQUIRE(fragment);
  CHECK(fragment->message.going_away());
  CHECK(f.WaitReport([](const auto& r) { return r.draining(); }));
  CHECK(f.worker->Idle());
}

}  // namespace
}  // namespace millrace
