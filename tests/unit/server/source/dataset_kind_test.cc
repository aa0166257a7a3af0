#include "server/source/dataset_kind.h"

#include <catch2/catch.hpp>

#include <fstream>
#include <set>
#include <string>

#include "server/catalog/product_kinds.h"
#include "tests/support/dataset_fixture.h"

namespace millrace::test {
namespace {

/// A kind that is recognised by a file of one name.
class MarkedKind final : public DatasetKind {
 public:
  std::string_view name() const override { return "marked"; }
  std::string_view looks_for() const override { return "file MARK"; }
  bool IsOne(const std::filesystem::path& dir) const override {
    return std::filesystem::exists(dir / "MARK");
  }
  const SourceTable& sources() const override { return sources_; }
  OpenedDataset Open(const std::filesystem::path&, const DatasetOpenOptions&) const override {
    return {.status = Unimplemented("open"), .dataset = nullptr, .damaged = {}, .bad_files = 0};
  }
  Result<std::string> Inspect(const std::filesystem::path&,
                              const DatasetOpenOptions&) const override {
    return Unimplemented("inspect");
  }

 private:
  const SourceTable sources_{};
};

DatasetKinds Kinds() { return ProductKinds().With(std::make_shared<MarkedKind>()); }

std::string KindOf(const std::filesystem::path& dir, std::string_view told = "") {
  const auto kind = Kinds().Find(dir, told);
  return std::string(kind.ok() ? (*kind)->name() : kind.status().message());
}

TEST_CASE("the kind of a dataset is found by looking at its folder", "[kinds]") {
  const TempDir dir;
  WriteFixture(dir.path(), SampleFile("sub/a.bin"));
  CHECK(KindOf(dir.path()) == "coq");
  std::ofstream(dir / "MARK") << "x";
  CHECK(KindOf(dir.path()) == "marked");
}

TEST_CASE("a kind that is told goes before what the folder looks like", "[kinds]") {
  const TempDir dir;
  WriteFixture(dir.path(), SampleFile("a.bin"));
  CHECK(KindOf(dir.path(), "marked") == "marked");
}

TEST_CASE("an unknown kind is refused with the known ones", "[kinds]") {
  CHECK(KindOf("/", "tree") ==
        "there is no kind of dataset 'tree': expected one of marked, graph, "
        "records, coq, python");
}

TEST_CASE("a folder of no kind is refused with what was looked for", "[kinds]") {
  const TempDir dir;
  std::ofstream(dir / "notes.txt") << "x";
  CHECK(KindOf(dir.path()) ==
        dir.path().string() +
            " holds no dataset: no file MARK (marked), no file graph.json "
            "(graph), no *tfrecord* or *-NNNNN-of-NNNNN file below it "
            "(records), no *.bin file below it (coq), no folder written "
            "python:DIR, which a plugin reads (python); give the folder of a dataset");
}

TEST_CASE("a folder that is not there is refused by name, whatever its kind", "[kinds]") {
  const TempDir dir;
  CHECK(KindOf(dir / "gone") == "no folder '" + (dir / "gone").string() + "'");
  CHECK(KindOf(dir / "gone", "coq") == "coq");  // opening it fails then
}

TEST_CASE("a kind makes up a dataset of the numbers given, and is one of its own then", "[kinds]") {
  const TempDir dir;
  const auto coq = *Kinds().Named("coq");
  std::uint64_t done = 0;
  GenerateRequest request;
  request.params = Params({{"nodes", std::int64_t{1000}},
                           {"proof-states", std::int64_t{0}},
                           {"threads", std::int64_t{1}}});
  request.progress = [&done](std::uint64_t nodes, std::uint64_t total) {
    done += nodes;
    CHECK(total == 1000);
  };
  const auto report = coq->Generate(dir / "made", request);
  REQUIRE(report.ok());
  CHECK(report->find("proof states  0\n") != std::string::npos);
  CHECK(done > 0);
  CHECK(KindOf(dir / "made") == "coq");
  CHECK(coq->Generate(dir / "made", request).status().code() == StatusCode::kFailedPrecondition);
}

TEST_CASE("a kind that makes up no datasets says so", "[kinds]") {
  const auto marked = *Kinds().Named("marked");
  CHECK(marked->generate_parameters().empty());
  CHECK(marked->Generate("/", {}).status() ==
        Unimplemented("datasets of kind marked cannot be made up"));
}

TEST_CASE("a kind that only opens and inspects answers the other commands by that", "[kinds]") {
  const auto marked = *Kinds().Named("marked");
  CHECK(marked->Index("/data", {}).status() == Unimplemented("inspect"));
  CHECK(marked->FilesToWarm("/data").status() == Unimplemented("open"));
  CHECK(marked->Verify("/data", {}).status() ==
        FailedPrecondition("dataset /data is of kind marked: nothing is known of the contents of "
                           "its files"));
}

TEST_CASE("no two kinds of the product have one name, or a source of one name", "[kinds]") {
  std::set<std::string> kinds;
  std::set<std::string> sources;
  const DatasetKinds product = ProductKinds();
  for (const auto& kind : product.all()) {
    CAPTURE(kind->name());
    CHECK(kinds.emplace(kind->name()).second);
    for (const SourceType& source : kind->sources().sources()) {
      CAPTURE(source.name);
      CHECK(sources.insert(source.name).second);
    }
  }
}

TEST_CASE("a place is a folder, or a kind and a folder", "[kinds]") {
  const auto parsed = [](const char* text) {
    const DatasetPlace place = ParseDatasetPlace(text);
    return place.kind + "|" + place.dir.string();
  };
  CHECK(parsed("/data/a") == "|/data/a");
  CHECK(parsed("coq:/data/a") == "coq|/data/a");
  CHECK(parsed("coq:a:b") == "coq|a:b");
  CHECK(parsed("./a:b") == "|./a:b");
  CHECK(parsed("/a:b") == "|/a:b");
  CHECK(parsed("C:x") == "|C:x");
  CHECK(parsed(":x") == "|:x");
  CHECK(FormatDatasetPlace(ParseDatasetPlace("coq:/data/a")) == "coq:/data/a");
  CHECK(FormatDatasetPlace(ParseDatasetPlace("/data/a")) == "/data/a");
}

}  // namespace
}  // namespace millrace::test
