// Plugins that fail: what the daemon says, and that nothing hangs.
#include <signal.h>

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "tests/support/fake_clock.h"
#include "tests/support/plugin_fixture.h"

namespace millrace {
namespace {

using test::MakeTensor;
using test::PluginFixture;
using test::RowText;

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

/// A source of numbers, of which example 5 runs `body` first.
std::string SourceThat(std::string_view body, std::string_view spec = R"({"n": "int64"})") {
  return fmt::format(R"(
import ctypes, os, signal, subprocess, sys, threading, time
__all__ = ["Source"]

class Source:
    def __len__(self): return 1000
    def spec(self): return {}
    def __getitem__(self, i):
        if i == 5:
            return self.five(i)
        return {{"n": i}}
    def five(self, i):
        {}
        return {{"n": i}}
)",
                     spec, body);
}

/// Builds examples 4, 5 and 6: the others are built whatever 5 does.
PluginReply BuildAroundFive(PluginPool& pool) {
  auto reply = pool.Build({{4, 5, 6}});
  REQUIRE(reply.ok());
  CHECK(reply->outcome(0) == RowOutcome::kDone);
  CHECK(reply->outcome(2) == RowOutcome::kDone);
  CHECK(RowText(*reply, pool.facts().tensors, 0, 2) == "6");
  return *std::move(reply);
}

/// Without the lines in which newer versions of Python mark a part of the line above.
std::string WithoutMarks(std::string_view traceback) {
  std::string text;
  while (!traceback.empty()) {
    const std::string_view line = traceback.substr(0, traceback.find('\n'));
    traceback.remove_prefix(std::min(traceback.size(), line.size() + 1));
    if (line.find_first_not_of(" ^~") == std::string_view::npos) continue;
    text += line;
    if (!traceback.empty()) text += '\n';
  }
  return text;
}

TEST_CASE("an exception is told with the plugin's own traceback", "[plugin]") {
  PluginFixture fixture(SourceThat("raise ValueError('bad length')"));
  const auto pool = fixture.Start();
  const PluginReply reply = BuildAroundFive(*pool);
  REQUIRE(reply.outcome(1) == RowOutcome::kFailed);
  const PluginFailure& failure = reply.failure(1);
  CHECK(failure.kind == FailureKind::kException);
  CHECK(failure.tries == 2);
  const std::string file = (fixture.folder() / "plugin.py").string();
  CHECK(WithoutMarks(DescribeFailure(failure, "plugin:Source", 5)) ==
        "plugin:Source, example 5: ValueError: bad length\n"
        "Traceback (most recent call last):\n"
        "  File \"" +
            file +
            "\", line 10, in __getitem__\n"
            "    return self.five(i)\n"
            "  File \"" +
            file +
            "\", line 13, in five\n"
            "    raise ValueError('bad length')\n"
            "ValueError: bad length");
}

TEST_CASE("an exception is tried again in another process", "[plugin]") {
  PluginFixture fixture(SourceThat(R"(
        path = os.path.join(os.environ["STATE"], "tried")
        if not os.path.exists(path):
            open(path, "w").close()
            raise RuntimeError("once")
        n = os.getpid()
        return {"n": n})"));
  fixture.options().plugin.env["STATE"] = fixture.copies().parent_path().string();
  const auto pool = fixture.Start();
  const std::string first = std::to_string(pool->Stats()[0].process);
  const PluginReply reply = BuildAroundFive(*pool);
  REQUIRE(reply.outcome(1) == RowOutcome::kDone);
  CHECK(RowText(reply, pool->facts().tensors, 0, 1) != first);
  CHECK(pool->Stats()[0].restarts == 1);
  CHECK(pool->Stats()[0].failed == 1);
}

TEST_CASE("exceptions that `drop` names drop their example", "[plugin]") {
  PluginFixture fixture(SourceThat("raise ValueError('too short')"));
  const std::string name = GENERATE("ValueError", "builtins.ValueError", "Exception");
  fixture.options().object.drop = {"KeyError", name};
  const auto pool = fixture.Start();
  const pid_t process = pool->Stats()[0].process;
  const PluginReply reply = BuildAroundFive(*pool);
  CHECK(reply.outcome(1) == RowOutcome::kDropped);
  CHECK(reply.dropped() == 1);
  CHECK(pool->Stats()[0].process == process);
  CHECK(pool->Stats()[0].dropped == 1);
}

TEST_CASE("exceptions that `drop` does not name fail", "[plugin]") {
  PluginFixture fixture(SourceThat("raise ValueError('too short')"));
  fixture.options().object.drop = {"KeyError", "Value"};
  CHECK(BuildAroundFive(*fixture.Start()).failed() == 1);
}

TEST_CASE("sys.exit fails its example", "[plugin]") {
  PluginFixture fixture(SourceThat("sys.exit(3)"));
  const PluginReply reply = BuildAroundFive(*fixture.Start());
  REQUIRE(reply.failed() == 1);
  CHECK(FailureLine(reply.failure(1)) == "SystemExit: 3");
}

TEST_CASE("an interrupt that the plugin raises fails its example", "[plugin]") {
  PluginFixture fixture(SourceThat("raise KeyboardInterrupt"));
  const PluginReply reply = BuildAroundFive(*fixture.Start());
  REQUIRE(reply.failed() == 1);
  CHECK(FailureLine(reply.failure(1)) == "KeyboardInterrupt");
}

TEST_CASE("a process that ends is told with its exit code and last words", "[plugin]") {
  PluginFixture fixture(SourceThat("print('last words'); os._exit(7)"));
  const auto pool = fixture.Start();
  const PluginReply reply = BuildAroundFive(*pool);
  REQUIRE(reply.failed() == 1);
  CHECK(reply.failure(1).kind == FailureKind::kDeath);
  CHECK(reply.failure(1).message == "the process ended with exit code 7");
  CHECK(reply.failure(1).last_output == "last words");
  CHECK(pool->Stats()[0].restarts == 1);
}

TEST_CASE("a crash is told with its signal and where it was", "[plugin]") {
  PluginFixture fixture(SourceThat("ctypes.string_at(0)"));
  const PluginReply reply = BuildAroundFive(*fixture.Start());
  REQUIRE(reply.failed() == 1);
  CHECK(reply.failure(1).message == "the process ended by signal 11 (Segmentation fault)");
  CHECK_THAT(reply.failure(1).last_output, Contains("Fatal Python error: Segmentation fault"));
  CHECK_THAT(reply.failure(1).last_output, Contains("in five"));
}

/// Lets time pass while a process runs that has printed "waits PID", one after another.
void PassTime(const PluginFixture& fixture, FakeClock& clock, const std::stop_token& stop) {
  for (std::size_t seen = 0; !stop.stop_requested();) {
    const std::vector<std::string> lines = fixture.Lines();
    if (seen == lines.size()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } else if (const std::string& line = lines[seen++]; line.starts_with("waits ")) {
      test::PassTimeUntilGone(clock, std::stoi(line.substr(6)));
    }
  }
}

TEST_CASE("an example that takes too long by the clock fails and shows where it hung", "[plugin]") {
  const auto [name, body] = GENERATE(table<std::string, std::string>({
      {"without the lock of the interpreter", "time.sleep(1e6)"},
      {"with the lock of the interpreter", "import re; re.match('(a+)+b', 'a' * 60)"},
      {"while it ignores signals",
       "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGABRT]); time.sleep(1e6)"},
  }));
  INFO(name);
  PluginFixture fixture(SourceThat("print('waits', os.getpid(), flush=True); " + body));
  const auto clock = std::make_shared<FakeClock>();
  fixture.options().clock = clock;
  const auto pool = fixture.Start();
  std::jthread passes([&](const std::stop_token& stop) { PassTime(fixture, *clock, stop); });
  const PluginReply reply = BuildAroundFive(*pool);
  REQUIRE(reply.failed() == 1);
  CHECK(reply.failure(1).kind == FailureKind::kTimeout);
  CHECK(reply.failure(1).message == "it takes more than 60 s (timeout)");
  if (name != "while it ignores signals") {
    CHECK_THAT(reply.failure(1).last_output, Contains("in five"));
  }
}

TEST_CASE("too much memory fails its example", "[plugin]") {
  PluginFixture fixture(SourceThat("x = np.ones(400 << 20, np.uint8); time.sleep(1e6)"));
  fixture.options().plugin.memory = std::uint64_t{200} << 20;
  const PluginReply reply = BuildAroundFive(*fixture.Start());
  REQUIRE(reply.failed() == 1);
  CHECK(reply.failure(1).kind == FailureKind::kMemory);
  CHECK_THAT(reply.failure(1).message, StartsWith("the process has "));
  CHECK_THAT(reply.failure(1).message, Contains(" bytes of memory, of at most 209715200"));
}

TEST_CASE("a process that leaks is replaced, and no example fails", "[plugin]") {
  PluginFixture fixture(SourceThat("global kept; kept = np.ones(400 << 20, np.uint8)"));
  fixture.options().plugin.memory = std::uint64_t{200} << 20;
  const auto pool = fixture.Start();
  auto reply = pool->Build({{5}});
  REQUIRE(reply.ok());
  if (reply->failed() > 0) SUCCEED("it was seen while it was built");
  reply = Cancelled("");
  reply = pool->Build({{6}});
  REQUIRE(reply.ok());
  CHECK(reply->failed() == 0);
  CHECK(pool->Stats()[0].restarts >= 1);
}

TEST_CASE("values that are not as declared fail with both types", "[plugin]") {
  const auto [body, expected] = GENERATE(table<std::string, std::string>({
      {"return {'n': np.zeros((3, 80))}", "a dict without 'x'"},
      {"return {'x': 1, 'n': 1, 'm': 2, 'k': 3}", "a dict with 'm', 'k', which is not declared"},
      {"return {'x': 1, 'm': 2}", "a dict without 'n' and with 'm', which is not declared"},
      {"return [1]", "a list in place of a dict of tensors"},
      {"return None", "a NoneType in place of a dict of tensors"},
      {"return {'n': 1, 'x': np.zeros((3, 80))}",
       "tensor \"x\": float64[3, 80], expected float32[*, 80]"},
      {"return {'n': 1, 'x': np.zeros((3, 81), np.float32)}",
       "tensor \"x\": float32[3, 81], expected float32[*, 80]"},
      {"return {'n': 1, 'x': np.zeros(80, np.float32)}",
       "tensor \"x\": float32[80], expected float32[*, 80]"},
      {"return {'n': 1, 'x': np.zeros((3, 80), '>f4')}",
       "tensor \"x\": >f4[3, 80], expected float32[*, 80]"},
      {"return {'n': 1, 'x': {'a': 1}}",
       "tensor \"x\": a dict is no array, expected float32[*, 80]"},
      {"return {'n': 1, 'x': np.ma.zeros((3, 80))}",
       "tensor \"x\": a masked array, expected float32[*, 80]"},
      {"return {'n': 1, 'x': [[1], [1, 2]]}",
       "tensor \"x\": a list that is no array of numbers, expected float32[*, 80]"},
      {"return {'n': 1, 'x': 'text'}", "tensor \"x\": a str, expected float32[*, 80]"},
      {"return {'n': 1 << 63, 'x': []}",
       "tensor \"n\": 9223372036854775808 is out of range, expected int64"},
      {"return {'n': 1.0, 'x': []}", "tensor \"n\": a float: float64, expected int64"},
      {"return {'n': True, 'x': []}", "tensor \"n\": a bool: bool, expected int64"},
      {"return {'n': np.int32(1), 'x': []}", "tensor \"n\": a int32: int32, expected int64"},
      {"return {'n': [1], 'x': []}", "tensor \"n\": a list: int64[1], expected int64"},
      {"return {'n': 1, 'x': [[0.1] * 80]}",
       "tensor \"x\": 0.1 is not exact in this type; give an array of it, expected float32[*, 80]"},
  }));
  INFO(body);
  PluginFixture fixture(fmt::format(R"(
      __all__ = ["Source"]

      class Source:
          def __len__(self): return 10
          def spec(self): return {{"n": "int64", "x": "float32[*, 80]"}}
          def __getitem__(self, i):
              if i == 5:
                  {}
              return {{"n": i, "x": [[i] * 80]}}
  )",
                                    body));
  const PluginReply reply = BuildAroundFive(*fixture.Start());
  REQUIRE(reply.failed() == 1);
  CHECK(reply.failure(1).kind == FailureKind::kValue);
  CHECK(FailureLine(reply.failure(1)) == expected);
}

TEST_CASE("a fork of the plugin that comes back does no harm", "[plugin]") {
  const std::string body = GENERATE("os.fork()", "os.fork() or time.sleep(0.2)",
                                    "\n        if os.fork() == 0: raise ValueError('in the copy')");
  PluginFixture fixture(SourceThat(body));
  const auto pool = fixture.Start();
  for (int turn = 0; turn < 3; ++turn) {
    const PluginReply reply = BuildAroundFive(*pool);
    CHECK(reply.failed() == 0);
  }
  CHECK(pool->Stats()[0].restarts == 0);
}

TEST_CASE("processes of the plugin's own work, and end with it", "[plugin]") {
  PluginFixture fixture(SourceThat(R"(
        import multiprocessing
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(abs, [-1, -2]) == [1, 2]
        global sleeper
        sleeper = subprocess.Popen(["sleep", "1000"])
        print("sleeper", sleeper.pid, flush=True)
        stuck = os.fork()
        if stuck == 0:
            print("stuck", os.getpid(), flush=True)
            time.sleep(1000))"));
  auto pool = fixture.Start();
  BuildAroundFive(*pool);
  fixture.WaitForLine("sleeper ");
  fixture.WaitForLine("stuck ");
  std::vector<pid_t> processes;
  for (const std::string& line : fixture.Lines()) {
    if (line.starts_with("sleeper ")) processes.push_back(std::stoi(line.substr(8)));
    if (line.starts_with("stuck ")) processes.push_back(std::stoi(line.substr(6)));
  }
  REQUIRE(processes.size() == 2);
  for (const pid_t process : processes) CHECK(test::IsRunning(process));
  pool.reset();
  for (const pid_t process : processes) CHECK(test::WaitUntilGone(process));
}

TEST_CASE("threads of the plugin that never end hold up nothing", "[plugin]") {
  PluginFixture fixture(SourceThat("threading.Thread(target=lambda: time.sleep(1e6)).start()"));
  auto pool = fixture.Start();
  BuildAroundFive(*pool);
  CHECK(BuildAroundFive(*pool).failed() == 0);
  const pid_t process = pool->Stats()[0].process;
  pool.reset();
  CHECK(test::WaitUntilGone(process));
}

TEST_CASE("print without end fills no memory and holds up nothing", "[plugin]") {
  PluginFixture fixture(SourceThat(R"(
        def forever():
            while True: print("x" * 3000)
        threading.Thread(target=forever, daemon=True).start())"));
  const auto pool = fixture.Start();
  CHECK(BuildAroundFive(*pool).failed() == 0);
  fixture.WaitForLine("were left out]");
  CHECK(pool->Build({{7}}).ok());
  const std::vector<std::string> lines = fixture.Lines();
  CHECK(lines[0].size() < 1100);
  CHECK_THAT(lines[0], Contains(" … (2000 bytes more)"));
}

TEST_CASE("a plugin that closes every file is replaced", "[plugin]") {
  PluginFixture fixture(SourceThat("os.closerange(0, 1000)"));
  const auto pool = fixture.Start();
  CHECK(BuildAroundFive(*pool).failed() == 0);  // the rows lie in memory that is still mapped
  CHECK(BuildAroundFive(*pool).failed() == 0);
  CHECK(pool->Stats()[0].restarts == 1);
}

TEST_CASE("a batch in which every example ends its process ends itself", "[plugin]") {
  PluginFixture fixture(R"(
      import os
      __all__ = ["Source"]

      class Source:
          def __len__(self): return 1000
          def spec(self): return {"n": "int64"}
          def __getitem__(self, i): os._exit(1)
  )");
  const auto pool = fixture.Start();
  PluginRequest request;
  for (std::uint64_t id = 0; id < 100; ++id) request.ids.push_back(id);
  const auto reply = pool->Build(request);
  REQUIRE(reply.ok());
  CHECK(reply->failed() == 100);
  CHECK(reply->failure(99).kind == FailureKind::kNotTried);
}

}  // namespace
}  // namespace millrace
