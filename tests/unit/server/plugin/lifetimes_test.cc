// Processes of plugins that are killed, requests that are stopped, and the end of a pool.
#include <signal.h>

#include <catch2/catch.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "tests/support/fake_clock.h"
#include "tests/support/plugin_fixture.h"

namespace millrace {
namespace {

using test::PluginFixture;
using test::RowText;

/// A source of numbers, of which example 5 runs `body` first. It has wait(), which returns when
/// there is the file that MayGoOn makes.
std::string SourceWhoseFive(std::string_view body) {
  return fmt::format(R"(
import os, time
__all__ = ["Source"]

def wait():
    print("begins", flush=True)
    while not os.path.exists(os.environ["MAY_GO_ON"]): time.sleep(0.01)

class Source:
    def __len__(self): return 1000
    def spec(self): return {{"n": "int64"}}
    def __getitem__(self, i):
        if i == 5: {}
        return {{"n": i}}
)",
                     body);
}

/// Where the file is looked for. To be called before Start.
std::filesystem::path MayGoOn(PluginFixture& fixture) {
  const std::filesystem::path file = fixture.folder().parent_path() / "may go on";
  fixture.options().plugin.env["MAY_GO_ON"] = file.string();
  return file;
}

bool BuildsAroundFive(PluginPool& pool) {
  const auto reply = pool.Build({{4, 5, 6}});
  return reply.ok() && reply->failed() == 0 && RowText(*reply, pool.facts().tensors, 0, 1) == "5";
}

TEST_CASE("no example is blamed if the fork server is killed", "[plugin]") {
  PluginFixture fixture(SourceWhoseFive("wait()"));
  const std::filesystem::path go = MayGoOn(fixture);
  const auto pool = fixture.Start();
  const pid_t fork_server = pool->fork_server_process();
  std::jthread kills([&] {
    fixture.WaitForLine("begins");
    ::kill(fork_server, SIGKILL);
    test::WaitUntilGone(fork_server);
    const std::ofstream file(go);
  });
  CHECK(BuildsAroundFive(*pool));
  CHECK(pool->fork_server_process() != fork_server);
  CHECK(pool->Stats()[0].failed == 0);
}

TEST_CASE("a fork server is not asked for processes that the one before it forked", "[plugin]") {
  PluginFixture fixture(SourceWhoseFive("pass"));
  fixture.options().plugin.processes = 2;
  const auto pool = fixture.Start();
  const auto build_with_both = [&pool] {
    const auto first = pool->Build({{1}});
    const auto second = pool->Build({{2}});
    return first.ok() && second.ok();
  };
  REQUIRE(build_with_both());
  ::kill(pool->fork_server_process(), SIGKILL);
  for (const auto& stats : pool->Stats()) REQUIRE(test::WaitUntilGone(stats.process));
  REQUIRE(pool->Build({{1}}).ok());
  const pid_t fork_server = pool->fork_server_process();
  CHECK(build_with_both());
  CHECK(pool->fork_server_process() == fork_server);
  for (const auto& stats : pool->Stats()) CHECK(stats.restarts == 1);
}

TEST_CASE("processes end where fewer may run, and those at work end after it", "[plugin]") {
  PluginFixture fixture(SourceWhoseFive("pass"));
  fixture.options().plugin.processes = 3;
  const auto pool = fixture.Start();
  std::vector<PluginReply> replies;  // each keeps its process
  for (std::uint64_t i = 0; i < 3; ++i) {
    auto reply = pool->Build({{i}});
    REQUIRE(reply.ok());
    replies.push_back(*std::move(reply));
  }
  const auto before = pool->Stats();
  pool->SetMostProcesses(2);
  CHECK(pool->Stats()[2].process == before[2].process);
  replies.pop_back();
  CHECK(pool->Stats()[2].process == 0);
  CHECK(test::WaitUntilGone(before[2].process));
  replies.clear();
  CHECK(pool->Stats()[1].process == before[1].process);
  pool->SetMostProcesses(0);  // one is the least
  CHECK(pool->Stats()[1].process == 0);
  CHECK(test::WaitUntilGone(before[1].process));
  CHECK(pool->Build({{1}}).ok());
  CHECK(pool->Stats()[0].process == before[0].process);
  // A process that comes back in the place of one that was not needed is no restart.
  pool->SetMostProcesses(100);
  const auto first = pool->Build({{1}});
  const auto second = pool->Build({{2}});
  CHECK(pool->Stats()[1].process != 0);
  for (const auto& stats : pool->Stats()) CHECK(stats.restarts == 0);
}

TEST_CASE("a process that is killed while it has nothing to do is replaced", "[plugin]") {
  PluginFixture fixture(SourceWhoseFive("pass"));
  const auto pool = fixture.Start();
  const pid_t process = pool->Stats()[0].process;
  ::kill(process, SIGKILL);
  REQUIRE(test::WaitUntilGone(process));
  CHECK(BuildsAroundFive(*pool));
  CHECK(pool->Stats()[0].restarts == 1);
}

TEST_CASE("a request that is stopped returns, and its process serves the next one", "[plugin]") {
  PluginFixture fixture(SourceWhoseFive("wait()"));
  const std::filesystem::path go = MayGoOn(fixture);
  const auto pool = fixture.Start();
  const pid_t process = pool->Stats()[0].process;
  std::stop_source stop;
  std::jthread stops([&] {
    fixture.WaitForLine("begins");
    stop.request_stop();
  });
  CHECK(pool->Build({{5}}, stop.get_token()).status().code() == StatusCode::kCancelled);
  const std::ofstream file(go);
  const auto reply = pool->Build({{8}});
  REQUIRE(reply.ok());
  CHECK(RowText(*reply, pool->facts().tensors, 0, 0) == "8");
  CHECK(pool->Stats()[0].process == process);
}

TEST_CASE("a request that is stopped and then hangs is ended", "[plugin]") {
  PluginFixture fixture(SourceWhoseFive("print('begins', flush=True); time.sleep(1e6)"));
  const auto clock = std::make_shared<FakeClock>();
  fixture.options().clock = clock;
  const auto pool = fixture.Start();
  const pid_t hangs = pool->Stats()[0].process;
  std::stop_source stop;
  std::jthread stops([&] {
    fixture.WaitForLine("begins");
    stop.request_stop();
  });
  CHECK(pool->Build({{5}}, stop.get_token()).status().code() == StatusCode::kCancelled);
  const std::jthread passes([&] { test::PassTimeUntilGone(*clock, hangs); });
  const auto reply = pool->Build({{8}});
  REQUIRE(reply.ok());
  CHECK(RowText(*reply, pool->facts().tensors, 0, 0) == "8");
  CHECK(reply->failed() == 0);
}

TEST_CASE("a question after a request that was stopped and hangs gets its own answer", "[plugin]") {
  PluginFixture fixture(R"(
      import time
      __all__ = ["Source"]

      class Source:
          def __len__(self): return 10
          def spec(self): return {"n": "int64"}
          def columns(self): return {"m": list(range(10, 20))}
          def version(self, i): return "v%d" % i
          def __getitem__(self, i):
              print("begins", flush=True)
              time.sleep(1e6)
              return {"n": i}
  )");
  const auto clock = std::make_shared<FakeClock>();
  fixture.options().clock = clock;
  const auto pool = fixture.Start();
  const pid_t hangs = pool->Stats()[0].process;
  std::stop_source stop;
  std::jthread stops([&] {
    fixture.WaitForLine("begins");
    stop.request_stop();
  });
  CHECK(pool->Build({{5}}, stop.get_token()).status().code() == StatusCode::kCancelled);
  const std::jthread passes([&] { test::PassTimeUntilGone(*clock, hangs); });
  const std::vector<std::uint64_t> ids = {7, 8};
  const bool versions = GENERATE(true, false);
  if (versions) {
    const auto said = pool->Versions(ids);
    INFO(said.status().message());
    REQUIRE(said.ok());
    CHECK(*said == std::vector<std::string>{"v7", "v8"});
  }
  const auto column = pool->Column("m");
  INFO(column.status().message());
  REQUIRE(column.ok());
  CHECK((*column)->integers[9] == 19);
}

TEST_CASE("rows that one process built stay as they are while another one begins and builds",
          "[plugin]") {
  PluginFixture fixture(R"(
      import os
      __all__ = ["Source"]

      class Source:
          def __len__(self): return 9
          def spec(self): return {"n": "int64", "x": "int64[*]"}
          def columns(self): return {"m": [-1] * 9}
          def __getitem__(self, i):
              if i in (3, 6): os._exit(1)
              return {"n": i, "x": [i] * 100}
  )");
  const auto pool = fixture.Start();
  const auto reply = pool->Build({{0, 1, 2, 3, 4, 5, 6, 7, 8}});
  REQUIRE(reply.ok());
  CHECK(reply->failed() == 2);
  CHECK(pool->Stats()[0].restarts >= 2);
  const auto& tensors = pool->facts().tensors;
  for (const std::size_t row : {0, 1, 2, 4, 5, 7, 8}) {
    CHECK(RowText(*reply, tensors, 0, row) == std::to_string(row));
    CHECK(reply->extent(1, row) == 100);
  }
}

TEST_CASE("no process is left when the pool ends", "[plugin]") {
  PluginFixture fixture(SourceWhoseFive("time.sleep(1e6)"));
  fixture.options().plugin.processes = 2;
  auto pool = fixture.Start();
  auto first = pool->Build({{1}});
  auto second = pool->Build({{1}});
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  std::vector<pid_t> processes{pool->fork_server_process()};
  for (const auto& stats : pool->Stats()) processes.push_back(stats.process);
  CHECK(std::set<pid_t>(processes.begin(), processes.end()).size() == 3);
  pool.reset();
  // A reply keeps the pool until it is dropped.
  CHECK(test::IsRunning(processes[0]));
  first = Cancelled("");
  second = Cancelled("");
  for (const pid_t process : processes) {
    CHECK(::kill(process, 0) != 0);  // not even a zombie
  }
}

}  // namespace
}  // namespace millrace
