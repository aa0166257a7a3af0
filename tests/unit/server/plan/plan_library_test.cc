#include "server/plan/plan_library.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "server/catalog/product_kinds.h"
#include "server/files/sigbus_guard.h"
#include "tests/support/dataset_fixture.h"

namespace millrace::test {
namespace {

PipelineSource TextOfPipeline(const std::string& more = "", const std::string& dataset = "d") {
  PipelineSource source;
  source.yaml =
      "millrace: 1\ndataset: " + dataset + "\nsource: proof_states\nbatch: {size: 2}\n" + more;
  return source;
}

PlanLibraryOptions At(const TempDir& dir) {
  PlanLibraryOptions options;
  options.kinds = ProductKinds();
  options.datasets["d"].dir = dir.path();
  return options;
}

TEST_CASE("a dataset that is not configured is an error with those that are", "[library]") {
  const TempDir dir;
  PlanLibrary library(At(dir), MakeNullLogger());
  CHECK(library.Compile(TextOfPipeline("", "e")).status() ==
        NotFound("dataset 'e' is not known here: expected one of d"));
  PlanLibrary empty({}, MakeNullLogger());
  CHECK(empty.Open("e").status().code() == StatusCode::kNotFound);
  CHECK(empty.GetStatus("e").status().code() == StatusCode::kNotFound);
}

TEST_CASE("plans in use are shared, by what they are and not how they are written", "[library]") {
  const TempDir dir;
  WriteFixture(dir.path(), SampleFile("a.bin"));
  PlanLibrary library(At(dir), MakeNullLogger());
  const auto plan = *library.Compile(TextOfPipeline());
  CHECK(*library.Compile(TextOfPipeline("closure: {max_subgraph_size: 1024}\n")) == plan);
  CHECK(*library.Compile(TextOfPipeline("closure: {max_subgraph_size: 1000}\n")) != plan);
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
  CHECK(status.kind == "coq");
  CHECK(status.examples == 3);
  CHECK(status.digest.is_set());
  CHECK(status.error.empty());
}

TEST_CASE("a dataset that cannot be opened says so, and is tried again", "[library]") {
  const TempDir dir;
  PlanLibraryOptions options;
  options.kinds = ProductKinds();
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
    before = (*library.Compile(TextOfPipeline()))->facts().fingerprint();
  }
  std::vector<std::byte> bytes = ReadBytes(dir / "b.bin");
  bytes.resize(bytes.size() / 2);
  WriteBytes(dir / "b.bin", bytes);

  PlanLibrary library(At(dir), MakeNullLogger());
  const Status refused = library.Compile(TextOfPipeline()).status();
  CHECK(refused.code() == StatusCode::kDataLoss);
  CHECK(refused.message().find("b.bin") != std::string::npos);
  CHECK(refused.message().find("`exclude: {files: [\"b.bin\"]}`") != std::string::npos);
  const auto plan = library.Compile(TextOfPipeline("exclude: {files: [b.bin]}\n"));
  REQUIRE(plan.ok());
  CHECK((*plan)->facts().order_fingerprint() == before);
  CHECK(library.GetStatus("d")->damaged_files == std::vector<std::string>{"b.bin"});
}

/// Keeps the events that a person should read, one on each line. For one thread only.
class LineLogger final : public Logger {
 public:
  void Log(LogLevel, std::string_view event, std::initializer_list<LogField> fields) override {
    std::string line(event);
    for (const LogField& field : fields) line += " " + std::string(field.key) + "=" + field.value;
    lines.push_back(line);
  }
  std::vector<std::string> lines;
};

/// A library with a plan of a.bin and b.bin in use, and a batch of it.
struct InUse {
  TempDir dir;
  std::shared_ptr<LineLogger> logger = std::make_shared<LineLogger>();
  PlanLibrary library{At(dir), logger};
  std::shared_ptr<const Plan> plan;
  std::unique_ptr<BatchScratch> scratch;

  InUse() {
    InstallSigbusGuard();
    WriteFixture(dir.path(), SampleFile("a.bin"));
    WriteFixture(dir.path(), SampleFile("b.bin", {"a.bin"}));
    plan = *library.Compile(TextOfPipeline());
    scratch = plan->NewScratch();
    REQUIRE(plan->Batch(0, {0, 6}, *scratch).ok());
    logger->lines.clear();
  }
};

TEST_CASE("a file that is changed in place ends plans that read it, also those in use",
          "[library][files]") {
  InUse u;
  CHECK_FALSE(u.library.CheckFiles());
  {
    std::fstream file(u.dir / "b.bin", std::ios::binary | std::ios::in | std::ios::out);
    file.write(std::string(100, '\0').data(), 100);
  }
  // The time is set, because tests run faster than file systems count time.
  std::filesystem::last_write_time(
      u.dir / "b.bin", std::filesystem::file_time_type::clock::now() + std::chrono::seconds(2));
  CHECK(u.library.CheckFiles());
  CHECK_FALSE(u.library.CheckFiles());
  for (const Status& status : {u.library.Compile(TextOfPipeline()).status(),
                               u.plan->Batch(0, {0, 6}, *u.scratch).status()}) {
    CHECK(status.code() == StatusCode::kDataLoss);
    CHECK(status.message().find("b.bin: was written to while it was in use") != std::string::npos);
    CHECK(status.message().find("`exclude: {files: [\"b.bin\"]}`") != std::string::npos);
  }
  CHECK(u.library.GetStatus("d")->damaged_files == std::vector<std::string>{"b.bin"});
  const auto without = u.library.Compile(TextOfPipeline("exclude: {files: [b.bin]}\n"));
  REQUIRE(without.ok());
  CHECK((*without)->Batch(0, {0, 6}, *(*without)->NewScratch()).ok());
}

TEST_CASE("a batch that read a file which was cut off is an error, not zeros",
          "[library][files][sigbus]") {
  InUse u;
  std::filesystem::resize_file(u.dir / "b.bin", 0);
  const Status status = u.plan->Batch(0, {0, 6}, *u.scratch).status();
  CHECK(status.code() == StatusCode::kDataLoss);
  CHECK(status.message().find("b.bin: at byte ") != std::string::npos);
  CHECK(u.library.CheckFiles());
}

TEST_CASE("a file that is replaced by another leaves what is in use as it is", "[library][files]") {
  InUse u;
  WriteBytes(u.dir / "new", std::vector<std::byte>(100));
  std::filesystem::rename(u.dir / "new", u.dir / "b.bin");
  CHECK_FALSE(u.library.CheckFiles());
  CHECK(u.plan->Batch(0, {0, 6}, *u.scratch).ok());
  CHECK(u.library.Compile(TextOfPipeline()).ok());
}

TEST_CASE("a file that is touched leaves what is in use as it is, and is told of once",
          "[library][files]") {
  InUse u;
  std::filesystem::last_write_time(
      u.dir / "b.bin", std::filesystem::file_time_type::clock::now() + std::chrono::seconds(2));
  for (int look = 0; look < 4; ++look) CHECK_FALSE(u.library.CheckFiles());
  CHECK(u.logger->lines == std::vector<std::string>{
                               "files were touched; they hold the same bytes and go on being used "
                               "dataset=d files=b.bin"});
  CHECK(u.plan->Batch(0, {0, 6}, *u.scratch).ok());
}

TEST_CASE("a damaged index ends all plans of its dataset", "[library][files]") {
  InUse u;
  const std::filesystem::path index = u.dir / ".millrace.index";
  {
    std::fstream file(index, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(std::filesystem::file_size(index)) / 2);
    file.write(std::string(500, '\7').data(), 500);
  }
  std::filesystem::last_write_time(
      index, std::filesystem::file_time_type::clock::now() + std::chrono::seconds(2));
  CHECK(u.library.CheckFiles());
  CHECK(u.library.Compile(TextOfPipeline()).status().code() == StatusCode::kDataLoss);
  CHECK(u.library.Compile(TextOfPipeline("exclude: {files: [b.bin]}\n")).status().code() ==
        StatusCode::kDataLoss);
}

TEST_CASE("a dataset damaged before it was ever indexed is not served at all", "[library]") {
  const TempDir dir;
  WriteFixture(dir.path(), SampleFile("a.bin"));
  WriteBytes(dir / "b.bin", std::vector<std::byte>());
  PlanLibrary library(At(dir), MakeNullLogger());
  const Status status = library.Compile(TextOfPipeline("exclude: {files: [b.bin]}\n")).status();
  CHECK(status.code() == StatusCode::kDataLoss);
  CHECK(status.message().find("b.bin") != std::string::npos);
}

TEST_CASE(
    "a dataset is served without its bad files where that is asked for, and status names them",
    "[library][skip_bad]") {
  const TempDir dir;
  WriteFixture(dir.path(), SampleFile("a.bin"));
  for (int i = 0; i < 150; ++i)
    WriteBytes(dir / ("x" + std::to_string(i) + ".bin"), std::vector<std::byte>());
  PlanLibraryOptions options = At(dir);
  options.skip_bad = true;
  PlanLibrary library(options, MakeNullLogger());
  CHECK(library.Compile(TextOfPipeline()).ok());
  const DatasetStatus status = *library.GetStatus("d");
  CHECK(status.open);
  CHECK(status.error.empty());
  CHECK(status.files == 1);
  CHECK(status.left_out_files == 150);
  REQUIRE(status.left_out.size() == 100);
  CHECK(status.left_out[0].name == "x0.bin");
  CHECK(status.left_out[0].reason == "is empty");
  // The dataset has no such file, so it cannot be excluded either.
  CHECK_FALSE(library.Compile(TextOfPipeline("exclude: {files: [x0.bin]}\n")).ok());
}

}  // namespace
}  // namespace millrace::test
