#include "server/pipeline/plan_library.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/dataset_fixture.h"

namespace millrace::test {
namespace {

PipelineSource Source(const std::string& more = "", const std::string& dataset = "d") {
  PipelineSource source;
  source.yaml =
      "millrace: 1\ndataset: " + dataset + "\nsource: proof_states\nbatch: {size: 2}\n" + more;
  return source;
}

PlanLibraryOptions At(const TempDir& dir) {
  PlanLibraryOptions options;
  options.datasets["d"].dir = dir.path();
  return options;
}

TEST_CASE("a dataset that is not configured is an error with those that are", "[library]") {
  const TempDir dir;
  PlanLibrary library(At(dir), MakeNullLogger());
  CHECK(library.Compile(Source("", "e")).status() ==
        NotFound("dataset 'e' is not known here: expected one of d"));
  PlanLibrary empty({}, MakeNullLogger());
  CHECK(empty.Open("e").status().code() == StatusCode::kNotFound);
  CHECK(empty.GetStatus("e").status().code() == StatusCode::kNotFound);
}

TEST_CASE("plans in use are shared, by what they are and not how they are written", "[library]") {
  const TempDir dir;
  WriteFixture(dir.path(), SampleFile("a.bin"));
  PlanLibrary library(At(dir), MakeNullLogger());
  const auto plan = *library.Compile(Source());
  CHECK(*library.Compile(Source("closure: {max_subgraph_size: 1024}\n")) == plan);
  CHECK(*library.Compile(Source("closure: {max_subgraph_size: 1000}\n")) != plan);
}

TEST_CASE("status tells what a dataset holds once it is open", "[library]") {
  const TempDir dir;
  WriteFixture(dir.path(), SampleFile("a.bin"));
  PlanLibrary library(At(dir), MakeNullLogger());
  CHECK_FALSE(library.GetStatus("d")->open);
  REQUIRE(library.Open("d").ok());
  const DatasetStatus status = *library.GetStatus("d");
  CHECK(status.open);
  CHECK(status.files == 1);
  CHECK(status.proof_states == 3);
  CHECK(status.digest.is_set());
  CHECK(status.error.empty());
}

TEST_CASE("a dataset that cannot be opened says so, and is tried again", "[library]") {
  const TempDir dir;
  PlanLibraryOptions options;
  options.datasets["d"].dir = dir / "later";
  PlanLibrary library(options, MakeNullLogger());
  const Status missing = library.Open("d").status();
  CHECK(missing.code() == StatusCode::kNotFound);
  CHECK(missing.message().starts_with("dataset 'd': "));
  CHECK_FALSE(library.GetStatus("d")->error.empty());
  WriteFixture(dir / "later", SampleFile("a.bin"));
  CHECK(library.Open("d").ok());
  CHECK(library.GetStatus("d")->error.empty());
}

TEST_CASE("threads that need one dataset open it once", "[library]") {
  const TempDir dir;
  WriteFixture(dir.path(), SampleFile("a.bin"));
  PlanLibrary library(At(dir), MakeNullLogger());
  std::vector<std::shared_ptr<const Dataset>> opened(4);
  {
    std::vector<std::jthread> threads;
    for (auto& dataset : opened) {
      threads.emplace_back([&library, &dataset] { dataset = *library.Open("d"); });
    }
  }
  for (const auto& dataset : opened) CHECK(dataset == opened[0]);
}

TEST_CASE("a dataset with a damaged file serves only plans that exclude it", "[library][exclude]") {
  const TempDir dir;
  WriteFixture(dir.path(), SampleFile("a.bin"));
  WriteFixture(dir.path(), SampleFile("b.bin", {"a.bin"}));
  Fingerprint before;
  {
    PlanLibrary library(At(dir), MakeNullLogger());
    before = (*library.Compile(Source()))->fingerprint();
  }
  std::vector<std::byte> bytes = ReadBytes(dir / "b.bin");
  bytes.resize(bytes.size() / 2);
  WriteBytes(dir / "b.bin", bytes);

  PlanLibrary library(At(dir), MakeNullLogger());
  const Status refused = library.Compile(Source()).status();
  CHECK(refused.code() == StatusCode::kDataLoss);
  CHECK(refused.message().find("b.bin") != std::string::npos);
  CHECK(refused.message().find("`exclude: {files: [\"b.bin\"]}`") != std::string::npos);
  const auto plan = library.Compile(Source("exclude: {files: [b.bin]}\n"));
  REQUIRE(plan.ok());
  CHECK((*plan)->order_fingerprint() == before);
  CHECK(library.GetStatus("d")->damaged_files == std::vector<std::string>{"b.bin"});
}

TEST_CASE("a dataset damaged before it was ever indexed is not served at all", "[library]") {
  const TempDir dir;
  WriteFixture(dir.path(), SampleFile("a.bin"));
  WriteBytes(dir / "b.bin", {});
  PlanLibrary library(At(dir), MakeNullLogger());
  const Status status = library.Compile(Source("exclude: {files: [b.bin]}\n")).status();
  CHECK(status.code() == StatusCode::kDataLoss);
  CHECK(status.message().find("b.bin") != std::string::npos);
}

}  // namespace
}  // namespace millrace::test
