// A cursor as a checkpoint brings it, with plans of every form of order: it is refused, or a
// session begins there and gets batches that the plan's own order has at that place.
//
// An input is the form, a world size, and the text, in which `@` stands for the order's
// fingerprint.
#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/log.h"
#include "common/batch/batch.h"
#include "common/epoch/cursor.h"
#include "server/catalog/product_kinds.h"
#include "server/plan/plan_library.h"
#include "server/source/source.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"
#include "tests/support/dataset_fixture.h"
#include "tests/support/number_kind.h"

namespace millrace::fuzz {
namespace {

constexpr const char* kForms[] = {
    "shuffle: {seed: 1}\nbatch: {size: 7, remainder: keep}\n",
    "shuffle: {seed: 1}\nbatch: {global_size: 60}\n",
    "shuffle: {seed: 1, block: 16, window: 3}\nbatch: {size: 7}\n",
    "shuffle: {seed: 1}\nbatch: {bucket: {by: value, count: 5, budget: 400}, remainder: keep}\n",
    "batch: {bucket: {by: value, bounds: [20, 90], size: 4, together: 3, above: drop}}\n",
    "shuffle: {seed: 1}\nbatch: {size: 7, remainder: keep}\nbalance: {by: value, group: 5}\n",
    "shuffle: {seed: 1, block: 16}\nbatch: {size: 7}\nbalance: {by: value, group: 64}\n",
    "source: runs\npack: {tensor: run, size: 64, method: fit, window: 20, seed: 2, after: [3]}\n"
    "shuffle: {seed: 1}\nbatch: {size: 5}\nbalance: {by: pack.squares, group: 4}\n",
    "source: runs\npack: {tensor: run, size: 90, method: concat}\nbatch: {global_size: 6, "
    "remainder: keep}\n",
    "branches:\n  a: {dataset: n, source: numbers, shuffle: {seed: 1}}\n  b: {dataset: n, source: "
    "numbers, filter: {where: \"value > 60\"}}\nmix: {weights: {a: 5, b: 2}, epoch: {of: "
    "a}}\nbatch: "
    "{size: 7, remainder: keep}\n",
};
constexpr std::uint32_t kMostRanks = 12;
constexpr int kMostSteps = 4;  // that are read from a place

/// The plans of all forms, over one dataset of numbers.
class Plans {
 public:
  Plans() {
    std::vector<std::int64_t> numbers;
    for (std::int64_t i = 0; i < 211; ++i) numbers.push_back(i * i % 101);
    test::WriteNumbers(dir_ / "numbers", numbers);
    PlanLibraryOptions options;
    options.kinds = ProductKinds().With(test::MakeNumberKind());
    options.datasets["n"].dir = dir_ / "numbers";
    PlanLibrary library(options, MakeNullLogger());
    for (const char* form : kForms) {
      const std::string_view text = form;
      std::string yaml = "millrace: 1\n";
      if (!text.starts_with("branches:")) yaml += "dataset: n\n";
      if (text.find("source:") == std::string_view::npos) yaml += "source: numbers\n";
      const auto plan = library.Compile(PipelineSource{.yaml = yaml + form});
      RequireOk(plan.status(), form);
      plans_.push_back(*plan);
    }
  }
  const Plan& operator[](std::size_t form) const { return *plans_[form]; }

 private:
  const test::TempDir dir_;
  std::vector<std::shared_ptr<const Plan>> plans_;
};

/// Checks the batch of some units: its examples are those of the order, and are found there again.
void CheckBatch(const Plan& plan, std::uint64_t epoch, ExampleRange units, BatchScratch& scratch) {
  const auto batch = plan.Batch(epoch, units, scratch);
  RequireOk(batch.status(), "the batch of a step");
  const std::vector<ExampleId>& ids = (*batch)->info().example_ids;
  Require(ids == plan.ExamplesOf(epoch, units), "a batch has the examples of its units");
  for (const ExampleId id : ids) {
    const ExamplePlaces found = plan.PlacesOf(epoch, id);
    Require(found.places.size() == 1 || !plan.source()->branches().empty(),
            "an example comes once an epoch, but for mixes");
    const bool here =
        std::any_of(found.places.begin(), found.places.end(), [&](const UnitRow& place) {
          return place.unit >= units.first && place.unit - units.first < units.count;
        });
    Require(here, "an example is found again");
  }
}

/// Reads some steps from a place, as a session does that goes on there.
void ReadFrom(const Plan& plan, const StepArithmetic& steps, Position wanted) {
  const Result<Position> start = steps.Start(wanted);
  if (!start.ok()) return;
  Require(*start >= wanted, "a session goes on, and not back");
  const auto scratch = plan.NewScratch();
  Position at = *start;
  for (int i = 0; i < kMostSteps; ++i) {
    std::uint64_t first = at.example;
    for (std::uint32_t rank = 0; rank < steps.options().world_size; ++rank) {
      const ExampleRange units = steps.RankExamples(at, rank);
      if (units.count == 0) continue;
      Require(units.first == first, "ranks have the units of a step one after the other");
      first += units.count;
      CheckBatch(plan, at.epoch, units, *scratch);
    }
    const Position next = steps.Next(at);
    Require(next > at && (next.epoch > at.epoch || next.example == first),
            "a step ends where the next begins");
    at = next;
  }
}

}  // namespace
}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  static const fuzz::Plans plans;
  fuzz::Input in(data, size);
  const Plan& plan = plans[in.Byte() % std::size(fuzz::kForms)];
  const std::uint32_t ranks = 1 + in.Byte() % fuzz::kMostRanks;
  const Fingerprint& order = plan.facts().order_fingerprint();
  std::string text;
  for (const char c : in.rest()) c == '@' ? text += order.ToString() : text += c;
  const Result<Position> place = Cursor::PlaceIn(order, text);
  if (!place.ok()) {
    fuzz::Require(place.status().code() == StatusCode::kInvalidArgument ||
                      place.status().code() == StatusCode::kFailedPrecondition,
                  "a wrong cursor is refused as such: " + place.status().message());
    return 0;
  }
  const auto steps = plan.facts().Steps(ranks);
  if (!steps.ok()) return 0;  // the step of all ranks cannot be shared by so many
  fuzz::ReadFrom(plan, *steps, *place);
  return 0;
}

std::vector<std::string> millrace::fuzz::Seeds() {
  std::vector<std::string> seeds;
  for (std::size_t form = 0; form < std::size(kForms); ++form) {
    for (const std::uint64_t ranks : {1, 2, 3, 12}) {
      const std::string begin = NumberBytes(form, 1) + NumberBytes(ranks - 1, 1) + "v2,@:";
      for (const char* place : {"0:0", "1:17", "3:48", "4611686018427387904:1", "7:300",
                                "18446744073709551615:18446744073709551615"}) {
        seeds.push_back(begin + place);
      }
    }
  }
  seeds.push_back(NumberBytes(3, 2) + "v2,@:0:5,@:0:5");
  seeds.push_back(NumberBytes(3, 2) + "v1,@:0:5");
  return seeds;
}
