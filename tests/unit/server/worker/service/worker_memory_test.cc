// Tests of a worker's memory, threads, and processes of plugins.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/transport/convert/places.h"
#include "common/transport/convert/spans.h"
#include "tests/unit/server/worker/service/worker_fixture.h"

namespace millrace {
namespace {

using test::Fixture;
using test::Wants;

TEST_CASE("a worker short of memory builds less ahead, and goes on when there is some again",
          "[worker][memory]") {
  constexpr std::uint64_t kLimit = std::uint64_t{4} << 30;
  Fixture f(false, kLimit);
  f.Serve();
  const auto budget = [&](auto fits) {
    f.Ask();
    f.clock->Advance(std::chrono::seconds(1));
    f.worker->Tick();
    return f.WaitReport([&](const v1::WorkRequest& r) { return fits(r.memory_limit_bytes()); });
  };
  constexpr std::uint64_t kAll = std::uint64_t{1} << 30;  // the default of WorkerOptions
  CHECK(budget([](std::uint64_t bytes) { return bytes == kAll; }));
  f.memory_used = kLimit - 1000;
  CHECK(budget([](std::uint64_t bytes) { return bytes == 1000; }));
  f.memory_used = 2 * kLimit;
  CHECK(budget([](std::uint64_t bytes) { return bytes == 0; }));
  // Even then a consumer gets batch after batch.
  auto [consumer, stream] = f.Consume();
  stream->Write(Wants(f.fingerprint, 8));
  const auto fragment = test::NextFragment(*consumer);
  REQUIRE(fragment);
  CHECK(fragment->message.at().example() == 0);
  f.memory_used = 0;
  CHECK(budget([](std::uint64_t bytes) { return bytes == kAll; }));
  for (int i = 0; i < 7; ++i) CHECK(test::NextFragment(*consumer));
}

TEST_CASE("the cache of examples gives way before work ahead does, and is reported",
          "[worker][memory]") {
  constexpr std::uint64_t kLimit = std::uint64_t{4} << 30;
  constexpr std::uint64_t kAll = std::uint64_t{1} << 30;  // of work ahead, and of the cache
  Fixture f(false, kLimit);
  f.Serve();
  const auto memory = [&] { return f.provider->kept->stats().cache.memory; };
  const auto limit = [&](std::uint64_t used) {
    f.memory_used = used;
    f.Ask();  // so that the dispatcher does not seem to be silent
    f.clock->Advance(std::chrono::seconds(1));
    f.worker->Tick();
    return memory().limit_bytes;
  };
  CHECK(limit(0) == kAll);
  CHECK(limit(kLimit - kAll - 1000) == 1000);
  CHECK(limit(kLimit - kAll) == 0);
  f.Ask();
  f.clock->Advance(std::chrono::seconds(1));
  f.worker->Tick();
  CHECK(f.WaitReport([](const v1::WorkRequest& r) {
    return r.memory_limit_bytes() == kAll && r.cache().memory_limit_bytes() == 0;
  }));
  CHECK(limit(2 * kLimit) == 0);
  CHECK(limit(0) == kAll);
  // What the cache has is not counted against it, and goes when others need it.
  const auto bytes = std::make_shared<ExampleBytes>(std::size_t{8} << 20);
  f.provider->kept->Add(std::vector<BuiltExample>{{{1, 1}, bytes}}, CacheLevel::kMemory, 0);
  const std::uint64_t cached = memory().bytes;
  CHECK(limit(kLimit - kAll) == cached);
  CHECK(memory().entries == 1);
  CHECK(limit(kLimit - kAll + 1000) == cached - 1000);
  CHECK(memory().entries == 0);
}

TEST_CASE("threads follow the CPUs, and processes of plugins the threads and the memory",
          "[worker][memory][plugin][tune]") {
  constexpr std::uint64_t kLimit = std::uint64_t{4} << 30;
  Fixture f(false, kLimit, true);
  f.Serve();
  PluginPoolStats tuned;
  tuned.number = 3;
  tuned.processes_given = false;
  tuned.object = "speech:Corpus";
  tuned.processes.resize(8);
  tuned.processes[0].process = 77;
  tuned.memory_bytes = std::uint64_t{1} << 30;
  PluginPoolStats given = tuned;
  given.number = 4;
  given.processes_given = true;
  given.memory_bytes = 0;
  {
    MutexLock lock(f.provider->mutex);
    f.provider->plugins = {given, tuned};
  }
  const auto after_a_second = [&] {
    f.clock->Advance(std::chrono::seconds(1));
    f.worker->Tick();
    MutexLock lock(f.provider->mutex);
    return f.provider->most_processes;
  };
  using Most = std::map<std::uint64_t, int>;
  // One thread asks one process.
  CHECK(after_a_second() == Most{{3, 1}});
  f.cpus = 6;
  f.Ask();
  CHECK(after_a_second() == Most{{3, 2}});
  CHECK(f.WaitReport([](const v1::WorkRequest& r) { return r.threads() == 6; }));
  // The third one would need a GiB of what is half of the batches'.
  {
    MutexLock lock(f.provider->mutex);
    f.provider->plugins[1].processes[1].process = 78;
    f.provider->plugins[1].memory_bytes = std::uint64_t{2} << 30;
  }
  f.memory_used = std::uint64_t{1} << 30;
  CHECK(after_a_second() == Most{{3, 2}});
  f.memory_used = kLimit / 2;
  CHECK(after_a_second() == Most{{3, 1}});
}

TEST_CASE("processes of plugins are reported, shown in metrics, and leave less for batches",
          "[worker][memory][plugin]") {
  constexpr std::uint64_t kLimit = std::uint64_t{4} << 30;
  constexpr std::uint64_t kAll = std::uint64_t{1} << 30;
  Fixture f(false, kLimit);
  f.Serve();
  PluginPoolStats pool;
  pool.object = "speech:Corpus";
  pool.memory_bytes = kLimit - 1000;
  pool.processes = {{77, 2, 3000, 1.5, 40, 3, 4, false}, {}};
  {
    MutexLock lock(f.provider->mutex);
    f.provider->plugins = {pool, pool};  // with other arguments
    f.provider->plugins[1].memory_bytes = 400;
  }
  f.Ask();
  f.clock->Advance(std::chrono::seconds(1));
  f.worker->Tick();
  std::optional<v1::WorkRequest> report = f.WaitReport([](const v1::WorkRequest& r) {
    return r.plugins_size() == 2 && r.memory_limit_bytes() == 600;
  });
  REQUIRE(report);
  const v1::PluginUse& use = report->plugins(0);
  CHECK(use.object() == "speech:Corpus");
  CHECK(use.memory_bytes() == kLimit - 1000);
  REQUIRE(use.processes_size() == 2);
  CHECK(use.processes(0).process() == 77);
  CHECK(use.processes(0).restarts() == 2);
  CHECK(use.processes(0).memory_bytes() == 3000);
  CHECK(use.processes(0).busy_seconds() == 1.5);
  CHECK(use.processes(0).examples() == 40);
  CHECK(use.processes(0).dropped() == 3);
  CHECK(use.processes(0).failed() == 4);
  CHECK(use.processes(1).process() == 0);
  MetricSet metrics;
  f.worker->AddMetrics(metrics);
  const std::vector<std::string> first = {"speech:Corpus", "0"};
  CHECK(metrics.values(Metric::kMemory).at({}) == kLimit - 600);
  CHECK(metrics.values(Metric::kMemoryLimit).at({}) == kLimit);
  CHECK(metrics.values(Metric::kPluginMemory).at({"speech:Corpus"}) == kLimit - 600);
  CHECK(metrics.values(Metric::kPluginProcessMemory).at(first) == 6000);
  CHECK(metrics.values(Metric::kPluginRestarts).at(first) == 4);
  CHECK(metrics.values(Metric::kPluginBusySeconds).at(first) == 3);
  CHECK(metrics.values(Metric::kPluginExamples).at(first) == 80);
  CHECK(metrics.values(Metric::kPluginDropped).at(first) == 6);
  CHECK(metrics.values(Metric::kPluginFailedTries).at(first) == 8);
  CHECK(metrics.values(Metric::kPluginExamples).at({"speech:Corpus", "1"}) == 0);
  {
    MutexLock lock(f.provider->mutex);
    f.provider->plugins.clear();
  }
  f.Ask();
  f.clock->Advance(std::chrono::seconds(1));
  f.worker->Tick();
  CHECK(f.WaitReport([](const v1::WorkRequest& r) {
    return r.plugins_size() == 0 && r.memory_limit_bytes() == kAll;
  }));
}

TEST_CASE("a trace has each request to a plugin's process, within the build that waits for it",
          "[worker][plugin][trace]") {
  Fixture f;
  f.provider->plan->on_build = [&f] {
    const Time began = f.clock->Now();
    f.clock->Advance(std::chrono::milliseconds(1));
    f.provider->on_request("speech:Corpus", began, f.clock->Now());
    f.clock->Advance(std::chrono::milliseconds(1));
  };
  f.Serve();
  v1::WorkResponse ask;
  ask.add_plans()->set_fingerprint(f.fingerprint);
  ask.mutable_trace()->set_trace(1);
  ask.mutable_trace()->set_remaining_ns(60'000'000'000);
  f.Say(ask);
  auto [consumer, stream] = f.Consume();
  v1::WantList wants = Wants(f.fingerprint, 1);
  ToProto(SessionId({5, 9}), wants.mutable_session());
  stream->Write(wants);
  REQUIRE(test::NextFragment(*consumer));
  f.provider->on_request("speech:Corpus", f.clock->Now(), f.clock->Now());  // no builder asks
  std::vector<Span> requests;
  std::vector<Span> builds;
  std::string name;
  f.Say(ask);
  const auto report = f.WaitReport([&](const v1::WorkRequest& r) {
    const v1::Spans& spans = r.trace().spans();
    for (std::size_t row = 0; row < SpanCount(spans); ++row) {
      const Span span = SpanAt(spans, row);
      if (span.kind == SpanKind::kBuild) builds.push_back(span);
      if (span.kind != SpanKind::kPython) continue;
      requests.push_back(span);
      name = NameOf(spans, span);
    }
    return !builds.empty();
  });
  REQUIRE(report);
  REQUIRE(requests.size() == 1);
  CHECK(name == "python speech:Corpus");
  CHECK(requests[0].session == SessionId({5, 9}));
  CHECK(requests[0].lane == builds[0].lane);
  CHECK(requests[0].example == builds[0].example);
  CHECK(requests[0].begin >= builds[0].begin);
  CHECK(requests[0].end < builds[0].end);
}

TEST_CASE("a batch says whether processes of plugins took most of its time", "[worker][plugin]") {
  const auto is_mostly_python = [](std::vector<const char*> stages) {
    Fixture f;
    f.provider->plan->stages = std::move(stages);
    f.Serve();
    auto [consumer, stream] = f.Consume();
    stream->Write(Wants(f.fingerprint, 2));
    REQUIRE(test::NextFragment(*consumer));
    const auto fragment = test::NextFragment(*consumer);  // the times before it do not count
    REQUIRE(fragment);
    return fragment->message.mostly_python();
  };
  CHECK(is_mostly_python({"shuffle", "python", "python"}));
  CHECK(is_mostly_python({"python", "tensors: take", "tensors: python: mfcc"}));
  CHECK_FALSE(is_mostly_python({"python", "batch"}));
  CHECK_FALSE(is_mostly_python({"closure", "batch"}));
  CHECK_FALSE(is_mostly_python({}));
}

}  // namespace
}  // namespace millrace
