// Plans that mix several datasets.

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "common/base/tables.h"
#include "common/batch/batch.h"
#include "common/batch/layout/integer_visit.h"
#include "common/transport/convert/tables.h"
#include "server/catalog/product_kinds.h"
#include "server/kinds/coq/generator/generator.h"
#include "server/plan/mix/mixed_source.h"
#include "server/plan/order/mix_order.h"
#include "server/plan/plan_library.h"
#include "tests/support/dataset_fixture.h"
#include "tests/support/number_kind.h"

namespace millrace::test {
namespace {

/// Plans over two datasets of numbers: `n` has 0 to 99, `m` has 1000 to 1029.
class MixedNumbers {
 public:
  MixedNumbers() : library_(Options(), MakeNullLogger()) {}

  Result<std::shared_ptr<const Plan>> Compile(const std::string& more, const std::string& in_m = "",
                                              const std::string& in_n = "") {
    PipelineSource text;
    text.yaml = "millrace: 1\nbranches:\n  n: {dataset: n, source: numbers, shuffle: {seed: 3}" +
                in_n + "}\n  m: {" + (in_m.starts_with("dataset") ? "" : "dataset: m, ") + in_m +
                "source: numbers, shuffle: {seed: 3}}\n" + more;
    return library_.Compile(text);
  }
  std::shared_ptr<const Plan> MustCompile(const std::string& more, const std::string& in_m = "",
                                          const std::string& in_n = "") {
    const auto plan = Compile(more, in_m, in_n);
    INFO(plan.status().message());
    REQUIRE(plan.ok());
    return *plan;
  }
  std::string ErrorOf(const std::string& more, const std::string& in_m = "",
                      const std::string& in_n = "") {
    const auto plan = Compile(more, in_m, in_n);
    REQUIRE_FALSE(plan.ok());
    return plan.status().message();
  }

 private:
  PlanLibraryOptions Options() {
    WriteNumbers(dir_ / "n", 100);
    std::vector<std::int64_t> numbers;
    for (std::int64_t i = 0; i < 30; ++i) numbers.push_back(1000 + i);
    WriteNumbers(dir_ / "m", numbers);
    PlanLibraryOptions options;
    options.kinds = ProductKinds().With(MakeNumberKind());
    options.datasets["n"].dir = dir_ / "n";
    options.datasets["m"].dir = dir_ / "m";
    return options;
  }

  TempDir dir_;
  PlanLibrary library_;
};

/// The values of an integer tensor of a batch.
std::vector<std::int64_t> IntegersOf(const PackedBatch& batch, std::string_view path) {
  std::vector<std::int64_t> values;
  const auto tensor = batch.Find(path);
  REQUIRE(tensor);
  for (std::size_t i = 0; i < batch.examples(); ++i) values.push_back(batch.ValueAt(*tensor, i));
  return values;
}

struct MixedRow {
  std::int64_t branch;
  std::int64_t value;
  std::int64_t example;
  friend bool operator==(const MixedRow&, const MixedRow&) = default;
};

/// The rows of an epoch, in order.
std::vector<MixedRow> RowsOfEpoch(const Plan& plan, std::uint64_t epoch, std::uint32_t world_size) {
  std::vector<MixedRow> rows;
  const StepArithmetic steps = *plan.facts().Steps(world_size);
  const auto scratch = plan.NewScratch();
  for (Position at{epoch, 0}; at.epoch == epoch; at = steps.Next(at)) {
    for (std::uint32_t rank = 0; rank < world_size; ++rank) {
      const auto batch = plan.Batch(epoch, steps.RankExamples(at, rank), *scratch);
      REQUIRE(batch.ok());
      const auto branches = IntegersOf(**batch, "branch");
      const auto values = IntegersOf(**batch, "value");
      const auto examples = IntegersOf(**batch, "example_id");
      for (std::size_t i = 0; i < branches.size(); ++i) {
        rows.push_back({branches[i], values[i], examples[i]});
      }
    }
  }
  return rows;
}

TEST_CASE("an epoch of a mix has every example of one branch, and passes over the other",
          "[plan][mix]") {
  MixedNumbers numbers;
  const auto plan = numbers.MustCompile(
      "mix: {weights: {n: 1, m: 1}, epoch: {of: n}}\nbatch: {size: 8, remainder: keep}\n");
  CHECK(plan->source()->examples() == 130);
  std::map<std::int64_t, int> times;  // of the values of m, in all epochs
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    const std::vector<MixedRow> rows = RowsOfEpoch(*plan, epoch, 2);
    CHECK(rows.size() == plan->planned_order().order->rows());
    std::set<std::int64_t> of_n;
    std::uint64_t of_m = 0;
    for (const MixedRow& row : rows) {
      if (row.branch == 0) {
        CHECK(row.value == row.example);
        CHECK(of_n.insert(row.value).second);
      } else {
        CHECK(row.value == 1000 + row.example);
        ++times[row.value];
        ++of_m;
      }
    }
    CHECK(of_n.size() == 100);
    CHECK(of_m == plan->planned_order().branches[1].rows);
  }
  // Passes go on from epoch to epoch, so no example comes twice more often than another.
  REQUIRE(times.size() == 30);
  const auto [least, most] = std::minmax_element(
      times.begin(), times.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  CHECK(most->second - least->second <= 1);
}

TEST_CASE("a mix goes on at any step, with any world size, and finds places", "[plan][mix]") {
  MixedNumbers numbers;
  const auto plan = numbers.MustCompile(
      "mix: {weights: {n: 7, m: 3}, seed: 5, epoch: 90}\nbatch: {global_size: 6}\n");
  const std::vector<MixedRow> one = RowsOfEpoch(*plan, 1, 1);
  CHECK(one == RowsOfEpoch(*plan, 1, 3));
  CHECK(one.size() == 90);
  std::map<ExampleId, std::vector<std::uint64_t>> places;
  for (std::uint64_t place = 0; place < one.size(); ++place) {
    const std::uint64_t first = one[place].branch == 0 ? 0 : 100;
    const ExampleId id(first + static_cast<std::uint64_t>(one[place].example));
    CHECK(plan->ExamplesOf(1, {place, 1}) == std::vector<ExampleId>{id});
    places[id].push_back(place);
  }
  for (std::uint64_t id = 0; id < 130; ++id) {
    std::vector<std::uint64_t> found;
    const ExamplePlaces told = plan->PlacesOf(1, ExampleId(id));
    for (const UnitRow& place : told.places) found.push_back(place.unit);
    CHECK(found == places[ExampleId(id)]);
    CHECK(plan->Selects(ExampleId(id)));
  }
}

TEST_CASE("two branches over one dataset come in different orders", "[plan][mix]") {
  MixedNumbers numbers;
  const auto plan = numbers.MustCompile(
      "mix: {weights: {n: 1, m: 1}, epoch: shortest}\nbatch: {size: 10, remainder: keep}\n",
      "dataset: n, ");
  std::vector<std::int64_t> orders[2];
  for (const MixedRow& row : RowsOfEpoch(*plan, 0, 1)) orders[row.branch].push_back(row.value);
  CHECK(orders[0].size() == 100);
  CHECK(orders[0] != orders[1]);
  for (auto& order : orders) {
    std::sort(order.begin(), order.end());
    CHECK(std::adjacent_find(order.begin(), order.end()) == order.end());
  }
}

TEST_CASE("each branch selects and excludes by itself", "[plan][mix]") {
  MixedNumbers numbers;
  const auto plan =
      numbers.MustCompile("mix: {weights: {n: 1, m: 1}, epoch: {of: m}}\nbatch: {size: 5}\n",
                          "parity: {odd: true}, exclude: {examples: [3, 5]}, ");
  CHECK(plan->planned_order().branches[1].examples == 15);
  CHECK(plan->planned_order().branches[0].examples == 100);
  CHECK_FALSE(plan->Selects(ExampleId(102)));
  CHECK(plan->PlacesOf(0, ExampleId(102)).why == ExamplePlaces::Absence::kFiltered);
  const auto scratch = plan->NewScratch();
  const std::vector<ExampleId> ids = {ExampleId(3), ExampleId(103), ExampleId(104)};
  const auto batch = plan->BatchOf(ids, 0, *scratch);
  REQUIRE(batch.ok());
  CHECK((*batch)->info().example_ids == std::vector<ExampleId>{ExampleId(3), ExampleId(104)});
  REQUIRE((*batch)->info().dropped.size() == 1);
  CHECK((*batch)->info().dropped[0] == DroppedExample{ExampleId(103), DropReason::kExcluded});
  CHECK(numbers
            .ErrorOf("mix: {weights: {n: 1, m: 1}, epoch: 9}\nbatch: {size: 5}\n",
                     "filter: {where: \"value < 0\"}, ")
            .find("branches.m: no example is selected, of 30") != std::string::npos);
}

TEST_CASE("branches may come to the same tensors by other ways, and types are widened",
          "[plan][mix]") {
  MixedNumbers numbers;
  const std::string mix = "mix: {weights: {n: 1, m: 1}, epoch: 20}\nbatch: {size: 20}\n";
  const std::string twice =
      "tensors: {twice: {expr: \"2 * x\"}}\noutput: [twice, x, branch, value]\n";
  const std::string of_m = "tensors: {x: {expr: \"value + 0.5\", dtype: float64}}, ";
  const std::string of_n = ", tensors: {x: {cast: value, dtype: int16}}";
  const auto plan = numbers.MustCompile(mix + twice, of_m, of_n);
  const auto scratch = plan->NewScratch();
  const auto batch = plan->Batch(0, {0, 20}, *scratch);
  REQUIRE(batch.ok());
  const auto x = (*batch)->Find("x");
  REQUIRE(x);
  CHECK((*batch)->tensors()[*x].spec.dtype == DType::kFloat64);
  const auto values = IntegersOf(**batch, "value");
  const auto branches = IntegersOf(**batch, "branch");
  const auto data = internal::ValuesAs<double>((*batch)->tensor_bytes(*x));
  REQUIRE(data.size() == 20);
  for (std::size_t i = 0; i < 20; ++i) {
    CHECK(data[i] == static_cast<double>(values[i]) + (branches[i] == 0 ? 0 : 0.5));
  }
  CHECK(std::set<std::int64_t>(branches.begin(), branches.end()).size() == 2);

  CHECK(numbers.ErrorOf(mix + twice, of_m) ==
        "branches: m comes to a tensor x, and n does not: expected the same tensors from all "
        "branches; define it in branches.n.tensors, or name in output what is wanted");
  CHECK(numbers.ErrorOf(mix + twice, "tensors: {x: {stack: [value, value]}}, ", of_n)
            .find("the tensor x is int16[batch] in n, and ") != std::string::npos);
  CHECK(
      numbers.ErrorOf(mix + twice, "tensors: {x: {cast: value, dtype: int8, at: consumer}}, ", of_n)
          .find("a tensor of a branch is made at the worker") != std::string::npos);
}

/// The texts of a column that the static data of a plan has.
const TextColumn& Texts(const NamedTables& tables, const char* table, const char* column) {
  return **tables.Texts(table, column);
}

TEST_CASE("labels of two Coq datasets are joined, and batches mean what they meant alone",
          "[plan][mix]") {
  TempDir dir;
  PlanLibraryOptions options;
  options.kinds = ProductKinds();
  for (const std::uint64_t seed : {1, 2}) {
    GeneratorOptions generate;
    generate.nodes = 6000;
    generate.files = 3;
    generate.seed = seed;
    const std::string id = seed == 1 ? "x" : "y";
    GeneratorReport report;
    REQUIRE(GenerateDataset(dir / id, generate, &report).ok());
    options.datasets[id].dir = dir / id;
  }
  PlanLibrary library(options, MakeNullLogger());
  const auto compile = [&](const std::string& yaml) {
    PipelineSource text;
    text.yaml = "millrace: 1\n" + yaml + "batch: {size: 8}\n";
    return library.Compile(text);
  };
  const std::string branches =
      "branches:\n  x: {dataset: x, source: proof_states}\n  y: {dataset: y, source: "
      "proof_states}\nmix: {weights: {x: 1, y: 2}, epoch: {of: x}}\n";
  CHECK(compile(branches).status().message().find("write `tables: joint`") != std::string::npos);
  const auto mixed = compile(branches + "tables: joint\n");
  INFO(mixed.status().message());
  REQUIRE(mixed.ok());
  const NamedTables joint = *DecodeTables(*(*mixed)->static_bytes());
  const auto mixed_scratch = (*mixed)->NewScratch();
  std::size_t own_labels = 0;  // of both datasets
  for (const SourceBranch& branch : (*mixed)->source()->branches()) {
    const auto alone = compile("dataset: " + branch.dataset + "\nsource: proof_states\n");
    REQUIRE(alone.ok());
    const NamedTables own = *DecodeTables(*(*alone)->static_bytes());
    own_labels += Texts(own, "node_labels", "name").size();
    const auto scratch = (*alone)->NewScratch();
    const std::uint64_t examples = branch.source->examples();
    REQUIRE(examples > 50);
    for (std::uint64_t i = 0; i < examples; i += 7) {
      const ExampleId own_id(i);
      const ExampleId mixed_id(branch.first + i);
      const auto a = *(*alone)->BatchOf({&own_id, 1}, 0, *scratch);
      const auto b = *(*mixed)->BatchOf({&mixed_id, 1}, 0, *mixed_scratch);
      REQUIRE(a->examples() == b->examples());
      if (a->examples() == 0) continue;
      for (std::size_t t = 0; t < a->tensors().size(); ++t) {
        const TensorPlace& tensor = a->tensors()[t];
        const auto other = b->Find(tensor.spec.path);
        REQUIRE(other);
        REQUIRE(b->tensors()[*other].rows == tensor.rows);
        const bool label = tensor.spec.path == "node_label" || tensor.spec.path == "definition";
        const bool tactic = tensor.spec.path == "tactic";
        const char* const table = label ? "node_labels" : "tactics";
        const char* const column = label ? "name" : "text";
        if (tensor.spec.path == "global_context") continue;  // joined_tables_test.cc has these
        for (std::size_t row = 0; row < tensor.rows; ++row) {
          const auto value = static_cast<std::size_t>(a->ValueAt(t, row));
          const auto mapped = static_cast<std::size_t>(b->ValueAt(*other, row));
          if (label || tactic) {
            CHECK(Texts(own, table, column)[value] == Texts(joint, table, column)[mapped]);
          } else {
            CHECK(value == mapped);
          }
        }
      }
      CHECK(b->ValueAt(*b->Find("branch"), 0) == (branch.name == "x" ? 0 : 1));
    }
  }
  CHECK(Texts(joint, "branches", "name")[1] == "y");
  // The classes of nodes are the same in both.
  CHECK(Texts(joint, "node_labels", "name").size() < own_labels);
}

TEST_CASE("joined digests depend on the order of datasets", "[plan][mix]") {
  const std::vector<Digest128> digests = {Xxh3("a"), Xxh3("b")};
  const std::vector<Digest128> turned = {Xxh3("b"), Xxh3("a")};
  CHECK(JoinDigests(digests) != JoinDigests(turned));
  CHECK(JoinDigests(digests) == Xxh3(digests[0].ToHex() + "\n" + digests[1].ToHex() + "\n"));
}

}  // namespace
}  // namespace millrace::test
