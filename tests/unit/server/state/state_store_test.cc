// The promises of every store, tested with each of them.

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <thread>

#include "tests/unit/server/state/job_record.h"
#include "tests/unit/server/state/store_backends.h"

namespace millrace::test {
namespace {

#ifndef MILLRACE_WITHOUT_GRPC
#define EVERY_STORE Memory, Sqlite, Etcd
#else
#define EVERY_STORE Memory, Sqlite
#endif

TEMPLATE_TEST_CASE("a new store has term 0 and no jobs", "[store]", EVERY_STORE) {
  TestType backend;
  const auto state = backend.store().Load();
  REQUIRE(state.ok());
  CHECK(state->term == 0);
  CHECK(state->jobs.empty());
}

TEMPLATE_TEST_CASE("a term is taken only when it is higher", "[store]", EVERY_STORE) {
  TestType backend;
  StateStore& store = backend.store();
  REQUIRE(store.CommitTerm(7).ok());
  CHECK(store.CommitTerm(7) == FailedPrecondition("term 7 is over: the store has term 7"));
  CHECK(store.CommitTerm(6).code() == StatusCode::kFailedPrecondition);
  CHECK(store.CommitTerm(9).ok());
  CHECK(store.Load()->term == 9);
}

TEMPLATE_TEST_CASE("a term may be any number of 63 bits", "[store]", EVERY_STORE) {
  TestType backend;
  const std::uint64_t highest = (std::uint64_t{1} << 63) - 1;
  REQUIRE(backend.store().CommitTerm(9).ok());
  REQUIRE(backend.store().CommitTerm(10).ok());  // newer by number, not by text
  REQUIRE(backend.store().CommitTerm(highest).ok());
  CHECK(backend.store().CommitTerm(highest - 1).code() == StatusCode::kFailedPrecondition);
  backend.Restart();
  CHECK(backend.store().Load()->term == highest);
}

TEMPLATE_TEST_CASE("a record is written under the store's own term only", "[store]", EVERY_STORE) {
  TestType backend;
  StateStore& store = backend.store();
  REQUIRE(store.CommitTerm(7).ok());
  REQUIRE(store.CommitJob(7, Record("a"), kNow).ok());
  CHECK(store.CommitJob(6, Record("b"), kNow) ==
        FailedPrecondition("term 6 may not write: the store has term 7"));
  CHECK(store.CommitJob(8, Record("b"), kNow).code() == StatusCode::kFailedPrecondition);
  REQUIRE(store.CommitTerm(8).ok());
  CHECK(store.CommitJob(7, Ended("a", kNow), kNow).code() == StatusCode::kFailedPrecondition);
  const auto state = store.Load();
  REQUIRE(state->jobs.size() == 1);
  CHECK(state->jobs[0].SerializeAsString() == Record("a").SerializeAsString());
}

TEMPLATE_TEST_CASE("a job's later record replaces the earlier one", "[store]", EVERY_STORE) {
  TestType backend;
  StateStore& store = backend.store();
  REQUIRE(store.CommitTerm(1).ok());
  REQUIRE(store.CommitJob(1, Record("a"), kNow).ok());
  REQUIRE(store.CommitJob(1, Ended("a", kNow), kNow).ok());
  REQUIRE(store.Load()->jobs.size() == 1);
  CHECK(store.Load()->jobs[0].ended());
  REQUIRE(store.CommitJob(1, Record("a"), kNow).ok());
  CHECK_FALSE(store.Load()->jobs[0].ended());
}

TEMPLATE_TEST_CASE("ended records of more than seven days go, live ones stay", "[store]",
                   EVERY_STORE) {
  TestType backend;
  StateStore& store = backend.store();
  REQUIRE(store.CommitTerm(1).ok());
  REQUIRE(store.CommitJob(1, Ended("old", kNow - 8 * 86400), kNow - 8 * 86400).ok());
  REQUIRE(store.CommitJob(1, Ended("recent", kNow - 6 * 86400), kNow - 6 * 86400).ok());
  backend.Restart();
  REQUIRE(backend.store().CommitJob(1, Record("live"), kNow).ok());
  const auto state = backend.store().Load();
  REQUIRE(state->jobs.size() == 2);
  CHECK(state->jobs[0].name() == "live");
  CHECK(state->jobs[1].name() == "recent");
}

TEMPLATE_TEST_CASE("only the newest thousand ended records are kept", "[store]", EVERY_STORE) {
  TestType backend;
  StateStore& store = backend.store();
  REQUIRE(store.CommitTerm(1).ok());
  REQUIRE(store.CommitJob(1, Record("live"), kNow).ok());
  for (int i = 0; i < 1005; ++i) {
    REQUIRE(store.CommitJob(1, Ended("job" + std::to_string(i), kNow + i), kNow).ok());
  }
  const auto state = store.Load();
  CHECK(state->jobs.size() == 1001);
  for (const auto& record : state->jobs) {
    CHECK((!record.ended() || record.ended_unix_seconds() >= kNow + 5));
  }
}

TEMPLATE_TEST_CASE("what was committed is there after a restart, byte by byte and by name",
                   "[store]", EVERY_STORE) {
  TestType backend;
  const std::vector<v1::JobRecord> records = {Record("/"),           Record("Zoë/42 %00"),
                                              Record("a"),           Record("a/b"),
                                              Record("big", 65'536), Record(std::string(200, 'z'))};
  REQUIRE(backend.store().CommitTerm(5).ok());
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    REQUIRE(backend.store().CommitJob(5, *record, kNow).ok());
  }
  for (int restarts = 0; restarts < 2; ++restarts) {
    backend.Restart();
    const auto state = backend.store().Load();
    REQUIRE(state.ok());
    CHECK(state->term == 5);
    REQUIRE(state->jobs.size() == records.size());
    for (std::size_t i = 0; i < records.size(); ++i) {
      CHECK(state->jobs[i].SerializeAsString() == records[i].SerializeAsString());
    }
  }
  CHECK(backend.store().CommitJob(5, Record("later"), kNow).ok());
}

TEMPLATE_TEST_CASE("a store that fails acknowledges nothing and changes nothing, and goes on after",
                   "[store]", EVERY_STORE) {
  TestType backend;
  REQUIRE(backend.store().CommitTerm(1).ok());
  REQUIRE(backend.store().CommitJob(1, Record("before"), kNow).ok());
  backend.Break();
  for (int tries = 0; tries < 2; ++tries) {
    const Status term = backend.store().CommitTerm(2);
    const Status job = backend.store().CommitJob(1, Record("during", 20'000), kNow);
    for (const Status& status : {term, job}) {
      INFO(status.ToString());
      CHECK((status.code() == StatusCode::kUnavailable ||
             status.code() == StatusCode::kResourceExhausted));
      CHECK(status.message().find('\n') == std::string::npos);
    }
  }
  backend.Mend();
  const auto state = backend.store().Load();
  REQUIRE(state.ok());
  CHECK(state->term == 1);
  REQUIRE(state->jobs.size() == 1);
  CHECK(state->jobs[0].name() == "before");
  CHECK(backend.store().CommitJob(1, Record("after"), kNow).ok());
  CHECK(backend.store().CommitTerm(2).ok());
  backend.Restart();
  CHECK(backend.store().Load()->term == 2);
  CHECK(backend.store().Load()->jobs.size() == 2);
}

TEMPLATE_TEST_CASE("several threads may write", "[store]", EVERY_STORE) {
  TestType backend;
  REQUIRE(backend.store().CommitTerm(1).ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&backend, t] {
      for (int i = 0; i < 10; ++i) {
        (void)backend.store().CommitJob(1, Record(std::to_string(t * 10 + i)), kNow);
        (void)backend.store().Load();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(backend.store().Load()->jobs.size() == 40);
}

TEMPLATE_TEST_CASE("a thousand running jobs are recovered in no time", "[store]", EVERY_STORE) {
  TestType backend;
  REQUIRE(backend.store().CommitTerm(1).ok());
  for (int i = 0; i < 1000; ++i) {
    REQUIRE(backend.store().CommitJob(1, Record("job" + std::to_string(i), 1'000), kNow).ok());
  }
  const std::clock_t begin = std::clock();
  backend.Restart();
  const auto state = backend.store().Load();
  REQUIRE(state.ok());
  REQUIRE(backend.store().CommitTerm(2).ok());
  const double took = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  std::printf("recovered %zu jobs in %.0f ms of CPU time\n", state->jobs.size(), took * 1e3);
  CHECK(state->jobs.size() == 1000);
  CHECK(took < 5);
}

}  // namespace
}  // namespace millrace::test
