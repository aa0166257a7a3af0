// A class of a plugin as the source of a whole cluster.

#include <csignal>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "server/catalog/product_kinds.h"
#include "tests/support/plugin_fixture.h"
#include "tests/support/test_cluster.h"

namespace millrace {
namespace {

using test::BatchRecord;
using test::TestCluster;

constexpr std::string_view kSource = R"(
    import os
    __all__ = ["Lines"]

    class Lines:
        def __init__(self, folder):
            with open(os.path.join(folder, "lines.txt")) as file:
                self.lines = file.read().split("\n")[:-1]

        def __len__(self):
            return len(self.lines)

        def spec(self):
            return {"noise": "float64[*]", "line": "str"}

        def example(self, i, epoch, rng):
            return {"noise": rng.random(i % 5), "line": self.lines[i]}
)";

/// Kills the processes that build examples now. How many there were.
std::size_t KillProcesses(const PluginRegistry& registry) {
  std::size_t killed = 0;
  for (const PluginPoolStats& pool : registry.Stats()) {
    for (const PluginPool::ProcessStats& process : pool.processes) {
      if (process.process == 0) continue;
      ::kill(process.process, SIGKILL);
      ++killed;
    }
  }
  return killed;
}

TEST_CASE("a cluster gives a plugin's examples once when a worker and processes of the plugin die",
          "[cluster][plugin]") {
  test::PluginFixture plugin(kSource);
  PluginRegistryOptions options;
  options.plugins.emplace("plugin", plugin.options().plugin);
  options.plugins.at("plugin").processes = 2;
  options.copies = plugin.copies();
  const auto registry = std::make_shared<PluginRegistry>(std::move(options));
  TestCluster cluster(
      test::TestDataset{.kinds = ProductKinds(registry),
                        .write =
                            [](const std::filesystem::path& dir) {
                              std::filesystem::create_directories(dir);
                              std::ofstream lines(dir / "lines.txt");
                              for (int i = 0; i < 400; ++i) lines << "line " << i << "\n";
                            },
                        .pipeline = "millrace: 1\ndataset: data\nsource: {python: 'plugin:Lines'}\n"
                                    "shuffle: {seed: 3}\nbatch: {size: 8, remainder: keep}\n",
                        .kind = "python"});
  cluster.AddWorker("one", 64 << 20, 2);
  cluster.AddWorker("two", 64 << 20, 2);
  SessionOptions session_options = cluster.Options(0, 1);
  session_options.attach_timeout_seconds = 3600;  // the clock is fast, and Python is not
  const auto session = cluster.Connect(session_options, "rank-0");
  INFO(session.status().message());
  REQUIRE(session.ok());
  std::vector<BatchRecord> read;
  std::size_t killed = 0;
  for (int i = 0; i < 4; ++i) {
    const auto some = test::ReadAll(**session, 2, 10);
    INFO(some.status().message());
    REQUIRE(some.ok());
    read.insert(read.end(), some->begin(), some->end());
    killed += KillProcesses(*registry);
    if (i == 1) cluster.KillWorker("one");
  }
  const auto rest = test::ReadAll(**session, 2);
  INFO(rest.status().message());
  REQUIRE(rest.ok());
  read.insert(read.end(), rest->begin(), rest->end());
  std::sort(read.begin(), read.end());
  CHECK(killed >= 4);
  std::vector<BatchRecord> expected = cluster.Reference(0, 1);
  const std::vector<BatchRecord> second = cluster.Reference(1, 1);
  expected.insert(expected.end(), second.begin(), second.end());
  std::sort(expected.begin(), expected.end());
  CHECK(read == expected);
}

}  // namespace
}  // namespace millrace
