// Plans over datasets of tokens, from the text of a pipeline to a batch; the folders of
// shared/golden-packs among them.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/batch/batch.h"
#include "server/catalog/product_kinds.h"
#include "server/plan/plan_library.h"
#include "tests/support/skip.h"
#include "tests/unit/server/kinds/tokens/tokens_source_fixture.h"
#include "tests/unit/server/plan/number_plans.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using Catch::StartsWith;

const std::string kBatches = "batch: {size: 4, remainder: keep}\n";

/// Plans over a folder that is told to be of tokens.
class TokenPlans {
 public:
  explicit TokenPlans(const fs::path& dir) {
    PlanLibraryOptions options;
    options.kinds = ProductKinds();
    options.datasets["t"].dir = dir;
    options.datasets["t"].kind = "tokens";
    options.cache_dir = cache_.path();
    options.index_threads = 1;
    library_ = std::make_unique<PlanLibrary>(std::move(options), MakeNullLogger());
  }

  PlanLibrary& library() { return *library_; }
  Result<std::shared_ptr<const Plan>> Compile(const std::string& source, const std::string& more) {
    PipelineSource text;
    text.name = "p.yaml";
    text.yaml = "millrace: 1\ndataset: t\nsource: " + source + "\n" + more;
    return library_->Compile(text);
  }
  std::shared_ptr<const Plan> MustCompile(const std::string& source,
                                          const std::string& more = kBatches) {
    const auto plan = Compile(source, more);
    INFO(plan.status().message());
    REQUIRE(plan.ok());
    return *plan;
  }
  std::string ErrorOf(const std::string& source, const std::string& more = kBatches) {
    const auto plan = Compile(source, more);
    REQUIRE_FALSE(plan.ok());
    return plan.status().message();
  }

 private:
  TempDir cache_;
  std::unique_ptr<PlanLibrary> library_;
};

/// The documents of an epoch, by their ids.
std::vector<std::pair<std::uint64_t, Tokens>> DocumentsOf(const Plan& plan) {
  std::vector<std::pair<std::uint64_t, Tokens>> documents;
  for (const auto& batch : ReadEpoch(plan, 0, 1)) {
    const Documents rows = TokenSourceTest::RowsOf(*batch);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      documents.emplace_back(batch->info().example_ids[row].value(), rows[row]);
    }
  }
  std::sort(documents.begin(), documents.end());
  return documents;
}

/// A copy of a golden folder, which can be written.
struct GoldenCopy {
  explicit GoldenCopy(const fs::path& folder) {
    fs::copy(folder, dir / "t", fs::copy_options::recursive);
    for (const auto& entry : fs::recursive_directory_iterator(dir / "t")) {
      fs::permissions(entry.path(), fs::perms::owner_all);
    }
    fs::permissions(dir / "t", fs::perms::owner_all);
  }
  TempDir dir;
};

TEST_CASE("the golden folders give their documents, or are refused or damaged as is said",
          "[tokens_plan]") {
  const fs::path golden = fs::path(SharedDirOrSkip()) / "golden-packs";
  if (!fs::exists(golden / "formats.json")) SkipTest("no golden files at " + golden.string());
  std::ifstream in(golden / "formats.json");
  const nlohmann::json cases = nlohmann::json::parse(in);
  CHECK(cases.size() == 56);
  for (const nlohmann::json& one : cases) {
    const std::string name = one["case"];
    const std::string outcome = one["outcome"];
    INFO(name << ": " << one["why"].get<std::string>());
    const GoldenCopy copy(golden / "folders" / name);
    TokenPlans plans(copy.dir / "t");
    const auto plan = plans.Compile("{tokens: " + one["source"].dump() + "}", kBatches);
    std::string message = plan.status().message();
    if (outcome == "damaged") {
      REQUIRE(plan.ok());
      const auto all = static_cast<std::uint32_t>((*plan)->source()->examples());
      const auto batch = (*plan)->Batch(0, {0, all}, *(*plan)->NewScratch());
      REQUIRE_FALSE(batch.ok());
      CHECK(batch.status().code() == StatusCode::kDataLoss);
      message = batch.status().message();
    } else {
      INFO(message);
      REQUIRE(plan.ok() == (outcome == "ok"));
    }
    if (outcome != "ok") {
      CAPTURE(message);
      for (const nlohmann::json& text : one["names"]) {
        CHECK_THAT(message, Contains(text.get<std::string>()));
      }
      continue;
    }
    const auto documents = DocumentsOf(**plan);
    std::vector<std::pair<std::uint64_t, Tokens>> expected;
    for (const nlohmann::json& document : one["documents"]) {
      const ExampleId id(expected.size());
      expected.emplace_back(id.value(), document[1].get<Tokens>());
      CHECK((*plan)->source()->Describe(id).file == document[0].get<std::string>());
    }
    CHECK(documents == expected);
    const auto dtype = DTypeFromName(one["dtype"].get<std::string>());
    REQUIRE(dtype.has_value());
    const DType travels = DTypeSize(*dtype) == 1   ? DType::kUint8
                          : DTypeSize(*dtype) == 2 ? DType::kUint16
                                                   : DType::kUint32;
    CHECK((*plan)->source()->tensors()[1].dtype == travels);
  }
}

TEST_CASE("documents are split, filtered, bucketed and padded by columns of tokens",
          "[tokens_plan]") {
  const TempDir dir;
  Documents documents;
  for (std::int64_t i = 0; i < 40; ++i) {
    documents.emplace_back(static_cast<std::size_t>(i % 7 + 1), i);
  }
  WritePair(dir / "a", DType::kUint16, documents);
  TokenPlans plans(dir.path());
  const auto some = DocumentsOf(*plans.MustCompile(
      "tokens",
      "split: {method: hash, proportions: [1, 1], take: 0}\n"
      "filter: {where: \"tokens.length >= 3 && file == 0\"}\nshuffle: {seed: 1}\n"
      "batch: {bucket: {by: tokens.length, bounds: [4, 7], size: 4}, remainder: keep}\n"));
  CHECK(some.size() > 5);
  CHECK(some.size() < 25);
  for (const auto& [id, tokens] : some) CHECK(tokens == documents[id]);
  const auto chunks = plans.MustCompile("tokens", "chunk: {tensor: tokens, size: 2}\n" + kBatches);
  std::size_t expected = 0;
  for (const Tokens& document : documents) expected += (document.size() + 1) / 2;
  std::size_t pieces = 0;
  for (const auto& batch : ReadEpoch(*chunks, 0, 1)) pieces += batch->examples();
  CHECK(pieces == expected);
}

TEST_CASE("keys of a source of tokens are placed in errors, and say the same in both forms",
          "[tokens_plan]") {
  const TempDir dir;
  WriteBytes(dir / "a.bin", TokenBytes(DType::kUint16, {1, 2, 3}));
  TokenPlans plans(dir.path());
  CHECK_THAT(plans.ErrorOf("{tokens: {dtype: uint16, eos: 7}}"),
             StartsWith("p.yaml:3:34: source.tokens.eos: no file has the token 7"));
  CHECK_THAT(plans.ErrorOf("{tokens: {dtype: uint16, end: 7}}"),
             StartsWith("p.yaml:3:34: source.tokens.end: unknown key"));
  CHECK_THAT(plans.ErrorOf("tokens"), Contains("source.tokens.dtype: the key is missing"));
  const auto digest = [&](const std::string& source) {
    PipelineSource text;
    text.yaml = "millrace: 1\ndataset: t\nsource: " + source + "\n" + kBatches;
    return plans.library().Parse(text)->digest();
  };
  CHECK(digest("tokens") == digest("{tokens: {}}"));
  CHECK(digest("tokens") != digest("{tokens: {dtype: uint16}}"));
}

TEST_CASE("a cache has no use over tokens, and changes nothing", "[tokens_plan]") {
  const TempDir dir;
  WritePair(dir / "a", DType::kUint16, {{1}, {2, 3}});
  TokenPlans plans(dir.path());
  PipelineSource text;
  text.yaml = "millrace: 1\ndataset: t\nsource: tokens\ncache: {examples: memory}\n" + kBatches;
  const auto pipeline = plans.library().Parse(text);
  REQUIRE(pipeline.ok());
  CHECK(pipeline->unused_keys() == std::vector<std::string>{"cache.examples"});
  CHECK(DocumentsOf(*plans.MustCompile("tokens", "cache: {examples: disk}\n" + kBatches)).size() ==
        2);
}

TEST_CASE("damaged files of tokens stop pipelines that do not exclude them", "[tokens_plan]") {
  const TempDir dir;
  WritePair(dir / "a", DType::kUint16, {{1}, {2}});
  WritePair(dir / "b", DType::kUint16, {{3}});
  {
    TokenPlans before(dir.path());
    REQUIRE(before.library().Open("t").ok());
  }
  const std::string without_b = "exclude: {files: [b.bin]}\n" + kBatches;
  SECTION("tokens") {
    fs::resize_file(dir / "b.bin", 1);
    TokenPlans plans(dir.path());
    CHECK_THAT(plans.ErrorOf("tokens"), Contains("b.bin: has 1 bytes, expected 2") &&
                                            Contains("`exclude: {files: [\"b.bin\"]}`"));
    CHECK(DocumentsOf(*plans.MustCompile("tokens", without_b)).size() == 2);
  }
  SECTION("tokens that are gone") {
    fs::remove(dir / "b.bin");
    TokenPlans plans(dir.path());
    CHECK_THAT(plans.ErrorOf("tokens"), Contains("b.idx: has no b.bin beside it"));
    CHECK(DocumentsOf(*plans.MustCompile("tokens", without_b)).size() == 2);
  }
  SECTION("an index of sequences") {
    test::WriteOver(dir / "b.idx", 9, "\2");
    TokenPlans plans(dir.path());
    CHECK_THAT(plans.ErrorOf("tokens"), Contains("file b.idx of dataset "));
    CHECK_THAT(plans.ErrorOf("tokens", without_b), Contains("file b.idx of dataset "));
  }
}

}  // namespace
}  // namespace millrace::test
