// Builders of one index that run side by side, are stopped, or are killed.
#include <catch2/catch.hpp>

#include <filesystem>
#include <stop_token>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "server/kinds/coq/index/index_format.h"
#include "server/kinds/coq/index/index_store.h"
#include "tests/unit/server/kinds/coq/index/index_store_fixture.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using test::Open;
using test::Opened;
using test::SampleFile;
using test::TempDir;
using test::WriteSamples;

TEST_CASE("an interrupted build leaves the old index whole and nothing else", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  REQUIRE(Open(dir.path()).index.ok());
  const std::vector<std::byte> old = test::ReadBytes(dir / kIndexFileName);
  test::WriteFixture(dir.path(), SampleFile("c.bin"));
  IndexOptions options;
  options.build.before_publish = [] { return Cancelled("interrupted"); };
  CHECK(Open(dir.path(), options).index.status().code() == StatusCode::kCancelled);
  CHECK(test::ReadBytes(dir / kIndexFileName) == old);
  CHECK_FALSE(fs::exists(dir / ".millrace.index.tmp"));
  CHECK(Open(dir.path()).outcome.built);
}

TEST_CASE("a builder that is killed leaves the old index, and the next one builds",
          "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  REQUIRE(Open(dir.path()).index.ok());
  const std::vector<std::byte> old = test::ReadBytes(dir / kIndexFileName);
  test::WriteFixture(dir.path(), SampleFile("c.bin"));
  const pid_t child = ::fork();
  if (child == 0) {
    IndexOptions options;
    options.build.threads = 1;
    options.build.before_publish = []() -> Status { ::_exit(9); };
    const auto ignored = OpenOrBuildIndex(dir.path(), options);
    ::_exit(ignored.ok() ? 1 : 2);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WEXITSTATUS(status) == 9);
  CHECK(test::ReadBytes(dir / kIndexFileName) == old);
  CHECK(fs::exists(dir / ".millrace.index.tmp"));
  const Opened after = Open(dir.path());
  REQUIRE(after.index.ok());
  CHECK(after.outcome.built);
  CHECK_FALSE(fs::exists(dir / ".millrace.index.tmp"));
}

TEST_CASE("of two builders one builds, and the other waits and says so", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  Opened waiting{.index = Internal("not opened"), .outcome = {}};
  std::jthread other;
  IndexOptions options;
  options.build.before_publish = [&] {
    // The index is not there yet. The other builder comes now, and has to wait for this one.
    other = std::jthread([&] {
      IndexOptions its_options;
      its_options.logger = waiting.logger;
      waiting.index = OpenOrBuildIndex(dir.path(), its_options, &waiting.outcome);
    });
    waiting.logger->WaitFor("waiting for another process");
    return OkStatus();
  };
  const Opened builder = Open(dir.path(), options);
  other.join();
  REQUIRE(builder.index.ok());
  CHECK(builder.outcome.built);
  REQUIRE(waiting.index.ok());
  CHECK_FALSE(waiting.outcome.built);
  CHECK_FALSE(waiting.logger->Has("building"));
}

TEST_CASE("a build that is stopped between files leaves the old index whole and nothing else",
          "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  REQUIRE(Open(dir.path()).index.ok());
  IndexOptions options;
  options.force = true;
  options.build.threads = 1;
  std::stop_source stop;
  options.build.stop = stop.get_token();
  int files = 0;
  options.build.progress = [&](const IndexProgress&) {
    ++files;
    stop.request_stop();
  };
  const Opened stopped = Open(dir.path(), options);
  REQUIRE_FALSE(stopped.index.ok());
  CHECK(stopped.index.status().code() == StatusCode::kCancelled);
  CHECK(files == 1);
  CHECK_FALSE(fs::exists(dir / ".millrace.index.tmp"));
  const Opened after = Open(dir.path());
  CHECK(after.index.ok());
  CHECK_FALSE(after.outcome.built);
}

TEST_CASE("who waits for another builder can be stopped", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  IndexOptions options;
  Status stopped_with;
  options.build.before_publish = [&] {
    Opened waiting{.index = Internal("not opened"), .outcome = {}};
    std::stop_source stop;
    std::jthread other([&] {
      IndexOptions its_options;
      its_options.logger = waiting.logger;
      its_options.build.stop = stop.get_token();
      waiting.index = OpenOrBuildIndex(dir.path(), its_options, &waiting.outcome);
    });
    waiting.logger->WaitFor("waiting for another process");
    stop.request_stop();
    other.join();
    stopped_with = waiting.index.status();
    return OkStatus();
  };
  CHECK(Open(dir.path(), options).index.ok());
  CHECK(stopped_with.code() == StatusCode::kCancelled);
}

TEST_CASE("many processes that open one dataset at once all get its index", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      IndexOptions options;
      options.build.threads = 1;
      const auto index = OpenOrBuildIndex(dir.path(), options);
      ::_exit(index.ok() && (*index)->files().size() == 2 ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
}

}  // namespace
}  // namespace millrace
