// Plugins that cannot be started, and what the daemon says then.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/support/plugin_fixture.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

using test::MakeTensor;
using test::PluginFixture;

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

constexpr std::string_view kGood = R"(
    import os
    __all__ = ["Source", "function"]

    class Source:
        def __init__(self, **args): pass
        def __len__(self): return 10
        def spec(self): return {"n": "int64"}
        def __getitem__(self, i): return {"n": i}

    def function(n):
        return n
)";

/// A program that stands for python.
void WriteProgram(const fs::path& path, std::string_view text) {
  std::ofstream(path) << text;
  fs::permissions(path, fs::perms::owner_all);
}

TEST_CASE("what is wrong with a module is said to its author", "[plugin]") {
  const auto [module, expected] = GENERATE(table<std::string, std::string>({
      {"class Source: pass",
       "the module has no __all__, the list of names that pipelines may use; expected 'Source' in "
       "it"},
      {"__all__ = ['Other', 'More']", "'Source' is not in __all__, which has 'Other', 'More'"},
      {"__all__ = ['Source']", "'Source' is in __all__, but the module does not define it"},
      {"from collections import OrderedDict as Source\n__all__ = ['Source']",
       "'Source' comes from collections; only what the plugin defines itself may be used"},
      {"def Source(): pass\n__all__ = ['Source']", "'Source' is a function; a source is a class"},
      {"class Source: pass\n__all__ = ['Source']",
       "the source Source has no __len__ and no spec and no __getitem__ (or example); a source "
       "without random access can be copied by `millrace import stream`"},
  }));
  PluginFixture fixture(module);
  CHECK(fixture.StartError() == "the plugin plugin:Source: plugin \"plugin\": " + expected);
}

TEST_CASE("what is wrong with a source is said to its author", "[plugin]") {
  const auto [body, expected] = GENERATE(table<std::string, std::string>({
      {"def spec(self): return [1]", "spec() gave a list, expected a dict of names and types"},
      {"def spec(self): return {}", "spec() gave a dict, expected a dict of names and types"},
      {"def spec(self): return {'a': 1}", "spec(): 'a': 1, expected a name and the text of a type"},
      {"def spec(self): return {'a': 'float33'}", "spec(): a: \"float33\": column 1: "},
      {"def spec(self): return {'a.b': 'int64'}",
       "spec(): \"a.b\" cannot be the name of a tensor: expected words of letters, digits and _"},
      {"def columns(self): return {'n': [1, 2]}",
       "columns(): n has 2 values, and the source has 3 examples"},
      {"def columns(self): return {'n': ['a'] * 3}",
       "columns(): n is <U1[3], expected numbers, one an example"},
      {"def digest(self): return 5", "digest() gave a int, expected str or bytes"},
      {"def __init__(self): raise KeyError('no such corpus')",
       "KeyError: 'no such corpus'\nTraceback (most recent call last):\n"},
      {"def __init__(self, name): pass", "TypeError: "},
      {"def __init__(self): os._exit(4)", "the process ended with exit code 4"},
      {"def __init__(self): print('words'); ctypes.string_at(0)",
       "the process ended by signal 11 (Segmentation fault)\nits last output:\nwords\nFatal"},
  }));
  INFO(body);
  PluginFixture fixture(fmt::format(R"(
      import ctypes, os
      __all__ = ["Source"]

      class Base:
          def __len__(self): return 3
          def spec(self): return {{"n": "int64"}}
          def __getitem__(self, i): return {{"n": i}}

      class Source(Base):
          {}
  )",
                                    body));
  CHECK_THAT(fixture.StartError(), StartsWith("the plugin plugin:Source: " + expected));
}

TEST_CASE("arguments that a source does not take are told in one line", "[plugin]") {
  PluginFixture fixture(kGood);
  fixture.UseFunction("function", {MakeTensor("m", "int64")}, {MakeTensor("y", "int64")});
  const auto pool = fixture.Start();
  const TensorType type = MakeTensor("m", "int64").type;
  const std::vector<std::int64_t> values{1};
  PluginRequest request;
  request.ids = {0};
  request.inputs = {{&type, 1, std::as_bytes(std::span(values))}};
  const auto reply = pool->Build(request);
  REQUIRE(reply.ok());
  REQUIRE(reply->failed() == 1);
  CHECK(FailureLine(reply->failure(0)) ==
        "TypeError: function() got an unexpected keyword argument 'm'");
  CHECK(reply->failure(0).traceback.empty());
}

TEST_CASE("an import that fails is told with the plugin's own traceback", "[plugin]") {
  PluginFixture fixture("def f():\n    raise RuntimeError('no')\nf()");
  const std::string error = fixture.StartError();
  CHECK_THAT(error, StartsWith("the plugin plugin:Source: RuntimeError: no\nTraceback (most recent "
                               "call last):\n  File \"" +
                               (fixture.folder() / "plugin.py").string() +
                               "\", line 4, in <module>\n    f()\n"));
  CHECK_THAT(error, !Contains("_millrace"));
}

TEST_CASE("a syntax error is told with its place", "[plugin]") {
  PluginFixture fixture("x = = 1");
  CHECK_THAT(fixture.StartError(), Contains("SyntaxError: invalid syntax (plugin.py, line 2)") &&
                                       Contains((fixture.folder() / "plugin.py").string()));
}

TEST_CASE("an import that ends the process is told", "[plugin]") {
  PluginFixture fixture("import os\nprint('so far')\nos._exit(3)");
  CHECK_THAT(fixture.StartError(),
             Contains(" ended with exit code 3 while it imported the module\nso far"));
}

TEST_CASE("an import that takes too long is told with where it hangs", "[plugin]") {
  PluginFixture fixture("import time\ntime.sleep(1e6)");
  fixture.options().plugin.start_timeout = std::chrono::milliseconds(1500);
  const std::string error = fixture.StartError();
  CHECK_THAT(error, Contains("the import takes more than 1.5 s (start_timeout)"));
  CHECK_THAT(error, Contains("line 3 in <module>"));
}

TEST_CASE("a start can be stopped", "[plugin]") {
  PluginFixture fixture("import time\nprint('begins', flush=True)\ntime.sleep(1e6)");
  std::stop_source stop;
  std::jthread stops([&] {
    fixture.WaitForLine("begins");
    stop.request_stop();
  });
  CHECK(PluginPool::Start(fixture.options(), stop.get_token()).status().code() ==
        StatusCode::kCancelled);
}

TEST_CASE("a python without numpy, or with an old one, is named", "[plugin]") {
  PluginFixture fixture(kGood);
  SECTION("without") {
    fixture.options().plugin.env["PYTHONPATH"] = fixture.folder().string();
    fixture.WriteFile("numpy/__init__.py", "raise ImportError('none here')");
    CHECK_THAT(fixture.StartError(),
               EndsWith(" has no numpy (none here); plugins need numpy 1.22 or newer"));
  }
  SECTION("old") {
    fixture.options().plugin.env["PYTHONPATH"] = fixture.folder().string();
    fixture.WriteFile("numpy/__init__.py", "__version__ = '1.21.6'");
    CHECK_THAT(fixture.StartError(),
               EndsWith(" has numpy 1.21.6; plugins need numpy 1.22 or newer"));
  }
}

TEST_CASE("a program that only starts python is refused", "[plugin]") {
  PluginFixture fixture(kGood);
  const fs::path program = fixture.folder() / "python";
  WriteProgram(program, "#!/bin/sh\n" + fixture.options().plugin.python + " \"$@\"\nexit $?\n");
  fixture.options().plugin.python = program.string();
  CHECK_THAT(fixture.StartError(), Contains("`python` has to be the interpreter itself"));
}

TEST_CASE("a module that Python has elsewhere is refused", "[plugin]") {
  PluginFixture fixture(kGood);
  fixture.WriteFile("json.py", "");
  fixture.options().plugin.name = "json";
  fixture.options().object.module = "json";
  CHECK_THAT(fixture.StartError(), Contains("Python has another module of this name"));
}

TEST_CASE("a package is a module too", "[plugin]") {
  PluginFixture fixture("");
  fixture.WriteFile("pack/__init__.py", "from .inner import Source\n__all__ = ['Source']");
  fixture.WriteFile("pack/inner.py", R"(
class Source:
    def __len__(self): return 10
    def spec(self): return {"n": "int64"}
    def __getitem__(self, i): return {"n": i}
)");
  fixture.options().plugin.name = fixture.options().object.module = "pack";
  CHECK(fixture.Start()->facts().length == 10);
}

TEST_CASE("processes have the environment that a plugin needs", "[plugin]") {
  PluginFixture fixture(R"(
      import os, sys, signal, faulthandler
      __all__ = ["Source"]

      def shown():
          names = ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS",
                   "CUDA_VISIBLE_DEVICES", "PYTHONHASHSEED", "MINE"]
          yield ",".join(os.environ.get(name, "-") for name in names)
          yield sys.dont_write_bytecode
          yield faulthandler.is_enabled()
          yield signal.getsignal(signal.SIGINT).__name__ == "do_nothing"
          yield os.readlink("/proc/self/fd/0")
          yield open("/proc/self/oom_score_adj").read().strip()
          yield sorted(int(fd) for fd in os.listdir("/proc/self/fd"))[:3]
          targets = [os.readlink("/proc/self/fd/" + fd) for fd in os.listdir("/proc/self/fd")
                     if os.path.lexists("/proc/self/fd/" + fd)]
          yield [name for name in targets if name.startswith("/") and "/dev/" not in name
                 and "memfd" not in name and "/proc/" not in name]
          yield os.getsid(0) != os.getpid() and os.getpgid(0) == os.getpid()
          yield os.getcwd() == os.path.dirname(__file__)
          yield sys.argv

      class Source:
          def __len__(self): return 1
          def spec(self): return {"x": "str"}
          def __getitem__(self, i): return {"x": "; ".join(map(str, shown()))}
  )");
  fixture.options().plugin.env["MINE"] = "yes";
  const std::ofstream open_file(fixture.folder() / "open.txt");
  const auto pool = fixture.Start();
  const auto reply = pool->Build({{0}});
  REQUIRE(reply.ok());
  REQUIRE(reply->failed() == 0);
  const auto bytes = reply->values(0, 0);
  CHECK(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) ==
        "1,1,1,,0,yes; True; True; True; /dev/null; 800; [0, 1, 2]; []; True; True; ['plugin']");
}

TEST_CASE("a plugin is imported from the copy of its files", "[plugin]") {
  PluginFixture fixture(R"(
      import os, helper
      __all__ = ["Source"]

      class Source:
          def __len__(self): return 1
          def spec(self): return {"x": "str"}
          def __getitem__(self, i): return {"x": helper.__file__ + " " + helper.VALUE}
  )");
  fixture.options().plugin.processes = 2;
  fixture.WriteFile("helper.py", "VALUE = 'old'");
  fixture.WriteFile("__pycache__/old.pyc", "x");
  const auto text = [](PluginPool& pool) {
    const auto reply = pool.Build({{0}});
    REQUIRE(reply.ok());
    const auto bytes = reply->values(0, 0);
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  const auto pool = fixture.Start();
  const std::string old = text(*pool);
  CHECK_THAT(old, StartsWith(fixture.copies().string()) && EndsWith("/helper.py old"));
  CHECK_THAT(old, Contains(pool->facts().files.ToHex()));
  fixture.WriteFile("helper.py", "VALUE = 'new'");
  CHECK(text(*pool) == old);
  const auto later = fixture.Start();
  CHECK_THAT(text(*later), EndsWith("/helper.py new"));
  CHECK(later->facts().files != pool->facts().files);
  CHECK(text(*pool) == old);
}

// This program forks without exec, which the thread sanitizer does not support.
#if !defined(_GLIBCXX_TSAN)
TEST_CASE("processes end with a daemon that is killed", "[plugin]") {
  const bool is_busy = GENERATE(false, true);
  PluginFixture fixture(R"(
      import os, subprocess, time
      __all__ = ["Source"]

      class Source:
          def __init__(self): self.program = subprocess.Popen(["sleep", "1000"]).pid
          def __len__(self): return self.program
          def spec(self): return {"n": "int64"}
          def __getitem__(self, i):
              while True: time.sleep(1)
  )");
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t daemon = ::fork();
  REQUIRE(daemon >= 0);
  if (daemon == 0) {
    // The launcher's thread has not survived the fork, so the launcher can only be forgotten.
    new std::shared_ptr<Launcher>(std::exchange(fixture.options().launcher, nullptr));
    fixture.options().launcher = std::make_shared<Launcher>();
    auto pool = PluginPool::Start(fixture.options());
    if (!pool.ok()) ::_exit(1);
    const pid_t processes[3] = {(*pool)->fork_server_process(), (*pool)->Stats()[0].process,
                                static_cast<pid_t>((*pool)->facts().length)};
    if (::write(ends[1], processes, sizeof processes) < 0) ::_exit(1);
    if (is_busy) (void)(*pool)->Build({{0}});
    while (true) ::pause();
  }
  pid_t processes[3];
  REQUIRE(::read(ends[0], processes, sizeof processes) == sizeof processes);
  for (const pid_t process : processes) CHECK(test::IsRunning(process));
  ::kill(daemon, SIGKILL);
  ::waitpid(daemon, nullptr, 0);
  for (const pid_t process : processes) CHECK(test::WaitUntilGone(process));
  ::close(ends[0]);
  ::close(ends[1]);
}
#endif

}  // namespace
}  // namespace millrace
