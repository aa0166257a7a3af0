#include "server/kinds/records/format/record_writer.h"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <sys/resource.h>

#include "server/kinds/records/format/example_builder.h"
#include "tests/support/dataset_fixture.h"
#include "tests/support/example_oracle.h"
#include "tests/unit/server/kinds/records/format/record_file.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using test::BytesOf;

TEST_CASE("records that were written are read, small and larger than the buffer", "[records]") {
  const test::TempDir dir;
  const fs::path path = dir.path() / "a.tfrecord";
  auto writer = RecordWriter::Create(path);
  REQUIRE(writer.ok());
  std::vector<std::string> records = {"", "one", std::string(3 << 20, 'x'), "two",
                                      std::string((1 << 20) - 1, 'y')};
  for (int i = 0; i < 5000; ++i) records.push_back(std::to_string(i) + std::string(300, 'z'));
  for (const std::string& record : records) REQUIRE(writer->Append(BytesOf(record)).ok());
  REQUIRE(writer->Close(/*sync=*/true).ok());
  CHECK(writer->records() == records.size());
  CHECK(writer->bytes() == fs::file_size(path));
  const auto all = test::ReadAllRecords(test::ReadFileText(path));
  CHECK(all.fault == RecordFault::kSound);
  CHECK(all.records == records);
}

TEST_CASE("a writer replaces a file, and names one that it cannot make", "[records]") {
  const test::TempDir dir;
  const fs::path path = dir.path() / "a.tfrecord";
  for (const std::string text : {"a longer text", "short"}) {
    auto writer = RecordWriter::Create(path);
    REQUIRE(writer.ok());
    REQUIRE(writer->Append(BytesOf(text)).ok());
    REQUIRE(writer->Close(/*sync=*/false).ok());
    CHECK(test::ReadFileText(path) == test::Record(text));
  }
  const auto none = RecordWriter::Create(dir.path() / "no folder" / "a.tfrecord");
  REQUIRE_FALSE(none.ok());
  CHECK_THAT(none.status().message(), Contains("no folder/a.tfrecord cannot be"));
}

TEST_CASE("an error of writing names the file", "[records]") {
  const test::TempDir dir;
  auto writer = RecordWriter::Create(dir.path() / "a.tfrecord");
  REQUIRE(writer.ok());
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit small{.rlim_cur = 4096, .rlim_max = before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  CHECK(writer->Append(BytesOf(std::string(8192, 'x'))).ok());  // stays in the buffer
  const Status closed = writer->Close(/*sync=*/false);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, handler);
  CHECK_FALSE(closed.ok());
  CHECK_THAT(closed.message(), Contains("a.tfrecord: cannot be written: File too large"));
}

TEST_CASE("examples are encoded as protobuf's deterministic serialization does", "[records]") {
  ExampleBuilder builder;
  rc::prop("any features", [&] {
    std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
    test::PlainExample example = test::RandomExample(random);
    std::erase_if(example, [](const auto& e) { return e.second.kind == FeatureKind::kAbsent; });
    std::vector<std::string> names;
    for (const auto& [name, feature] : example) names.push_back(name);
    std::shuffle(names.begin(), names.end(), random);
    builder.Clear();
    for (const std::string& name : names) {
      const test::PlainFeature& feature = example[name];
      if (feature.kind == FeatureKind::kBytes) {
        builder.AddBytes(name,
                         std::vector<std::string_view>(feature.bytes.begin(), feature.bytes.end()));
      } else if (feature.kind == FeatureKind::kFloat) {
        std::vector<float> floats(feature.floats.size());
        if (!floats.empty()) {
          std::memcpy(floats.data(), feature.floats.data(), 4 * floats.size());
        }
        builder.AddFloats(name, floats);
      } else {
        builder.AddInts(name, feature.ints);
      }
    }
    const auto bytes = builder.Finish();
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    RC_ASSERT(text == test::WriteByProtobuf(example));
  });
}

}  // namespace
}  // namespace millrace
