// What every store promises, run over each of them.

#include <catch2/catch.hpp>

#include "server/state/memory_store.h"
#include "server/state/sqlite_store.h"
#include "tests/unit/server/state/temporary_folder.h"

namespace millrace {
namespace {

constexpr std::int64_t kNow = 1'800'000'000;

v1::JobRecord Record(const std::string& name, bool ended = false, std::int64_t when = kNow) {
  v1::JobRecord record;
  record.set_name(name);
  record.set_fingerprint("f");
  record.set_world_size(4);
  record.mutable_pipeline()->set_yaml("millrace: 1\n");
  record.set_ended(ended);
  if (ended) record.set_ended_unix_seconds(when);
  return record;
}

struct Fixture {
  test::TemporaryFolder folder;
  std::unique_ptr<StateStore> store;

  explicit Fixture(bool sqlite) {
    if (sqlite) {
      auto opened = SqliteStore::Open(folder.path());
      REQUIRE(opened.ok());
      store = std::move(opened).value();
    } else {
      store = std::make_unique<MemoryStore>();
    }
  }
};

TEST_CASE("a new store has term 0 and no jobs", "[store]") {
  Fixture f(GENERATE(false, true));
  const auto state = f.store->Load();
  REQUIRE(state.ok());
  CHECK(state->term == 0);
  CHECK(state->jobs.empty());
}

TEST_CASE("a term is taken only when it is higher", "[store]") {
  Fixture f(GENERATE(false, true));
  REQUIRE(f.store->CommitTerm(7).ok());
  CHECK(f.store->CommitTerm(7) == FailedPrecondition("term 7 is over: the store has term 7"));
  CHECK(f.store->CommitTerm(6).code() == StatusCode::kFailedPrecondition);
  CHECK(f.store->CommitTerm(9).ok());
  CHECK(f.store->Load()->term == 9);
}

TEST_CASE("a record is written under the store's own term only", "[store]") {
  Fixture f(GENERATE(false, true));
  REQUIRE(f.store->CommitTerm(7).ok());
  REQUIRE(f.store->CommitJob(7, Record("a"), kNow).ok());
  for (const std::uint64_t term : {6, 8}) {
    CHECK(f.store->CommitJob(term, Record("b"), kNow).code() == StatusCode::kFailedPrecondition);
  }
  const auto state = f.store->Load();
  REQUIRE(state->jobs.size() == 1);
  CHECK(state->jobs[0].name() == "a");
  CHECK(state->jobs[0].world_size() == 4);
}

TEST_CASE("a job's later record replaces the earlier one", "[store]") {
  Fixture f(GENERATE(false, true));
  REQUIRE(f.store->CommitTerm(1).ok());
  REQUIRE(f.store->CommitJob(1, Record("a"), kNow).ok());
  REQUIRE(f.store->CommitJob(1, Record("a", true), kNow).ok());
  REQUIRE(f.store->Load()->jobs.size() == 1);
  CHECK(f.store->Load()->jobs[0].ended());
}

TEST_CASE("ended records of more than seven days go, live ones stay", "[store]") {
  Fixture f(GENERATE(false, true));
  REQUIRE(f.store->CommitTerm(1).ok());
  REQUIRE(f.store->CommitJob(1, Record("old", true, kNow - 8 * 86400), kNow - 8 * 86400).ok());
  REQUIRE(f.store->CommitJob(1, Record("recent", true, kNow - 6 * 86400), kNow - 6 * 86400).ok());
  REQUIRE(f.store->CommitJob(1, Record("live"), kNow).ok());
  const auto state = f.store->Load();
  REQUIRE(state->jobs.size() == 2);
  CHECK(state->jobs[0].name() == "live");
  CHECK(state->jobs[1].name() == "recent");
}

TEST_CASE("only the newest thousand ended records are kept", "[store]") {
  Fixture f(GENERATE(false, true));
  REQUIRE(f.store->CommitTerm(1).ok());
  for (int i = 0; i < 1005; ++i) {
    REQUIRE(f.store->CommitJob(1, Record("job" + std::to_string(i), true, kNow + i), kNow).ok());
  }
  const auto state = f.store->Load();
  CHECK(state->jobs.size() == 1000);
  for (const auto& record : state->jobs) CHECK(record.ended_unix_seconds() >= kNow + 5);
}

}  // namespace
}  // namespace millrace
