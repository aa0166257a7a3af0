// Properties of generating that do not depend on the content: bytes, numbers, folders, errors.
// Also, an index can be made of the result.
#include <rapidcheck.h>
#include <rapidcheck/catch.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <sys/resource.h>

#include "server/kinds/coq/generator/generator.h"
#include "server/kinds/coq/index/index_builder.h"
#include "tests/support/dataset_fixture.h"
#include "tests/unit/server/kinds/coq/generator/plain_dataset.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using test::TempDir;

using Bytes = std::map<std::string, std::vector<std::byte>>;

Bytes ReadAll(const fs::path& dir) {
  Bytes bytes;
  for (const auto& entry : fs::recursive_directory_iterator(dir)) {
    if (!entry.is_regular_file()) continue;
    bytes[entry.path().lexically_relative(dir).generic_string()] = test::ReadBytes(entry.path());
  }
  return bytes;
}

GeneratorOptions Small(std::uint64_t seed) {
  GeneratorOptions options;
  options.nodes = 60'000;
  options.files = 30;
  options.seed = seed;
  return options;
}

GeneratorReport MustGenerate(const fs::path& dir, const GeneratorOptions& options) {
  GeneratorReport report;
  const Status status = GenerateDataset(dir, options, &report);
  INFO(status.ToString());
  REQUIRE(status.ok());
  return report;
}

}  // namespace

TEST_CASE("equal options give equal bytes, on any number of threads", "[generator]") {
  TempDir one;
  TempDir three;
  GeneratorOptions options = Small(5);
  options.threads = 1;
  MustGenerate(one.path(), options);
  options.threads = 3;
  MustGenerate(three.path(), options);
  const Bytes expected = ReadAll(one.path());
  CHECK(expected.size() == 30);
  CHECK((expected == ReadAll(three.path())));
}

TEST_CASE("another seed gives other bytes in every file that has nodes", "[generator]") {
  TempDir a;
  TempDir b;
  MustGenerate(a.path(), Small(5));
  MustGenerate(b.path(), Small(6));
  const Bytes first = ReadAll(a.path());
  const Bytes second = ReadAll(b.path());
  REQUIRE(first.size() == second.size());
  for (const auto& [name, bytes] : first) {
    INFO(name);
    REQUIRE(second.count(name) == 1);
    if (bytes.size() > 2000) CHECK((bytes != second.at(name)));
  }
}

TEST_CASE("files, definitions and proof states are as many as asked for, nodes about",
          "[generator]") {
  TempDir dir;
  GeneratorOptions options;
  options.files = 57;
  options.definitions = 4321;
  options.proof_states = 7654;
  options.nodes = 300'000;
  const GeneratorReport report = MustGenerate(dir.path(), options);
  CHECK(report.files == 57);
  CHECK(report.definitions == 4321);
  CHECK(report.proof_states == 7654);
  CHECK(report.nodes > 285'000);
  CHECK(report.nodes < 315'000);

  const test::PlainDataset dataset = test::ReadPlainDataset(dir.path());
  std::uint64_t nodes = 0;
  std::uint64_t edges = 0;
  std::uint64_t definitions = 0;
  std::uint64_t bytes = 0;
  for (const test::PlainFile& file : dataset.files) {
    nodes += file.labels.size();
    for (const auto& children : file.children) edges += children.size();
    definitions += file.definitions.size();
    bytes += fs::file_size(dir.path() / file.name);
  }
  CHECK(dataset.files.size() == report.files);
  CHECK(dataset.Examples().size() == report.proof_states);
  CHECK(definitions == report.definitions);
  CHECK(nodes == report.nodes);
  CHECK(edges == report.edges);
  CHECK(bytes == report.bytes);
}

TEST_CASE("numbers that are left out are in the proportions of published datasets", "[generator]") {
  GeneratorOptions options;
  const auto complete = CompleteGeneratorOptions(options);
  REQUIRE(complete.ok());
  CHECK(complete->nodes == 1'000'000);
  CHECK(complete->files == 50);
  CHECK(complete->definitions == 6666);
  CHECK(complete->proof_states == 28571);
  options.nodes = 250'000'000;
  CHECK(CompleteGeneratorOptions(options)->files == 5030);
}

TEST_CASE("numbers that cannot go together are refused with both", "[generator]") {
  GeneratorOptions options;
  options.nodes = 100;
  options.definitions = 101;
  const Status status = CompleteGeneratorOptions(options).status();
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK(status.message() ==
        "each definition is a node: 101 definitions do not fit into 100 nodes; ask for more nodes");
}

TEST_CASE("a file beyond what the encoding holds is refused", "[generator]") {
  GeneratorOptions options;
  options.nodes = 250'000'000;
  options.files = 1;
  const Status status = CompleteGeneratorOptions(options).status();
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK(status.message().find("ask for more files than 1") != std::string::npos);
}

TEST_CASE("a dataset can have no proofs at all", "[generator]") {
  TempDir dir;
  GeneratorOptions options = Small(1);
  options.without_proofs = true;
  CHECK(MustGenerate(dir.path(), options).proof_states == 0);
  CHECK(test::ReadPlainDataset(dir.path()).Examples().empty());
}

TEST_CASE("one segment a file means one", "[generator]") {
  TempDir dir;
  GeneratorOptions options = Small(2);
  options.segments = 1;
  MustGenerate(dir.path(), options);
  const test::PlainDataset dataset = test::ReadPlainDataset(dir.path());
  for (const test::PlainFile& file : dataset.files) {
    INFO(file.name);
    CHECK(file.segments == 1);
    CHECK(file.far_pointers == 0);
  }
}

TEST_CASE("large files have about as many segments as asked for", "[generator]") {
  TempDir dir;
  GeneratorOptions options = Small(2);
  options.nodes = 200'000;
  options.files = 5;
  options.segments = 20;
  MustGenerate(dir.path(), options);
  std::size_t large = 0;
  const test::PlainDataset dataset = test::ReadPlainDataset(dir.path());
  for (const test::PlainFile& file : dataset.files) {
    if (fs::file_size(dir.path() / file.name) < 1'000'000) continue;
    INFO(file.name);
    ++large;
    CHECK(file.segments > 12);
    CHECK(file.segments < 30);
    CHECK(file.far_pointers > 0);
    CHECK(file.double_far_pointers == 2);  // to nodes and edges, which fill their segments
  }
  CHECK(large >= 3);
}

TEST_CASE("with four segments, pointers to nodes and edges are double-far", "[generator]") {
  TempDir dir;
  GeneratorOptions options = Small(2);
  options.files = 4;
  options.segments = 4;
  MustGenerate(dir.path(), options);
  const test::PlainDataset dataset = test::ReadPlainDataset(dir.path());
  for (const test::PlainFile& file : dataset.files) {
    INFO(file.name);
    CHECK(file.segments >= 4);
    CHECK(file.segments < 7);
    CHECK(file.double_far_pointers == 2);
  }
}

TEST_CASE("a folder that holds something is refused", "[generator]") {
  TempDir dir;
  test::WriteBytes(dir / "notes.txt", {});
  GeneratorReport report;
  const Status status = GenerateDataset(dir.path(), Small(1), &report);
  CHECK(status.code() == StatusCode::kFailedPrecondition);
  CHECK(status.message().find("is not empty") != std::string::npos);
  CHECK(ReadAll(dir.path()).size() == 1);
}

TEST_CASE("force replaces a generated dataset, with nothing left of it", "[generator]") {
  TempDir dir;
  TempDir fresh;
  GeneratorOptions options = Small(1);
  options.files = 60;
  MustGenerate(dir.path(), options);
  options.files = 10;
  MustGenerate(fresh.path(), options);
  options.force = true;
  MustGenerate(dir.path(), options);
  CHECK((ReadAll(dir.path()) == ReadAll(fresh.path())));
}

TEST_CASE("force leaves data alone that was not generated", "[generator]") {
  TempDir dir;
  test::WriteFixture(dir.path(), test::SampleFile("theories/a.bin"));
  GeneratorOptions options = Small(1);
  options.force = true;
  GeneratorReport report;
  const Status status = GenerateDataset(dir.path(), options, &report);
  CHECK(status.code() == StatusCode::kFailedPrecondition);
  CHECK(status.message().find("theories/a.bin was not generated") != std::string::npos);
  CHECK(fs::exists(dir / "theories/a.bin"));
}

TEST_CASE("a folder that cannot be made is named in one line", "[generator]") {
  TempDir dir;
  test::WriteBytes(dir / "file", {});
  GeneratorReport report;
  const Status status = GenerateDataset(dir / "file/data", Small(1), &report);
  CHECK(status.code() == StatusCode::kFailedPrecondition);
  CHECK(status.message().find("file/data") != std::string::npos);
  CHECK(status.message().find('\n') == std::string::npos);
}

TEST_CASE("where writing fails, the file is named and nothing stays behind", "[generator]") {
  // A limit on the size of files simulates a full disk: the same system call fails half-way.
  TempDir dir;
  struct sigaction ignore = {};
  struct sigaction before = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &ignore, &before);
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small{.rlim_cur = 100'000, .rlim_max = old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  GeneratorReport report;
  const Status status = GenerateDataset(dir.path(), Small(1), &report);
  setrlimit(RLIMIT_FSIZE, &old);
  sigaction(SIGXFSZ, &before, nullptr);

  CHECK(status.code() == StatusCode::kResourceExhausted);
  CHECK(status.message().find("cannot write " + (dir / "generated/").string()) == 0);
  CHECK(status.message().find('\n') == std::string::npos);
  CHECK(fs::is_empty(dir.path()));
}

TEST_CASE("progress tells of every node", "[generator]") {
  TempDir dir;
  GeneratorOptions options = Small(3);
  std::atomic<std::uint64_t> told{0};
  options.progress = [&told](std::uint64_t nodes) { told += nodes; };
  const GeneratorReport report = MustGenerate(dir.path(), options);
  CHECK(report.nodes == told.load());
}

TEST_CASE("an index is made of a generated dataset, with the same numbers", "[generator]") {
  TempDir dir;
  TempDir cache;
  const GeneratorReport report = MustGenerate(dir.path(), {});
  const auto index = BuildIndex(dir.path(), cache / "index", {});
  INFO((index.ok() ? std::string() : index.status().message()));
  REQUIRE(index.ok());
  CHECK(index->files == report.files);
  CHECK(index->nodes == report.nodes);
  CHECK(index->edges == report.edges);
  CHECK(index->definitions == report.definitions);
  CHECK(index->proof_states == report.proof_states);
  CHECK(index->dataset_bytes == report.bytes);
}

TEST_CASE("datasets of all proportions can be indexed", "[generator]") {
  rc::prop("files, definitions and proof states in any proportion", [] {
    GeneratorOptions options;
    options.seed = *rc::gen::arbitrary<std::uint64_t>();
    options.nodes = *rc::gen::inRange<std::uint64_t>(1, 3000);
    options.files =
        *rc::gen::inRange<std::uint64_t>(1, std::min<std::uint64_t>(60, options.nodes + 1));
    options.definitions = *rc::gen::inRange<std::uint64_t>(1, options.nodes + 1);
    options.proof_states = *rc::gen::inRange<std::uint64_t>(1, 1000);
    options.segments = *rc::gen::inRange<std::uint32_t>(1, 40);
    TempDir dir;
    TempDir cache;
    GeneratorReport report;
    const Status status = GenerateDataset(dir.path(), options, &report);
    RC_ASSERT(status.ok());
    RC_ASSERT(report.files == options.files);
    RC_ASSERT(report.definitions == options.definitions);
    RC_ASSERT(report.proof_states == options.proof_states);
    const auto index = BuildIndex(dir.path(), cache / "index", {});
    RC_ASSERT(index.ok());
    RC_ASSERT(index->nodes == report.nodes);
    RC_ASSERT(index->proof_states == report.proof_states);
  });
}

}  // namespace millrace
