#include "server/plugin/plugin_registry.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/plugin_fixture.h"
#include "tests/support/recording_logger.h"

namespace millrace {
namespace {

using Catch::Contains;
using test::PluginFixture;

constexpr std::string_view kRegisteredSource = R"(
    __all__ = ["Source"]

    class Source:
        def __init__(self, scale=1):
            self.scale = scale

        def __len__(self):
            return 10

        def spec(self):
            return {"n": "int64"}

        def __getitem__(self, i):
            print("builds", i, flush=True)
            return {"n": i * self.scale}
)";

/// A registry that lists the plugin of a fixture.
PluginRegistryOptions OptionsOf(PluginFixture& fixture) {
  PluginRegistryOptions options;
  options.plugins.emplace("plugin", fixture.options().plugin);
  options.copies = fixture.copies();
  return options;
}

PluginObject SourceWith(std::string args) {
  PluginObject object;
  object.module = "plugin";
  object.name = "Source";
  object.args = std::move(args);
  return object;
}

TEST_CASE("everything that changes what a process does gives an object a pool of its own",
          "[plugin][registry]") {
  const PluginObject plain = SourceWith("{}");
  std::vector<PluginObject> objects(13, plain);
  objects[1].args = R"({"scale": 2})";
  objects[2].name = "Other";
  objects[3].module = "other";
  objects[4].folder = "/data";
  objects[5].random = true;
  objects[6].drop = {"ValueError"};
  objects[7].timeout = std::chrono::seconds(5);
  objects[8].chance.seed = 1;
  objects[9].chance.fingerprint = "ab";
  objects[10].kind = PluginObject::Kind::kFunction;
  objects[11].per_batch = true;
  objects[12].chance.tensor = "view";
  std::set<std::string> keys;
  for (const PluginObject& object : objects) keys.insert(PluginObjectKey(object));
  CHECK(keys.size() == objects.size());
  CHECK(PluginObjectKey(plain) == PluginObjectKey(SourceWith("{}")));
}

TEST_CASE("equal objects share a pool while somebody holds it", "[plugin][registry]") {
  PluginFixture fixture(kRegisteredSource);
  PluginRegistryOptions options = OptionsOf(fixture);
  for (auto& [name, plugin] : options.plugins) plugin.processes = 2;
  PluginRegistry registry(std::move(options));
  auto pool = registry.Pool(SourceWith("{}")).value();
  CHECK(registry.Pool(SourceWith("{}")).value() == pool);
  CHECK(registry.Pool(SourceWith(R"({"scale": 2})")).value() != pool);
  CHECK(registry.AnotherPool(SourceWith("{}")).value() != pool);
  const pid_t process = pool->Stats()[0].process;
  CHECK(test::IsRunning(process));
  pool.reset();
  CHECK(test::WaitUntilGone(process));
  pool = registry.Pool(SourceWith("{}")).value();
  CHECK(pool->Stats()[0].process != process);
}

TEST_CASE("all objects of a plugin together have as many processes as it may have",
          "[plugin][registry]") {
  PluginFixture fixture(kRegisteredSource);
  PluginRegistry registry(OptionsOf(fixture));
  std::vector<std::shared_ptr<PluginPool>> pools;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    PluginObject object = SourceWith("{}");
    object.chance.seed = seed;
    pools.push_back(registry.Pool(object).value());
  }
  const auto running = [&] {
    int count = 0;
    for (const PluginPoolStats& stats : registry.Stats()) {
      for (const PluginProcessStats& process : stats.processes) {
        count += process.process != 0 && test::IsRunning(process.process) ? 1 : 0;
      }
    }
    return count;
  };
  PluginRequest request;
  request.ids = {3, 4};
  for (int round = 0; round < 3; ++round) {
    for (const auto& pool : pools) {
      REQUIRE(pool->Build(request).ok());
      CHECK(running() == 1);
    }
  }
  // Those who build at the same time take turns.
  std::vector<std::thread> threads;
  std::atomic<int> built = 0;
  for (const auto& pool : pools) {
    threads.emplace_back([&, pool] {
      for (int i = 0; i < 20; ++i) built += pool->Build(request).ok() ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(built == 60);
  // No restart counts as one: nothing has failed.
  for (const PluginPoolStats& stats : registry.Stats()) CHECK(stats.processes[0].restarts == 0);
}

TEST_CASE("who asks is told of the requests of pools, and of their processes",
          "[plugin][registry]") {
  PluginFixture fixture(kRegisteredSource);
  PluginRegistry registry(OptionsOf(fixture));
  const auto pool = registry.Pool(SourceWith("{}")).value();
  std::vector<std::string> asked;
  bool in_order = true;
  registry.SetOnRequest([&](std::string_view object, Time begin, Time end) {
    asked.emplace_back(object);
    in_order = in_order && begin < end;
  });
  PluginRequest request;
  request.ids = {3, 4};
  REQUIRE(pool->Build(request).ok());
  CHECK(asked == std::vector<std::string>{"plugin:Source"});
  CHECK(in_order);
  std::vector<PluginPoolStats> stats = registry.Stats();
  REQUIRE(stats.size() == 1);
  CHECK(stats[0].object == "plugin:Source");
  CHECK(stats[0].processes[0].examples == 2);
  CHECK(stats[0].processes[0].busy_seconds > 0);
  // A process with numpy, and the one that it is a copy of.
  CHECK(stats[0].memory_bytes > 4'000'000);
  CHECK(stats[0].memory_bytes < 1'000'000'000);

  // The plugin is read anew, and the pool goes on.
  registry.SetPlugins(registry.Plugins());
  registry.SetOnRequest(nullptr);
  REQUIRE(pool->Build(request).ok());
  CHECK(asked.size() == 1);
  stats = registry.Stats();
  REQUIRE(stats.size() == 1);
  CHECK(stats[0].processes[0].examples == 4);
}

TEST_CASE("a plugin that is not listed is an error that says how to list it",
          "[plugin][registry]") {
  PluginRegistry registry({});
  CHECK_THAT(registry.Find("speech").status().message(),
             Contains("plugin 'speech' is not listed here") && Contains("--plugin speech=FOLDER") &&
                 Contains("listed is none"));
  PluginRegistryOptions options;
  options.plugins["a"].name = "a";
  options.plugins["b"].name = "b";
  registry.SetPlugins(options.plugins);
  CHECK(registry.Find("c").status().code() == StatusCode::kNotFound);
  CHECK_THAT(registry.Find("c").status().message(), Contains("listed are a, b"));
  CHECK(registry.Find("a").ok());
}

TEST_CASE("plugins that are listed anew serve who asks now, and pools in use go on",
          "[plugin][registry]") {
  PluginFixture fixture(kRegisteredSource);
  PluginRegistry registry(OptionsOf(fixture));
  const auto before = registry.Pool(SourceWith("{}")).value();
  fixture.WriteFile("plugin.py", R"(
__all__ = ["Source"]

class Source:
    def __len__(self): return 11
    def spec(self): return {"n": "int64"}
    def __getitem__(self, i): return {"n": i}
)");
  CHECK(registry.Pool(SourceWith("{}")).value() == before);
  registry.SetPlugins(registry.Plugins());
  const auto after = registry.Pool(SourceWith("{}")).value();
  CHECK(after->facts().length == 11);
  CHECK(after->facts().files != before->facts().files);
  CHECK(before->facts().length == 10);
  CHECK(before->Build({{9}}).ok());
}

TEST_CASE("a registry that was stopped starts nothing", "[plugin][registry]") {
  PluginFixture fixture(kRegisteredSource);
  PluginRegistry registry(OptionsOf(fixture));
  registry.Stop();
  CHECK(registry.Pool(SourceWith("{}")).status().code() == StatusCode::kCancelled);
}

TEST_CASE("a pool that could not start is tried again by who asks next", "[plugin][registry]") {
  PluginFixture fixture("raise RuntimeError('not yet')");
  PluginRegistry registry(OptionsOf(fixture));
  CHECK_THAT(registry.Pool(SourceWith("{}")).status().message(), Contains("not yet"));
  fixture.WriteFile("plugin.py", R"(
__all__ = ["Source"]

class Source:
    def __len__(self): return 1
    def spec(self): return {"n": "int64"}
    def __getitem__(self, i): return {"n": i}
)");
  CHECK(registry.Pool(SourceWith("{}")).ok());
}

TEST_CASE("figures name the objects whose pools are in use", "[plugin][registry]") {
  PluginFixture fixture(kRegisteredSource);
  PluginRegistryOptions options = OptionsOf(fixture);
  options.plugins.at("plugin").processes = 2;
  PluginRegistry registry(std::move(options));
  CHECK(registry.Stats().empty());
  auto pool = registry.Pool(SourceWith("{}")).value();
  REQUIRE(pool->Build({{1, 2, 3}}).ok());
  const std::vector<PluginPoolStats> stats = registry.Stats();
  REQUIRE(stats.size() == 1);
  CHECK(stats[0].object == "plugin:Source");
  REQUIRE(stats[0].processes.size() == 2);
  CHECK(stats[0].processes[0].examples + stats[0].processes[1].examples == 3);
  pool.reset();
  CHECK(registry.Stats().empty());
}

TEST_CASE("pools begin with one process where others are given later", "[plugin][registry]") {
  PluginFixture fixture(kRegisteredSource);
  PluginRegistryOptions options = OptionsOf(fixture);
  options.begin_with_one = true;
  options.plugins.at("plugin").processes = 3;
  options.plugins.at("plugin").processes_given = false;
  PluginRegistry registry(std::move(options));
  const auto pool = registry.Pool(SourceWith("{}")).value();
  const auto running = [&] {
    const std::vector<PluginPoolStats> pools = registry.Stats();
    return std::ranges::count_if(pools.at(0).processes, [](const auto& stats) { return stats.process != 0; });
  };
  // Each reply keeps its process. Without a second one, a build waits until it is stopped.
  const auto build_with_two = [&pool](const std::stop_token& stop) {
    const auto first = pool->Build({{1}});
    return pool->Build({{2}}, stop).ok();
  };
  const auto builds_with_two_soon = [&] {
    std::stop_source stop;
    std::jthread stops([&stop] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      stop.request_stop();
    });
    return build_with_two(stop.get_token());
  };
  const std::uint64_t number = registry.Stats().at(0).number;
  CHECK_FALSE(registry.Stats().at(0).processes_given);
  CHECK(registry.Stats().at(0).processes.size() == 3);
  CHECK_FALSE(builds_with_two_soon());
  CHECK(running() == 1);
  registry.SetMostProcesses({{number + 1, 3}});  // of another pool
  CHECK_FALSE(builds_with_two_soon());
  registry.SetMostProcesses({{number, 2}});
  CHECK(build_with_two({}));
  CHECK(running() == 2);
}

TEST_CASE("what a plugin prints is logged under its name", "[plugin][registry]") {
  PluginFixture fixture(kRegisteredSource);
  PluginRegistryOptions options = OptionsOf(fixture);
  const auto logger = std::make_shared<test::RecordingLogger>();
  options.logger = logger;
  PluginRegistry registry(std::move(options));
  const auto pool = registry.Pool(SourceWith("{}")).value();
  REQUIRE(pool->Build({{7}}).ok());
  logger->WaitFor("builds 7");
  CHECK(logger->Has("plugin says plugin=plugin process="));
}

}  // namespace
}  // namespace millrace
