// A kind of dataset that comes from outside (tests/support/number_kind.h), through the plan
// library.

#include <catch2/catch.hpp>

#include <set>
#include <string>
#include <vector>

#include "common/batch/batch.h"
#include "server/catalog/product_kinds.h"
#include "server/plan/plan_library.h"
#include "tests/support/dataset_fixture.h"
#include "tests/support/number_kind.h"

namespace millrace::test {
namespace {

/// A library that has the kind of numbers besides those of the product, and a dataset of each.
struct Mixed {
  explicit Mixed(int count = 100) : library(Options(count), MakeNullLogger()) {}

  PlanLibraryOptions Options(int count) {
    WriteNumbers(dir / "numbers", count);
    WriteFixture(dir / "coq", SampleFile("a.bin"));
    PlanLibraryOptions options;
    options.kinds = ProductKinds().With(MakeNumberKind());
    options.datasets["n"].dir = dir / "numbers";
    options.datasets["c"].dir = dir / "coq";
    return options;
  }
  Result<std::shared_ptr<const Plan>> Compile(const std::string& more,
                                              const std::string& source = "numbers",
                                              const std::string& dataset = "n") {
    PipelineSource text;
    text.yaml = "millrace: 1\ndataset: " + dataset + "\nsource: " + source +
                "\nbatch: {size: 10, remainder: keep}\n" + more;
    return library.Compile(text);
  }

  TempDir dir;
  PlanLibrary library;
};

std::vector<std::int64_t> ValuesOf(const Plan& plan) {
  const auto scratch = plan.NewScratch();
  const auto count = static_cast<std::uint32_t>(plan.counts().selected);
  const auto batch = *plan.Batch(1, {0, count}, *scratch);
  std::vector<std::int64_t> values;
  for (std::size_t i = 0; i < count; ++i)
    values.push_back(batch->ValueAt(*batch->Find("value"), i));
  return values;
}

TEST_CASE("a kind from outside is served beside those of the product", "[kinds]") {
  Mixed mixed;
  const auto numbers = mixed.Compile("");
  INFO(numbers.status().message());
  REQUIRE(numbers.ok());
  CHECK(ValuesOf(**numbers)[42] == 42);
  CHECK(mixed.library.GetStatus("n")->kind == "numbers");
  CHECK(mixed.library.GetStatus("n")->examples == 100);
  REQUIRE(mixed.Compile("", "proof_states", "c").ok());
  CHECK(mixed.library.GetStatus("c")->kind == "coq");
}

TEST_CASE("order, splits and filters work by the columns of any kind", "[kinds]") {
  Mixed mixed;
  const std::vector<std::int64_t> shuffled = ValuesOf(**mixed.Compile("shuffle: {seed: 3}\n"));
  CHECK(shuffled.size() == 100);
  CHECK_FALSE(std::is_sorted(shuffled.begin(), shuffled.end()));
  CHECK(std::set<std::int64_t>(shuffled.begin(), shuffled.end()).size() == 100);

  const std::string split = "split: {method: hash, proportions: [1, 1], take: ";
  const std::size_t train = ValuesOf(**mixed.Compile(split + "0}\n")).size();
  const std::size_t valid = ValuesOf(**mixed.Compile(split + "1}\n")).size();
  CHECK(train + valid == 100);
  CHECK(train > 20);
  CHECK(valid > 20);

  const auto odd = mixed.Compile("parity: {odd: true}\n");
  INFO(odd.status().message());
  REQUIRE(odd.ok());
  for (const std::int64_t value : ValuesOf(**odd)) CHECK(value % 2 == 1);
  CHECK((*odd)->counts().filtered == 50);
}

TEST_CASE("what a kind does not have is refused by name", "[kinds]") {
  Mixed mixed;
  CHECK(mixed.Compile("", "proof_states").status().message() ==
        "source: a dataset of kind numbers has numbers, runs, got 'proof_states'");
  CHECK(mixed.Compile("", "numbers", "c").status().message() ==
        "source: a dataset of kind coq has proof_states, definitions, got 'numbers'");
  CHECK(mixed.Compile("split: {method: file_prefix, prefixes: [[a]]}\n").status().message() ==
        "pipeline:5:17: split.method: file_prefix needs files; the source 'numbers' has none");
  CHECK(mixed.Compile("parity: {}\n", "proof_states", "c").status().message() ==
        "filter: the source 'proof_states' has no column 'odd'; it has identity, file, faithful, "
        "none_argument");
}

TEST_CASE("a source that does not name its examples has no cache", "[kinds][cached]") {
  Mixed mixed;
  CHECK(mixed.Compile("cache: {examples: memory}\n").status().message() ==
        "pipeline:5:19: cache.examples: what is built of the examples of 'numbers' depends on more "
        "than the dataset and the operations, so it cannot be kept; leave cache out");
}

TEST_CASE("another kind leaves the fingerprints of the product's pipelines alone", "[kinds]") {
  Mixed mixed;
  PlanLibraryOptions options;
  options.kinds = ProductKinds();
  options.datasets["c"].dir = mixed.dir / "coq";
  PlanLibrary alone(options, MakeNullLogger());
  PipelineSource text;
  text.yaml = "millrace: 1\ndataset: c\nsource: definitions\nbatch: {size: 10, remainder: keep}\n";
  CHECK((*alone.Compile(text))->facts().fingerprint() ==
        (*mixed.Compile("", "definitions", "c"))->facts().fingerprint());
  const Pipeline one = *alone.Parse(text);
  const Pipeline other = *mixed.library.Parse(text);
  for (const StageConfig& stage : one.stages()) {
    CHECK(stage.fingerprint == other.Find(stage.type->name)->fingerprint);
  }
}

}  // namespace
}  // namespace millrace::test
