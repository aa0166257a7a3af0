// Plans that cut examples into chunks, from the pipeline's text to the batches.

#include <rapidcheck/catch.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/batch/batch.h"
#include "server/catalog/product_kinds.h"
#include "server/plan/columns/measured_source.h"
#include "server/plan/order/chunked_source.h"
#include "server/plan/plan_library.h"
#include "server/source/plan_parts.h"
#include "tests/support/dataset_fixture.h"
#include "tests/support/number_kind.h"
#include "tests/unit/server/plan/number_plans.h"
#include "tests/unit/server/plan/order/golden_orders.h"

namespace millrace::test {
namespace {

using Runs = std::vector<std::int64_t>;

/// Plans over runs of these lengths.
class ChunkPlans : public NumberPlans {
 public:
  explicit ChunkPlans(const Runs& lengths) : NumberPlans(lengths, "runs") {}
};

using Batches = std::vector<std::shared_ptr<const PackedBatch>>;

/// The batches of an epoch for some ranks, in the order of steps and ranks.
Batches BatchesOf(const Plan& plan, std::uint64_t epoch, std::uint32_t world_size = 1) {
  Batches batches;
  const StepArithmetic steps = *plan.facts().Steps(world_size);
  const auto scratch = plan.NewScratch();
  for (Position at{epoch, 0}; at.epoch == epoch; at = steps.Next(at)) {
    for (std::uint32_t rank = 0; rank < world_size; ++rank) {
      auto batch = plan.Batch(epoch, steps.RankExamples(at, rank), *scratch);
      INFO(batch.status().message());
      REQUIRE(batch.ok());
      batches.push_back(*std::move(batch));
    }
  }
  return batches;
}

/// One tensor's value in a row of a batch.
std::int64_t ValueIn(const PackedBatch& batch, const char* path, std::size_t row) {
  return batch.ValueAt(*batch.Find(path), row);
}

/// Example and chunk of every row of some batches, after a check of what the row has.
std::vector<std::pair<std::uint64_t, std::int64_t>> CheckedRows(const ChunkPlans& plans,
                                                                const Batches& batches,
                                                                std::int64_t size,
                                                                std::int64_t step) {
  std::vector<std::pair<std::uint64_t, std::int64_t>> rows;
  for (const auto& batch : batches) {
    for (std::size_t row = 0; row < batch->examples(); ++row) {
      const ExampleId id = batch->info().example_ids[row];
      const std::int64_t chunk = ValueIn(*batch, "chunk", row);
      const std::int64_t number = plans[id];
      CHECK(ValueIn(*batch, "value", row) == number);
      CHECK(ValueIn(*batch, "example_id", row) == static_cast<std::int64_t>(id.value()));
      const std::int64_t begin = chunk * step;
      const std::int64_t end = std::min(begin + size, number);
      const std::int64_t at = ValueIn(*batch, "run_splits", row);
      REQUIRE(ValueIn(*batch, "run_splits", row + 1) - at == end - begin);
      for (std::int64_t i = begin; i < end; ++i) {
        const auto element = static_cast<std::size_t>(at + i - begin);
        if (ValueIn(*batch, "run", element) == RunElement(number, i) &&
            ValueIn(*batch, "run/minus", element) == -RunElement(number, i)) {
          continue;
        }
        FAIL("chunk " << chunk << " of a run of " << number << ": wrong element " << i);
      }
      rows.emplace_back(id.value(), chunk);
    }
  }
  return rows;
}

/// Example and number of each chunk that there has to be.
std::vector<std::pair<std::uint64_t, std::int64_t>> AllChunks(const Runs& lengths,
                                                              std::int64_t size,
                                                              std::int64_t step) {
  std::vector<std::pair<std::uint64_t, std::int64_t>> chunks;
  for (std::size_t example = 0; example < lengths.size(); ++example) {
    const std::int64_t more = std::max<std::int64_t>(0, lengths[example] - size);
    for (std::int64_t chunk = 0; chunk <= (more + step - 1) / step; ++chunk) {
      chunks.emplace_back(example, chunk);
    }
  }
  return chunks;
}

/// 0 to 99, each once, in a scattered order.
Runs ScatteredRuns() {
  Runs lengths;
  for (std::int64_t i = 0; i < 100; ++i) lengths.push_back(i * 37 % 100);
  return lengths;
}

std::string Cut(std::int64_t size, std::int64_t step) {
  return fmt::format("chunk: {{tensor: run, size: {}, step: {}}}\n", size, step);
}

TEST_CASE("a plan has the chunks that are recorded", "[plan][golden][chunk]") {
  for (const auto& [params, expected] : GoldenOrders("chunk")) {
    ChunkPlans plans(params["lengths"].get<Runs>());
    const auto size = params["size"].get<std::int64_t>();
    const auto step = params["step"].get<std::int64_t>();
    const auto plan = plans.MustCompile(Cut(size, step) + "batch: {size: 5, remainder: keep}\n");
    CHECK(plan->planned_order().order->units() == Number(expected["units"]));
    std::vector<std::vector<std::uint64_t>> got;
    for (const auto& batch : BatchesOf(*plan, 0)) {
      for (std::size_t row = 0; row < batch->examples(); ++row) {
        const std::int64_t length =
            ValueIn(*batch, "run_splits", row + 1) - ValueIn(*batch, "run_splits", row);
        const std::int64_t begin = ValueIn(*batch, "chunk", row) * step;
        got.push_back({batch->info().example_ids[row].value(), static_cast<std::uint64_t>(begin),
                       static_cast<std::uint64_t>(begin + length)});
      }
    }
    CHECK(got == expected["chunks"].get<std::vector<std::vector<std::uint64_t>>>());
  }
}

TEST_CASE(
    "every chunk comes once an epoch, with its part of the tensor and all else of its example",
    "[plan][chunk]") {
  ChunkPlans plans(ScatteredRuns());
  const auto wanted = AllChunks(ScatteredRuns(), 30, 20);
  for (const char* more :
       {"batch: {size: 16, remainder: keep}\n", "shuffle: {}\nbatch: {size: 7, remainder: keep}\n",
        "shuffle: {block: 7, window: 3}\nbatch: {size: 16, remainder: keep}\n",
        "shuffle: {}\nbatch: {global_size: 60, remainder: keep}\n",
        "shuffle: {}\nbatch: {bucket: {by: run.length, count: 3, budget: 300}, remainder: keep}\n",
        "shuffle: {block: 20}\nbatch: {size: 16, remainder: keep}\nbalance: {by: run.length, "
        "group: 4}\n"}) {
    CAPTURE(more);
    const auto plan = plans.MustCompile(Cut(30, 20) + more);
    auto rows = CheckedRows(plans, BatchesOf(*plan, 2, 3), 30, 20);
    std::sort(rows.begin(), rows.end());
    CHECK(rows == wanted);
  }
}

TEST_CASE("whatever is cut and ordered, each chunk comes once and is where its place says",
          "[plan][chunk]") {
  rc::prop("chunks come once", [] {
    const auto lengths =
        *rc::gen::nonEmpty(rc::gen::container<Runs>(rc::gen::inRange<std::int64_t>(0, 60)));
    const auto size = *rc::gen::inRange<std::int64_t>(1, 70);
    const auto step = *rc::gen::inRange<std::int64_t>(1, size + 1);
    const std::string order = *rc::gen::element<std::string>(
        "batch: {size: 3, remainder: keep}\n",
        "shuffle: {block: 3}\nbatch: {size: 4, remainder: keep}\n",
        "shuffle: {seed: 4}\nbatch: {bucket: {by: run.length + 1, count: 4, size: 3}, remainder: "
        "keep}\n",
        "shuffle: {}\nbatch: {size: 2, remainder: keep}\nbalance: {by: run.length, group: 3}\n");
    const auto epoch = *rc::gen::inRange<std::uint64_t>(0, 1000);
    const auto world_size = *rc::gen::inRange<std::uint32_t>(1, 4);
    ChunkPlans plans(lengths);
    const auto plan = plans.MustCompile(Cut(size, step) + order);
    auto rows = CheckedRows(plans, BatchesOf(*plan, epoch, world_size), size, step);
    std::sort(rows.begin(), rows.end());
    RC_ASSERT(rows == AllChunks(lengths, size, step));
    const Source& source = *plan->source();
    RC_ASSERT(source.whole_examples() == lengths.size());
    std::uint64_t next = 0;
    for (std::uint64_t example = 0; example < lengths.size(); ++example) {
      const ChunkIds ids = source.ChunksOf(ExampleId(example));
      RC_ASSERT(ids.first.value() == next);
      for (std::uint64_t i = 0; i < ids.count; ++i, ++next) {
        const ExampleId id(next);
        RC_ASSERT(source.ChunkOf(id) == (ExampleChunk{ExampleId(example), i}));
        const ExamplePlaces found = plan->PlacesOf(epoch, id);
        RC_ASSERT(found.places.size() == 1u);
        const auto [unit, row] = found.places[0];
        RC_ASSERT(plan->ExamplesOf(epoch, {unit, 1}).at(row) == id);
      }
    }
    RC_ASSERT(next == source.examples());
  });
}

TEST_CASE("the length is that of a chunk, and other columns are those of the example",
          "[plan][chunk]") {
  ChunkPlans plans({25, 0, 40, 7});
  const auto plan = plans.MustCompile(Cut(20, 15) + "batch: {size: 1}\n");
  const Source& source = *plan->source();
  REQUIRE(source.examples() == 7);
  const auto read = [&](const char* name, std::uint64_t first, std::size_t count) {
    std::vector<std::int64_t> values(count);
    const ColumnValues wanted{*source.FindColumn(name), values};
    source.ReadColumns(ExampleId(first), {&wanted, 1});
    return values;
  };
  CHECK(read("value", 0, 7) == Runs{25, 25, 0, 40, 40, 40, 7});
  CHECK(read("run.length", 0, 7) == Runs{20, 10, 0, 20, 20, 10, 7});
  CHECK(read("value", 1, 3) == Runs{25, 0, 40});
  CHECK(read("run.length", 4, 2) == Runs{20, 10});
  CHECK(read("run.length", 5, 1) == Runs{10});
}

TEST_CASE("batches of buckets have chunks of the lengths of one bucket", "[plan][chunk]") {
  ChunkPlans plans(ScatteredRuns());
  const auto plan = plans.MustCompile(
      Cut(30, 30) +
      "shuffle: {}\nbatch: {bucket: {by: run.length, bounds: [10, 20, 30], size: 8}, remainder: "
      "keep}\n");
  for (const auto& batch : BatchesOf(*plan, 1)) {
    std::set<std::int64_t> buckets;
    for (std::size_t row = 0; row < batch->examples(); ++row) {
      const std::int64_t length =
          ValueIn(*batch, "run_splits", row + 1) - ValueIn(*batch, "run_splits", row);
      buckets.insert(std::max<std::int64_t>(0, length - 1) / 10);
    }
    CHECK(buckets.size() == 1);
  }
}

TEST_CASE("a filter by the length leaves chunks out, and one by the example all of its chunks",
          "[plan][chunk]") {
  ChunkPlans plans(ScatteredRuns());
  const auto long_ones = plans.MustCompile(
      Cut(30, 30) + "filter: {where: run.length >= 15}\nbatch: {size: 8, remainder: keep}\n");
  for (const auto& [example, chunk] : CheckedRows(plans, BatchesOf(*long_ones, 0), 30, 30)) {
    CHECK(std::min<std::int64_t>(30, plans[ExampleId(example)] - chunk * 30) >= 15);
  }
  CHECK(long_ones->counts().source_examples == AllChunks(ScatteredRuns(), 30, 30).size());
  CHECK(long_ones->counts().filtered ==
        AllChunks(ScatteredRuns(), 30, 30).size() - long_ones->counts().selected);

  const auto odd = plans.MustCompile(
      Cut(30, 30) + "filter: {where: value % 2 == 1}\nbatch: {size: 8, remainder: keep}\n");
  Runs ones;
  for (const std::int64_t length : ScatteredRuns()) {
    if (length % 2 == 1) ones.push_back(length);
  }
  CHECK(CheckedRows(plans, BatchesOf(*odd, 0), 30, 30).size() == AllChunks(ones, 30, 30).size());
}

TEST_CASE("a filter by the length keeps what cannot be built, to be dropped in its place",
          "[plan][chunk]") {
  ChunkPlans plans({90, 5, kLongestRun + 1, 5});
  const auto plan = plans.MustCompile(
      Cut(30, 30) + "filter: {where: run.length >= 15}\nbatch: {size: 9, remainder: keep}\n");
  CHECK(plan->counts().selected == 4);
  const auto batch = BatchesOf(*plan, 0).at(0);
  CHECK(batch->info().example_ids == std::vector<ExampleId>(3, ExampleId(0)));
  CHECK(batch->info().dropped ==
        std::vector<DroppedExample>{{ExampleId(2), DropReason::kTooLarge}});
}

TEST_CASE("all chunks of an example are on one side of a split", "[plan][chunk]") {
  ChunkPlans plans(ScatteredRuns());
  std::map<std::uint64_t, std::set<int>> sides;
  std::size_t chunks = 0;
  for (int take : {0, 1}) {
    const auto plan = plans.MustCompile(
        Cut(9, 5) + fmt::format("split: {{method: hash, proportions: [1, 1], take: {}}}\n"
                                "batch: {{size: 8, remainder: keep}}\n",
                                take));
    for (const auto& [example, chunk] : CheckedRows(plans, BatchesOf(*plan, 0), 9, 5)) {
      sides[example].insert(take);
      ++chunks;
    }
  }
  CHECK(chunks == AllChunks(ScatteredRuns(), 9, 5).size());
  for (const auto& [example, of] : sides) CHECK(of.size() == 1);
}

TEST_CASE("all chunks of an example that is dropped are dropped in their places",
          "[plan][chunk][exclude]") {
  Runs lengths = ScatteredRuns();
  lengths[20] = kLongestRun + 5;
  ChunkPlans plans(lengths);
  const std::string more = "shuffle: {}\nbatch: {size: 8, remainder: keep}\n";
  const auto whole = plans.MustCompile(Cut(10, 10) + more);
  const auto some = plans.MustCompile(Cut(10, 10) + more + "exclude: {examples: [3, 99]}\n");
  CHECK(some->facts().order_fingerprint() == whole->facts().order_fingerprint());
  const auto all = BatchesOf(*whole, 0);
  const auto left = BatchesOf(*some, 0);
  std::map<std::uint64_t, std::uint64_t> dropped;
  REQUIRE(all.size() == left.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<ExampleId> kept = all[i]->info().example_ids;
    for (const DroppedExample& one : left[i]->info().dropped) {
      ++dropped[one.id.value()];
      CHECK(one.reason == (one.id.value() == 20 ? DropReason::kTooLarge : DropReason::kExcluded));
      std::erase(kept, one.id);
    }
    CHECK(left[i]->info().example_ids == kept);
    CHECK(left[i]->info().planned_examples == all[i]->info().planned_examples);
  }
  const auto chunks = [&](std::uint64_t id) {
    return some->source()->ChunksOf(ExampleId(id)).count;
  };
  // What cannot be built has no length, so it is one chunk.
  CHECK(chunks(20) == 1);
  CHECK(chunks(99) == 7);
  CHECK(dropped == std::map<std::uint64_t, std::uint64_t>{{3, chunks(3)}, {20, 1}, {99, 7}});
  CHECK(plans.ErrorOf(Cut(10, 10) + more + "exclude: {examples: [100]}\n")
            .find("exclude.examples: there is no example 100: the source has 100, from 0 on") !=
        std::string::npos);
}

TEST_CASE("the same lengths are measured once for every size of chunks", "[plan][chunk][columns]") {
  ChunkPlans plans(ScatteredRuns());
  const auto one = plans.MustCompile(Cut(10, 10) + "batch: {size: 8}\n");
  CHECK(plans.measured() == 1);
  const auto other = plans.MustCompile(Cut(20, 7) + "batch: {size: 8}\n");
  const auto bucket =
      plans.MustCompile("batch: {bucket: {by: run.length, count: 2, size: 4}, remainder: keep}\n");
  CHECK(plans.measured() == 1);
  CHECK_FALSE(one->facts().fingerprint() == other->facts().fingerprint());
  CHECK_FALSE(one->facts().order_fingerprint() == other->facts().order_fingerprint());
}

TEST_CASE("chunks that do not overlap are what `step` left away means", "[plan][chunk]") {
  ChunkPlans plans({25, 10});
  const auto plan = plans.MustCompile("chunk: {tensor: run, size: 10}\nbatch: {size: 1}\n");
  CHECK(plan->source()->examples() == 4);
}

TEST_CASE("examples without elements have a chunk without elements each", "[plan][chunk]") {
  ChunkPlans plans({0, 0, 0});
  const auto plan = plans.MustCompile(Cut(4, 2) + "batch: {size: 3}\n");
  CHECK(CheckedRows(plans, BatchesOf(*plan, 0), 4, 2) == AllChunks({0, 0, 0}, 4, 2));
}

TEST_CASE("a source without examples has no chunks", "[plan][chunk]") {
  ChunkPlans plans({});
  const auto plan = plans.MustCompile(Cut(4, 2) + "batch: {size: 3}\n");
  CHECK(plan->source()->examples() == 0);
  CHECK(plan->facts().Steps(1)->Start({}).status().code() == StatusCode::kFailedPrecondition);
  CHECK(plans.ErrorOf(Cut(4, 2) + "batch: {bucket: {by: run.length, count: 2, size: 3}}\n")
            .find("an epoch has no batch: of 0 selected examples") != std::string::npos);
}

TEST_CASE("a tensor is named as expressions write it, and cut with those of the same rows",
          "[plan][chunk]") {
  ChunkPlans plans({25, 0, 40});
  const auto plan = plans.MustCompile(
      "chunk: {tensor: run.minus, size: 20, step: 15}\nbatch: {size: 2, remainder: keep}\n");
  CHECK(CheckedRows(plans, BatchesOf(*plan, 0), 20, 15).size() == 6);
}

TEST_CASE("a chunk key that does not suit the source is refused with what may be cut",
          "[plan][chunk]") {
  ChunkPlans plans({25, 0, 40});
  const std::string batch = "batch: {size: 1}\n";
  CHECK(plans.ErrorOf("chunk: {tensor: rnu, size: 3}\n" + batch) ==
        "pipeline:4:17: chunk.tensor: the source 'runs' has no tensor 'rnu'; expected one of run, "
        "run.minus");
  CHECK(
      plans.ErrorOf("chunk: {tensor: value, size: 3}\n" + batch) ==
      "pipeline:4:17: chunk.tensor: value is not ragged, so it has no elements that could be cut; "
      "expected one of run, run.minus");
  CHECK(plans.ErrorOf("chunk: {tensor: run, size: 3, step: 4}\n" + batch) ==
        "pipeline:4:37: chunk.step: expected at most chunk.size, 3, so that no element is left "
        "out, got 4");
  CHECK(plans.ErrorOf("source: numbers\nchunk: {tensor: run, size: 3}\n" + batch)
            .find("duplicate key") != std::string::npos);
  CHECK(plans.measured() == 0);
}

TEST_CASE("an example that contradicts its length is damage", "[plan][chunk]") {
  const TempDir dir;
  WriteNumbers(dir / "n", Runs{25, 0, 40});
  const auto kind = MakeNumberKind();
  const auto opened = kind->Open(dir / "n", {});
  REQUIRE(opened.status.ok());
  PlanParts parts;
  parts.Edit<SourcePart>().name = "runs";
  parts.Edit<BatchPart>().size = 1;
  parts.Edit<ChunkPart>() = {"run", 10, 10};
  const auto source = *kind->sources().Make("runs", opened.dataset, parts);
  const ChunkPart& part = parts.Get<ChunkPart>();
  CHECK(CutIntoChunks(source, part)
            .status()
            .message()
            .starts_with("chunk.tensor: the source 'runs' has no column 'run.length'"));
  const std::vector<std::uint64_t> wrong = {25, 0, 41};
  const auto plan = *Plan::Compile(
      parts, {1, 1}, {1, 2},
      *CutIntoChunks(
          WithColumns(source, {{"run.length", std::make_shared<const MeasuredValues>(wrong)}}),
          part));
  const auto scratch = plan->NewScratch();
  CHECK(plan->Batch(0, {0, 4}, *scratch).ok());
  const Status damaged = plan->Batch(0, {4, 1}, *scratch).status();
  CHECK(damaged.code() == StatusCode::kDataLoss);
  CHECK(damaged.message() ==
        "example 2: run has 40 elements, but the column run.length says 41, by which it is cut "
        "into chunks");
}

TEST_CASE("examples are not cut into more chunks than there may be", "[plan][chunk]") {
  const TempDir dir;
  WriteNumbers(dir / "n", Runs{1, 2});
  const auto kind = MakeNumberKind();
  PlanParts parts;
  const auto source = *kind->sources().Make("runs", kind->Open(dir / "n", {}).dataset, parts);
  const auto cut = [&](std::uint64_t length) {
    const std::vector<std::uint64_t> lengths = {1, length};
    return CutIntoChunks(
        WithColumns(source, {{"run.length", std::make_shared<const MeasuredValues>(lengths)}}),
        {"run", 4, 2});
  };
  CHECK(cut(std::uint64_t{1} << 34).status().message() ==
        "chunk: the examples would be cut into more than 4294967296 chunks, which is the most; "
        "make chunk.step or chunk.size larger than 2 and 4");
  CHECK(cut(std::uint64_t{1} << 41).status().message() ==
        "chunk.tensor: expected lengths from 0 to 1099511627776, got 2199023255552 for example 1");
}

}  // namespace
}  // namespace millrace::test
