// Plans over datasets of records, from the text of a pipeline to a batch.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/hash.h"
#include "common/batch/batch.h"
#include "server/catalog/product_kinds.h"
#include "server/kinds/records/generator/records_generator.h"
#include "server/plan/plan_library.h"
#include "tests/support/dataset_fixture.h"
#include "tests/unit/server/kinds/records/records_folder.h"
#include "tests/unit/server/plan/number_plans.h"

namespace millrace::test {
namespace {

using Catch::Contains;
using Catch::StartsWith;
using BatchPtr = std::shared_ptr<const PackedBatch>;

/// Plans over a dataset of records, which `write` writes.
class RecordPlans {
 public:
  explicit RecordPlans(const std::function<void(const std::filesystem::path&)>& write) {
    std::filesystem::create_directories(dir_ / "r");
    write(dir_ / "r");
    PlanLibraryOptions options;
    options.kinds = ProductKinds();
    options.datasets["r"].dir = dir_ / "r";
    options.cache_dir = dir_ / "cache";
    options.index_threads = 1;
    library_ = std::make_unique<PlanLibrary>(std::move(options), MakeNullLogger());
  }

  Result<std::shared_ptr<const Plan>> Compile(const std::string& source, const std::string& more) {
    PipelineSource text;
    text.name = "p.yaml";
    text.yaml = "millrace: 1\ndataset: r\nsource: " + source + "\n" + more;
    return library_->Compile(text);
  }
  std::shared_ptr<const Plan> MustCompile(
      const std::string& source, const std::string& more = "batch: {size: 8, remainder: keep}\n") {
    const auto plan = Compile(source, more);
    INFO(plan.status().message());
    REQUIRE(plan.ok());
    return *plan;
  }
  std::string ErrorOf(const std::string& source,
                      const std::string& more = "batch: {size: 8, remainder: keep}\n") {
    const auto plan = Compile(source, more);
    REQUIRE_FALSE(plan.ok());
    return plan.status().message();
  }

 private:
  TempDir dir_;
  std::unique_ptr<PlanLibrary> library_;
};

/// 100 generated records in three files.
RecordPlans GeneratedRecords() {
  return RecordPlans([](const std::filesystem::path& dir) {
    GenerateRequest request;
    request.params = Params(
        {{"records", std::int64_t{100}}, {"files", std::int64_t{3}}, {"floats", std::int64_t{9}}});
    REQUIRE(GenerateRecords(dir, request).ok());
  });
}

/// Numbers 0 to 29 in three files; the third record's feature s is a text.
RecordPlans NumberFiles() {
  return RecordPlans([](const std::filesystem::path& dir) {
    WriteRecords(dir / "a.tfrecord",
                 {NumberExample(0), NumberExample(1), ExampleOf([](ExampleBuilder& builder) {
                    builder.AddBytes("d", "");
                    builder.AddBytes("s", "two");
                  })});
    WriteNumberRecords(dir / "b.tfrecord", 3, 17);
    WriteNumberRecords(dir / "sub/c.tfrecord", 20, 10);
  });
}

const std::string kAll = "{records: {d: \"bytes[194]\", s: int64, x: \"float32[*]\"}}";
const std::string kScores = "{records: {s: int64}}";

std::vector<std::uint64_t> IdsOf(const std::vector<BatchPtr>& batches) {
  std::vector<std::uint64_t> ids;
  for (const BatchPtr& batch : batches) {
    for (const ExampleId id : batch->info().example_ids) ids.push_back(id.value());
  }
  return ids;
}

Digest128 DigestOf(const std::vector<BatchPtr>& batches) {
  std::string hashes;
  for (const BatchPtr& batch : batches) hashes += batch->payload_hash().ToHex() + " ";
  return Xxh3(hashes);
}

TEST_CASE("an epoch over records has every record once, and the recorded bytes", "[records_plan]") {
  RecordPlans plans = GeneratedRecords();
  const auto digest = [&](const std::string& more) {
    const auto plan = plans.MustCompile(kAll, more);
    const auto batches = ReadEpoch(*plan, 1, 2);
    std::vector<std::uint64_t> ids = IdsOf(batches);
    std::sort(ids.begin(), ids.end());
    std::vector<std::uint64_t> all(100);
    std::iota(all.begin(), all.end(), 0);
    CHECK(ids == all);
    return DigestOf(batches).ToHex();
  };
  CHECK(digest("batch: {size: 8, remainder: keep}\n") == "42a91ef399c9462655a3663897c45a94");
  CHECK(digest("shuffle: {seed: 3}\nbatch: {size: 8, remainder: keep}\n") ==
        "913797b826ee23fa4b5dc76c90f9a38a");
  CHECK(digest("shuffle: {seed: 3, block: 16}\nbatch: {size: 8, remainder: keep}\n") ==
        "5ad49ed0ba699ce9b9e57bd3e588bbc8");
}

TEST_CASE("a feature that is in no record is an error with line and column", "[records_plan]") {
  RecordPlans plans = NumberFiles();
  CHECK(plans.ErrorOf("{records: {d: \"bytes[*]\", image: int64}}") ==
        "p.yaml:3:35: source.records.image: no record of the dataset has a feature 'image'; those "
        "that occur: d (bytes), s (bytes or int64)");
  CHECK_THAT(
      plans.ErrorOf("\n  records:\n    s: int64\n    d: int64"),
      StartsWith("p.yaml:6:5: source.records.d: the feature 'd' holds bytes in every record"));
  CHECK_THAT(plans.ErrorOf("{records: {y: {feature: z, type: int64}}}"),
             StartsWith("p.yaml:3:20: source.records.y: no record"));
}

TEST_CASE("a bad record fails its batch, is dropped, or is excluded", "[records_plan]") {
  RecordPlans plans = NumberFiles();
  const auto plan = plans.MustCompile(kScores);
  const auto scratch = plan->NewScratch();
  const Status failed = plan->Batch(0, {0, 8}, *scratch).status();
  CHECK(failed.code() == StatusCode::kDataLoss);
  CHECK_THAT(
      failed.message(),
      Contains("file a.tfrecord, record 2 at byte ") &&
          Contains("bad_record: feature s has another type; to go on without it, write "
                   "`exclude: {examples: [2]}`, or `on_error: drop` beside `records` for all"));
  CHECK(plan->Batch(0, {8, 8}, *scratch).ok());
  const auto rest = [&](const std::string& source, const std::string& more) {
    const auto batches = ReadEpoch(*plans.MustCompile(source, more), 0, 1);
    REQUIRE(batches.front()->info().dropped.size() == 1);
    CHECK(batches.front()->info().dropped[0].id == ExampleId(2));
    return DigestOf(batches);
  };
  const Digest128 dropped =
      rest("{records: {s: int64}, on_error: drop}", "batch: {size: 8, remainder: keep}\n");
  CHECK(dropped == rest(kScores, "batch: {size: 8, remainder: keep}\nexclude: {examples: [2]}\n"));
}

TEST_CASE("a record with a wrong checksum of its data stops all plans but those that drop it",
          "[records_plan]") {
  RecordPlans plans([](const std::filesystem::path& dir) {
    WriteNumberRecords(dir / "a.tfrecord", 0, 17);
    WriteNumberRecords(dir / "b.tfrecord", 20, 10);
    FlipByte(dir / "a.tfrecord", 13);
  });
  const std::string error = plans.ErrorOf(kScores);
  CHECK_THAT(error, Contains("has damaged files (a.tfrecord: at byte 0: record 0: checksum of the "
                             "data); put them back"));
  CHECK_THAT(error, Contains("write `exclude: {files: [\"a.tfrecord\"]}`; or, to go on without the "
                             "damaged records alone, `on_error: drop` beside `records`"));
  const auto ids = [&](const std::string& source, const std::string& more) {
    std::vector<std::uint64_t> all = IdsOf(
        ReadEpoch(*plans.MustCompile(source, "batch: {size: 8, remainder: keep}\n" + more), 0, 1));
    std::sort(all.begin(), all.end());
    return all;
  };
  std::vector<std::uint64_t> sound(26);
  std::iota(sound.begin(), sound.end(), 1);
  CHECK(ids("{records: {s: int64}, on_error: drop}", "") == sound);
  CHECK(ids(kScores, "exclude: {files: [a.tfrecord]}\n") ==
        std::vector<std::uint64_t>(sound.begin() + 16, sound.end()));
}

TEST_CASE("an excluded file's records keep their places and are dropped there", "[records_plan]") {
  RecordPlans plans = NumberFiles();
  const auto batches =
      ReadEpoch(*plans.MustCompile(kScores,
                                   "batch: {size: 8, remainder: keep}\nexclude: {files: "
                                   "[a.tfrecord, sub/c.tfrecord]}\n"),
                0, 1);
  std::size_t dropped = 0;
  for (const BatchPtr& batch : batches) dropped += batch->info().dropped.size();
  CHECK(batches.size() == 4);
  CHECK(dropped == 13);
}

TEST_CASE("records are selected by columns, splits and prefixes", "[records_plan]") {
  RecordPlans plans = NumberFiles();
  const std::string drop = "{records: {s: int64}, on_error: drop}";
  const auto ids = [&](const std::string& more) {
    return IdsOf(
        ReadEpoch(*plans.MustCompile(drop, "batch: {size: 8, remainder: keep}\n" + more), 0, 1));
  };
  std::vector<std::uint64_t> large;
  const std::size_t bound = NumberExample(5).size();
  for (std::uint64_t id = 3; id < 30; ++id) {
    if (NumberExample(static_cast<std::int64_t>(id)).size() > bound) large.push_back(id);
  }
  CHECK(ids("filter: {where: \"bytes > " + std::to_string(bound) + "\"}\n") == large);
  CHECK(ids("filter: {where: \"(file == 2) * (example_id < 23)\"}\n") ==
        std::vector<std::uint64_t>{20, 21, 22});
  CHECK(ids("split: {method: file_prefix, prefixes: [[sub/], [a]], take: [1]}\n").size() == 10);
  const auto train = ids("split: {method: hash, proportions: [2, 1], take: [0]}\n");
  const auto valid = ids("split: {method: hash, proportions: [2, 1], take: [1]}\n");
  std::set<std::uint64_t> both(train.begin(), train.end());
  both.insert(valid.begin(), valid.end());
  CHECK(both.size() == train.size() + valid.size());
  CHECK(both.size() == 29);
  CHECK(valid == std::vector<std::uint64_t>{3, 8, 11, 14, 16, 17, 23, 24, 25, 26});
}

TEST_CASE("the length of a ragged feature is measured, for filters and buckets", "[records_plan]") {
  RecordPlans plans = GeneratedRecords();
  const auto length_of = [](const PackedBatch& batch, std::size_t row) {
    const auto splits = *batch.Find("x_splits");
    return batch.ValueAt(splits, row + 1) - batch.ValueAt(splits, row);
  };
  const auto whole = ReadEpoch(*plans.MustCompile(kAll), 0, 1);
  std::size_t long_ones = 0;
  for (const BatchPtr& batch : whole) {
    for (std::size_t row = 0; row < batch->examples(); ++row) {
      long_ones += length_of(*batch, row) > 4 ? 1 : 0;
    }
  }
  const auto filtered = ReadEpoch(*plans.MustCompile(kAll,
                                                     "batch: {size: 8, remainder: keep}\n"
                                                     "filter: {where: \"x.length > 4\"}\n"),
                                  0, 1);
  CHECK(long_ones > 10);
  CHECK(IdsOf(filtered).size() == long_ones);
  const auto plan = plans.MustCompile(
      kAll, "batch: {bucket: {by: x.length, bounds: [2, 5, 9], budget: 45}, remainder: keep}\n");
  const auto batches = ReadEpoch(*plan, 0, 1);
  CHECK(IdsOf(batches).size() == 100);
  const std::vector<std::int64_t> bounds = {2, 5, 9};
  for (const BatchPtr& batch : batches) {
    std::set<std::ptrdiff_t> of;
    for (std::size_t row = 0; row < batch->examples(); ++row) {
      of.insert(std::lower_bound(bounds.begin(), bounds.end(), length_of(*batch, row)) -
                bounds.begin());
    }
    REQUIRE(of.size() == 1);
    CHECK(static_cast<std::int64_t>(batch->examples()) *
              bounds[static_cast<std::size_t>(*of.begin())] <=
          45);
  }
}

/// Ten records; number i has i % 4 texts of i bytes.
RecordPlans TextLists() {
  return RecordPlans([](const std::filesystem::path& dir) {
    std::vector<std::string> data;
    for (std::size_t i = 0; i < 10; ++i) {
      const std::string text(i, 'x');
      data.push_back(ExampleOf([&](ExampleBuilder& builder) {
        builder.AddBytes("t", std::vector<std::string_view>(i % 4, text));
      }));
    }
    WriteRecords(dir / "a.tfrecord", data);
  });
}
const std::string kTexts = "{records: {t: \"str[*]\"}}";

TEST_CASE("lists of texts are filtered by their bytes and by their number", "[records_plan]") {
  RecordPlans plans = TextLists();
  const auto ids_of = [&](const std::string& where) {
    std::vector<std::uint64_t> ids = IdsOf(ReadEpoch(
        *plans.MustCompile(
            kTexts, "batch: {size: 8, remainder: keep}\nfilter: {where: \"" + where + "\"}\n"),
        0, 1));
    std::sort(ids.begin(), ids.end());
    return ids;
  };
  CHECK(ids_of("t.lengths.length == 3") == std::vector<std::uint64_t>{3, 7});
  CHECK(ids_of("t.length > 9") == std::vector<std::uint64_t>{6, 7});
}

TEST_CASE("a chosen list of texts brings its lengths, and operations read both", "[records_plan]") {
  RecordPlans plans = TextLists();
  const auto plan = plans.MustCompile(kTexts,
                                      "batch: {size: 10, remainder: keep}\n"
                                      "tensors: {count: {length: t.lengths, at: worker}}\n"
                                      "output: [t, count]\n");
  std::vector<std::string> paths;
  for (const TensorSpec& tensor : plan->tensors()) paths.push_back(tensor.path);
  CHECK(paths ==
        std::vector<std::string>{"t", "t_splits", "t.lengths", "t.lengths_splits", "count"});
}

TEST_CASE("a list of texts is not cut into chunks", "[records_plan]") {
  RecordPlans plans = TextLists();
  const auto error = [&](const std::string& tensor) {
    return plans.ErrorOf(
        kTexts, "batch: {size: 8, remainder: keep}\nchunk: {tensor: " + tensor + ", size: 4}\n");
  };
  CHECK_THAT(error("t"),
             Contains("chunk.tensor: t is a list of texts, and t.lengths says where each "
                      "of them ends; no tensor of this source can be cut"));
  CHECK_THAT(error("t.lengths"), Contains("t.lengths says where the texts of t end"));
}

/// Ten records with a label and a quality: record i has label i - 3 and quality i / 10, but record
/// 7 lacks both, and the qualities of records 8 and 9 are NaN and infinite.
RecordPlans RatedRecords() {
  return RecordPlans([](const std::filesystem::path& dir) {
    std::vector<std::string> data;
    for (std::int64_t i = 0; i < 10; ++i) {
      data.push_back(ExampleOf([i](ExampleBuilder& builder) {
        const std::int64_t label = i - 3;
        float quality = static_cast<float>(i) / 10;
        if (i == 8) quality = std::numeric_limits<float>::quiet_NaN();
        if (i == 9) quality = std::numeric_limits<float>::infinity();
        if (i == 7) return builder.AddBytes("d", "rated by nobody");
        builder.AddInts("label", {&label, 1});
        builder.AddFloats("quality", {&quality, 1});
      }));
    }
    WriteRecords(dir / "a.tfrecord", data);
  });
}

const std::string kRated = "{records: {label: int64, quality: float32}, on_error: drop}";

TEST_CASE("a scalar feature of records is measured, for filters", "[records_plan]") {
  RecordPlans plans = RatedRecords();
  const auto passing = [&](const std::string& where) {
    const auto plan = plans.MustCompile(
        kRated, "filter: {where: \"" + where + "\"}\nbatch: {size: 8, remainder: keep}\n");
    std::vector<std::uint64_t> ids;
    for (std::uint64_t id = 0; id < 10; ++id) {
      if (plan->Selects(ExampleId(id))) ids.push_back(id);
    }
    return ids;
  };
  using Ids = std::vector<std::uint64_t>;
  CHECK(passing("label == 1") == Ids{4});
  CHECK(passing("label < 0 || label > 4") == Ids{0, 1, 2, 8, 9});
  CHECK(passing("quality > 0.4") == Ids{5, 6});
  // A literal takes the feature's type.
  CHECK(passing("quality == 0.1") == Ids{1});
  // An example without a value fails each comparison, whichever it is.
  CHECK(passing("label != 1") == Ids{0, 1, 2, 3, 5, 6, 8, 9});
  CHECK(passing("label == label") == Ids{0, 1, 2, 3, 4, 5, 6, 8, 9});
  CHECK(passing("min(label, 1) * 2 + 7 >= 0") == Ids{0, 1, 2, 3, 4, 5, 6, 8, 9});
  CHECK(passing("quality != 0.1") == Ids{0, 2, 3, 4, 5, 6});
  CHECK(passing("quality < 100") == Ids{0, 1, 2, 3, 4, 5, 6});
  CHECK(passing("!(label <= 5)") == Ids{7, 9});
  CHECK(passing("label != 1 || example_id == 7") == Ids{0, 1, 2, 3, 5, 6, 7, 8, 9});
  // The example that passes and has no value is dropped in its place.
  const auto batches = ReadEpoch(*plans.MustCompile(kRated,
                                                    "filter: {where: \"!(label <= 5)\"}\n"
                                                    "batch: {size: 8, remainder: keep}\n"),
                                 0, 1);
  REQUIRE(batches.size() == 1);
  CHECK(IdsOf(batches) == Ids{9});
  REQUIRE(batches[0]->info().dropped.size() == 1);
  CHECK(batches[0]->info().dropped[0].id == ExampleId(7));
}

TEST_CASE("buckets and balance go by a scalar feature of records", "[records_plan]") {
  RecordPlans plans = RatedRecords();
  const std::string rated = "filter: {where: \"quality < 100\"}\n";
  const auto batches = ReadEpoch(
      *plans.MustCompile(kRated, rated + "batch: {bucket: {by: \"label + 3\", bounds: [2, 9], "
                                         "size: 2}, remainder: keep}\n"),
      0, 1);
  std::vector<std::uint64_t> ids = IdsOf(batches);
  std::sort(ids.begin(), ids.end());
  CHECK(ids == std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 6});
  for (const BatchPtr& batch : batches) {
    for (const ExampleId id : batch->info().example_ids) {
      CHECK((id.value() <= 2) == (batch->info().example_ids[0].value() <= 2));
    }
  }
  const auto balanced = plans.MustCompile(
      kRated, rated +
                  "batch: {size: 2, remainder: keep}\nbalance: {by: \"quality * 100\", "
                  "group: 4}\n");
  CHECK(IdsOf(ReadEpoch(*balanced, 0, 1)).size() == 7);
}

TEST_CASE("an example without a value to go by is an error that names it", "[records_plan]") {
  RecordPlans plans = RatedRecords();
  const auto by = [&](const std::string& expression, const std::string& where) {
    return plans.ErrorOf(kRated, "filter: {where: \"" + where + "\"}\nbatch: {bucket: {by: \"" +
                                     expression + "\", count: 2, size: 2}, remainder: keep}\n");
  };
  CHECK_THAT(by("label + 3", "example_id >= 0"),
             Contains("expected a value of label for each example, and example 7 has none: leave "
                      "out those that have none, for example with filter.where: "
                      "\"label == label\""));
  CHECK_THAT(by("quality > 0.5 ? 1 : 2", "example_id >= 0"), Contains("example 7 has none"));
  CHECK_THAT(by("quality * 10", "example_id != 7"),
             Contains("got one of quality, which is nan, for example 8"));
  CHECK_THAT(by("quality * 10", "example_id < 7 || example_id == 9"),
             Contains("got one of quality, which is inf, for example 9"));
  CHECK_THAT(by("label", "label == label"),
             Contains("expected values from 0 to 1099511627776, got -3 for example 0"));
  CHECK_THAT(plans.ErrorOf(kRated,
                           "filter: {where: \"example_id >= 0\"}\n"
                           "batch: {size: 2, remainder: keep}\n"
                           "balance: {by: label + 3, group: 2}\n"),
             Contains("example 7 has none"));
}

TEST_CASE("an unknown column is answered with the features that are near", "[records_plan]") {
  RecordPlans plans = RatedRecords();
  CHECK_THAT(plans.ErrorOf(kRated,
                           "filter: {where: \"lable == 1\"}\n"
                           "batch: {size: 2, remainder: keep}\n"),
             Contains("; the source has the columns example_id, file, bytes, and label, quality "
                      "can be measured (did you mean label?)"));
}

TEST_CASE("a cursor over records stays good if bad ones are dropped from now on",
          "[records_plan]") {
  RecordPlans plans = NumberFiles();
  const auto plain = plans.MustCompile(kScores);
  const auto drops = plans.MustCompile("{records: {s: int64}, on_error: drop}");
  CHECK(plain->facts().fingerprint() != drops->facts().fingerprint());
  CHECK(plain->facts().order_fingerprint() == drops->facts().order_fingerprint());
  CHECK(plans.MustCompile(kScores) == plain);
}

}  // namespace
}  // namespace millrace::test
