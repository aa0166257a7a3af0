// Plans over sources of plugins, from the text of a pipeline to a batch.
#include <catch2/catch.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/batch/batch.h"
#include "server/catalog/product_kinds.h"
#include "server/kinds/python/plugin_source.h"
#include "server/plan/plan_library.h"
#include "tests/support/dataset_fixture.h"
#include "tests/support/plugin_fixture.h"
#include "tests/unit/server/plan/number_plans.h"

namespace millrace::test {
namespace {

using Catch::Contains;
using Catch::StartsWith;
using BatchPtr = std::shared_ptr<const PackedBatch>;

constexpr std::string_view kBatch = "batch: {size: 4, remainder: keep}\n";
constexpr std::string_view kSource = R"(
    __all__ = ["Source", "Noisy"]

    class Source:
        def __init__(self, size=10, bad=-1, folder=None):
            self.size = size
            self.bad = bad
            self.folder = folder

        def __len__(self):
            return self.size

        def spec(self):
            return {"n": "int64", "x": "float32[*]"}

        def columns(self):
            return {"n": list(range(0, 3 * self.size, 3)), "weight": [i / 2 for i in range(self.size)]}

        def __getitem__(self, i):
            if i == self.bad:
                raise ValueError("example %d is empty" % i)
            return {"n": 3 * i, "x": np.full(i % 4, i, np.float32)}

    class Noisy(Source):
        def columns(self):
            return {}

        def example(self, i, epoch, rng):
            return {"n": i, "x": rng.random(2, np.float32)}
)";

/// Plans over the plugin `plugin`.
class PluginPlans {
 public:
  explicit PluginPlans(std::string_view module = kSource) : fixture_(module) { List(); }

  /// Opens everything anew, as a process does that starts now.
  void List() {
    PluginRegistryOptions registry;
    registry.plugins.emplace("plugin", fixture_.options().plugin);
    registry.copies = fixture_.copies();
    PlanLibraryOptions options;
    options.kinds = ProductKinds(std::make_shared<PluginRegistry>(std::move(registry)));
    options.datasets["plugin:plugin"] = {
        .dir = fixture_.folder(), .index_file = {}, .kind = "python"};
    std::filesystem::create_directories(dir_ / "folder");
    options.datasets["folder"] = {.dir = dir_ / "folder", .index_file = {}, .kind = "python"};
    options.cache_dir = dir_ / "cache";
    options.index_threads = 1;
    library_ = std::make_unique<PlanLibrary>(std::move(options), MakeNullLogger());
  }

  PluginFixture& fixture() { return fixture_; }
  /// Another version of the module, in a process that starts now.
  void Rewrite(std::string_view module) {
    fixture_.WriteModule(module);
    List();
  }
  std::filesystem::path folder() const { return dir_ / "folder"; }

  Result<std::shared_ptr<const Plan>> Compile(const std::string& source,
                                              std::string_view more = kBatch) {
    return CompileText("millrace: 1\nsource: " + source + "\n" + std::string(more));
  }
  Result<std::shared_ptr<const Plan>> CompileText(const std::string& yaml) {
    PipelineSource text;
    text.name = "p.yaml";
    text.yaml = yaml;
    return library_->Compile(text);
  }
  std::shared_ptr<const Plan> MustCompile(const std::string& source,
                                          std::string_view more = kBatch) {
    const auto plan = Compile(source, more);
    INFO(plan.status().message());
    REQUIRE(plan.ok());
    return *plan;
  }
  std::string ErrorOf(const std::string& source, std::string_view more = kBatch) {
    const auto plan = Compile(source, more);
    REQUIRE_FALSE(plan.ok());
    return plan.status().message();
  }

 private:
  PluginFixture fixture_;
  TempDir dir_;
  std::unique_ptr<PlanLibrary> library_;
};

std::string OrderOf(const Plan& plan) { return plan.facts().order_fingerprint().ToString(); }

TEST_CASE("a plan draws from the plugin that its source names", "[plugin_plan]") {
  PluginPlans plans;
  const auto plan = plans.MustCompile("{python: 'plugin:Source', args: {size: 6}}");
  CHECK(plan->source()->examples() == 6);
  CHECK(plan->source()->name() == "python");
  CHECK_FALSE(plan->source()->facts().varies);
  std::vector<std::uint64_t> ids;
  for (const BatchPtr& batch : ReadEpoch(*plan, 0, 1)) {
    for (const ExampleId id : batch->info().example_ids) ids.push_back(id.value());
  }
  CHECK(ids == std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("a source of a plugin says in its order what it depends on", "[plugin_plan]") {
  PluginPlans plans;
  const auto plain = plans.MustCompile("{python: 'plugin:Source'}");
  CHECK(OrderOf(*plans.MustCompile("{python: 'plugin:Source', args: {}}")) == OrderOf(*plain));
  CHECK(OrderOf(*plans.MustCompile("{python: 'plugin:Source', drop: [ValueError], timeout: 9}")) ==
        OrderOf(*plain));
  std::set<std::string> orders = {OrderOf(*plain)};
  for (const std::string source :
       {"{python: 'plugin:Source', args: {size: 11}}", "{python: 'plugin:Source', args: {bad: -2}}",
        "{python: 'plugin:Noisy'}", "{python: 'plugin:Source'}\ndataset: folder"}) {
    orders.insert(OrderOf(*plans.MustCompile(source)));
  }
  CHECK(orders.size() == 5);
}

TEST_CASE("what a plugin does, but not its order, changes with its files", "[plugin_plan]") {
  PluginPlans plans;
  const auto before = plans.MustCompile("{python: 'plugin:Source'}");
  plans.fixture().WriteFile("more.py", "");
  CHECK_THAT(plans.ErrorOf("{python: 'plugin:Source', args: {size: 9}}"),
             Contains("the files of plugin plugin have changed since"));
  plans.List();
  const auto after = plans.MustCompile("{python: 'plugin:Source'}");
  CHECK(OrderOf(*after) == OrderOf(*before));
  CHECK(after->facts().fingerprint() != before->facts().fingerprint());
}

TEST_CASE("a column is part of the order that reads it alone", "[plugin_plan]") {
  const std::string changed = [] {
    std::string text(kSource);
    text.replace(text.find("3 * self.size, 3"), 16, "4 * self.size, 4");
    return text.replace(text.find("\"n\": 3 * i"), 10, "\"n\": 4 * i");
  }();
  PluginPlans plans;
  PluginPlans others(changed);
  const std::string source = "{python: 'plugin:Source'}";
  CHECK(OrderOf(*plans.MustCompile(source)) == OrderOf(*others.MustCompile(source)));
  const std::string by = "batch: {bucket: {by: n, count: 2, size: 2}, remainder: keep}\n";
  CHECK(OrderOf(*plans.MustCompile(source, by)) != OrderOf(*others.MustCompile(source, by)));
}

std::size_t RowsOf(const Plan& plan) {
  std::size_t rows = 0;
  for (const BatchPtr& batch : ReadEpoch(plan, 0, 1)) rows += batch->examples();
  return rows;
}

TEST_CASE("filters read columns of a plugin: integers, and floats with their fractions",
          "[plugin_plan]") {
  PluginPlans plans;
  const auto rows = [&plans](const std::string& where) {
    return RowsOf(*plans.MustCompile("{python: 'plugin:Source'}",
                                     "filter: {where: '" + where + "'}\n" + std::string(kBatch)));
  };
  CHECK(rows("n >= 15") == 5);
  CHECK(rows("weight > 2.25") == 5);
  CHECK(rows("weight * 2 == n / 3 && weight != floor(weight)") == 5);
}

TEST_CASE("expressions make integers of a plugin's floats, by which batches are cut",
          "[plugin_plan]") {
  const std::string changed = [] {
    std::string text(kSource);
    return text.replace(text.find("i / 2 for i"), 5, "4.5 - i / 2");
  }();
  PluginPlans plans;
  PluginPlans others(changed);
  const std::string source = "{python: 'plugin:Source'}";
  CHECK(OrderOf(*plans.MustCompile(source)) == OrderOf(*others.MustCompile(source)));
  const std::string by =
      "batch: {bucket: {by: 'ceil(10 * weight)', bounds: [20, 50], size: 2}, remainder: keep}\n";
  const auto plan = plans.MustCompile(source, by);
  CHECK(OrderOf(*plan) != OrderOf(*others.MustCompile(source, by)));
  // Rows of one batch are of one class: examples 0 to 4 have weights up to 2.
  for (const BatchPtr& batch : ReadEpoch(*plan, 0, 1)) {
    for (const ExampleId id : batch->info().example_ids) {
      CHECK((id.value() <= 4) == (batch->info().example_ids[0].value() <= 4));
    }
  }
  CHECK(RowsOf(*plan) == 10);
}

TEST_CASE("a float that gives no integer to cut by is refused with its example", "[plugin_plan]") {
  const std::string by =
      "batch: {bucket: {by: 'ceil(weight)', count: 2, size: 2}, remainder: keep}\n";
  const std::string value = GENERATE("-1.5", "float('nan')", "float('inf')");
  std::string text(kSource);
  text.replace(text.find("i / 2 for i"), 5, "i / 2 if i != 7 else " + value);
  CHECK_THAT(PluginPlans(text).ErrorOf("{python: 'plugin:Source'}", by),
             Contains(value == "-1.5" ? "got -1 for example 7" : "weight, which is ") &&
                 Contains("for example 7"));
}

TEST_CASE("an example whose column has no number fails each comparison of a filter",
          "[plugin_plan]") {
  const std::string value = GENERATE("float('nan')", "float('inf')", "float('-inf')");
  std::string text(kSource);
  text.replace(text.find("i / 2 for i"), 5, "i / 2 if i != 7 else " + value);
  PluginPlans plans(text);
  for (const char* where : {"weight < 100", "weight > -100", "weight != 77", "weight == weight",
                            "weight != weight || weight <= 50"}) {
    INFO(where);
    const std::string filter = fmt::format("filter: {{where: '{}'}}\n", where);
    const auto plan = plans.MustCompile("{python: 'plugin:Source'}", filter + std::string(kBatch));
    CHECK(RowsOf(*plan) == 9);
  }
}

TEST_CASE("a column of floats is no length to be cut into chunks", "[plugin_plan]") {
  std::string text(kSource);
  text.replace(text.find("\"weight\""), 8, "\"x.length\"");
  CHECK_THAT(
      PluginPlans(text).ErrorOf("{python: 'plugin:Source'}",
                                "chunk: {tensor: x, size: 2, step: 2}\n" + std::string(kBatch)),
      Contains("x.length has floats"));
}

TEST_CASE("the folder that is told reaches the plugin", "[plugin_plan]") {
  PluginPlans plans;
  std::ofstream(plans.folder() / "data.txt") << "1\n2\n3\n";
  plans.fixture().WriteFile("plugin.py", R"(
import os
__all__ = ["Lines"]

class Lines:
    def __init__(self, folder):
        with open(os.path.join(folder, "data.txt")) as file:
            self.lines = file.read().split()
    def __len__(self): return len(self.lines)
    def spec(self): return {"n": "int32"}
    def __getitem__(self, i): return {"n": int(self.lines[i])}
)");
  plans.List();
  const auto plan = plans.MustCompile("{python: 'plugin:Lines'}\ndataset: folder");
  CHECK(plan->source()->examples() == 3);
}

TEST_CASE("an exception that `drop` names drops its example in its place", "[plugin_plan]") {
  PluginPlans plans;
  const auto plan = plans.MustCompile(
      "{python: 'plugin:Source', args: {bad: 5}, drop: [LookupError, ValueError]}");
  const std::vector<BatchPtr> batches = ReadEpoch(*plan, 0, 1);
  REQUIRE(batches.size() == 3);
  REQUIRE(batches[1]->info().dropped.size() == 1);
  CHECK(batches[1]->info().dropped[0].id == ExampleId(5));
  CHECK(plan->source()->facts().drop_reasons.NameOf(kDroppedByPlugin) == "plugin");
  CHECK(batches[1]->examples() == 3);
}

TEST_CASE("an exception that nobody named fails the batch with all that helps", "[plugin_plan]") {
  PluginPlans plans;
  const auto plan = plans.MustCompile("{python: 'plugin:Source', args: {bad: 5}}");
  const auto scratch = plan->NewScratch();
  const auto batch = plan->BatchOf(std::vector{ExampleId(4), ExampleId(5)}, 0, *scratch);
  REQUIRE_FALSE(batch.ok());
  CHECK(batch.status().code() == StatusCode::kAborted);
  CHECK_THAT(batch.status().message(),
             Contains("plugin plugin:Source, example 5: ValueError: example 5 is empty") &&
                 Contains("in __getitem__") && Contains("exclude: {examples: [5]}"));
}

TEST_CASE("examples of chance change with epoch, seed and id, and with nothing else",
          "[plugin_plan]") {
  PluginPlans plans;
  const auto first = [&](const std::string& source, std::uint64_t epoch,
                         const std::string& more = "") {
    const auto plan = plans.MustCompile(source, more + std::string(kBatch));
    return ReadEpoch(*plan, epoch, 1).front()->payload_hash();
  };
  const std::string source = "{python: 'plugin:Noisy'}";
  CHECK(plans.MustCompile(source)->source()->facts().varies);
  CHECK(first(source, 0) == first(source, 0));
  CHECK(first(source, 0) != first(source, 1));
  CHECK(first("{python: 'plugin:Noisy', seed: 5}", 0) !=
        first("{python: 'plugin:Noisy', seed: 6}", 0));
  CHECK(first("{python: 'plugin:Noisy', args: {size: 9}}", 0) != first(source, 0));
}

TEST_CASE("examples that change have no measured columns", "[plugin_plan]") {
  PluginPlans plans;
  const std::string by = "batch: {bucket: {by: x.length, count: 2, size: 2}, remainder: keep}\n";
  CHECK(plans.Compile("{python: 'plugin:Source'}", by).ok());
  CHECK_THAT(plans.ErrorOf("{python: 'plugin:Noisy'}", by), Contains("x.length"));
}

TEST_CASE("columns of a plugin whose code has changed are measured anew, and order the examples",
          "[plugin_plan]") {
  PluginPlans plans;
  const std::string source = "{python: 'plugin:Source'}";
  const std::string by = "batch: {bucket: {by: x.length, count: 2, size: 2}, remainder: keep}\n";
  const std::string before = OrderOf(*plans.MustCompile(source, by));
  std::string changed(kSource);
  changed.replace(changed.find("i % 4"), 5, "i % 3");
  plans.Rewrite(changed);
  const auto plan = plans.MustCompile(source, by);
  CHECK(OrderOf(*plan) != before);
  for (const BatchPtr& batch : ReadEpoch(*plan, 0, 1)) {
    std::set<std::size_t> bounds;
    // Lengths are 0, 1 and 2; bounds 0 and 2 pad least.
    for (const ExampleId id : batch->info().example_ids) bounds.insert(id.value() % 3 == 0 ? 0 : 2);
    CHECK(bounds.size() == 1);
  }
  // A change of the code that leaves all lengths as they were keeps the order.
  const std::string measured = OrderOf(*plan);
  plans.Rewrite(changed + "    # repaired\n");
  CHECK(OrderOf(*plans.MustCompile(source, by)) == measured);
}

TEST_CASE("branches of plugins need no dataset", "[plugin_plan]") {
  PluginPlans plans;
  const auto branch = [](const std::string& name, const std::string& args) {
    return "  " + name + ": {source: {python: 'plugin:Source', args: " + args + "}}\n";
  };
  // Other sources have to name one.
  CHECK_THAT(plans.ErrorOf("proof_states"), Contains("the key dataset is missing"));
  const std::string mixed = "branches:\n" + branch("a", "{size: 8}") + branch("b", "{size: 4}") +
                            "mix: {weights: {a: 2, b: 1}, epoch: {of: a}}\n" + std::string(kBatch);
  const auto made = plans.CompileText("millrace: 1\n" + mixed);
  INFO(made.status().message());
  REQUIRE(made.ok());
  CHECK((*made)->source()->examples() == 12);
}

TEST_CASE("options of a source stand beside its name in any order", "[plugin_plan]") {
  PluginPlans plans;
  const std::string one = "{python: 'plugin:Source', args: {size: 5}, drop: [A, B], timeout: 7}";
  const std::string other = "{timeout: 7, drop: [B, A], args: {size: 5}, python: 'plugin:Source'}";
  CHECK(plans.MustCompile(one)->facts().fingerprint() ==
        plans.MustCompile(other)->facts().fingerprint());
  CHECK_THAT(plans.ErrorOf("{args: {size: 5}}"), StartsWith("p.yaml:2:"));
  CHECK_THAT(plans.ErrorOf("{python: 'plugin:Source', sede: 3}"), Contains("sede"));
  CHECK_THAT(plans.ErrorOf("{python: 'plugin.Source'}"), Contains("module:name"));
  CHECK_THAT(plans.ErrorOf("{python: 'plugin:Source', timeout: 0}"), Contains("timeout"));
  CHECK_THAT(plans.ErrorOf("{python: 'plugin:Source', drop: ValueError}"), Contains("drop"));
}

TEST_CASE("a source whose spec cannot be a batch's names the tensor", "[plugin_plan]") {
  const auto error = [](const std::string& spec) {
    PluginPlans plans(R"(
        __all__ = ["Source"]

        class Source:
            def __len__(self): return 3
            def spec(self): return )" +
                      spec + R"(
            def __getitem__(self, i): return {}
    )");
    return plans.ErrorOf("{python: 'plugin:Source'}");
  };
  CHECK_THAT(error("{'example_id': 'int64'}"), Contains("example_id"));
  CHECK_THAT(error("{'x': 'int63'}"), Contains("int63"));
  CHECK_THAT(error("{'x y': 'int64'}"), Contains("x y"));
  CHECK_THAT(error("{'x': 'float32[*, *]'}"),
             Contains("'x'") || Contains("\"x\"") || Contains("x"));
}

TEST_CASE("a process without plugins says how to name one", "[plugin_plan]") {
  PlanLibraryOptions options;
  options.kinds = ProductKinds();
  PlanLibrary library(std::move(options), MakeNullLogger());
  PipelineSource text;
  text.yaml = "millrace: 1\nsource: {python: 'speech:Corpus'}\n" + std::string(kBatch);
  const auto plan = library.Compile(text);
  REQUIRE_FALSE(plan.ok());
  CHECK_THAT(plan.status().message(), Contains("plugin 'speech' is not listed here"));
}

}  // namespace
}  // namespace millrace::test
