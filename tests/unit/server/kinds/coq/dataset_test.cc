// Tests of opening the files of an indexed dataset.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "server/kinds/coq/coq_dataset.h"
#include "tests/unit/server/kinds/coq/index/index_store_fixture.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using test::Open;
using test::Opened;
using test::SampleFile;
using test::TempDir;
using test::Touch;
using test::WriteSamples;

TEST_CASE("a file that was changed after indexing is refused when it is opened", "[dataset]") {
  const TempDir dir;
  WriteSamples(dir);
  const Opened opened = Open(dir.path());
  REQUIRE(opened.index.ok());
  test::FixtureFile file = SampleFile("a.bin");
  file.nodes[9].identity = 12345;
  test::WriteFixture(dir.path(), file);
  const CoqDataset dataset(dir.path(), *opened.index);
  const Status status = dataset.View(FileId(0)).status();
  CHECK(status.code() == StatusCode::kDataLoss);
  CHECK_THAT(status.message(), Catch::Contains("a.bin") && Catch::Contains("digest"));
  CHECK(dataset.TryView(FileId(0)) == nullptr);
  CHECK(dataset.View(FileId(1)).ok());
}

TEST_CASE("a file that is gone or cut off after indexing is refused with its name", "[dataset]") {
  const TempDir dir;
  WriteSamples(dir);
  const Opened opened = Open(dir.path());
  REQUIRE(opened.index.ok());
  fs::resize_file(dir / "a.bin", 100);
  fs::remove(dir / "x/b.bin");
  const CoqDataset dataset(dir.path(), *opened.index);
  for (std::uint32_t f = 0; f < 2; ++f) {
    const Status status = dataset.View(FileId(f)).status();
    CHECK(status.code() == StatusCode::kDataLoss);
    CHECK_THAT(status.message(), Catch::Contains(std::string((*opened.index)->file_name(f))));
  }
  CHECK(dataset.View(FileId(2)).status().code() == StatusCode::kOutOfRange);
}

TEST_CASE("a file that was only touched is hashed and opened", "[dataset]") {
  const TempDir dir;
  WriteSamples(dir);
  const Opened opened = Open(dir.path());
  REQUIRE(opened.index.ok());
  Touch(dir / "a.bin");
  const CoqDataset dataset(dir.path(), *opened.index);
  CHECK(dataset.View(FileId(0)).ok());
}

TEST_CASE("threads that open a file at once all get the same view", "[dataset]") {
  const TempDir dir;
  WriteSamples(dir);
  const Opened opened = Open(dir.path());
  REQUIRE(opened.index.ok());
  const CoqDataset dataset(dir.path(), *opened.index);
  std::vector<const FileView*> views(8, nullptr);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < views.size(); ++t) {
      threads.emplace_back([&, t] {
        const Result<const FileView*> view = dataset.View(FileId(1));
        if (view.ok()) views[t] = *view;
      });
    }
  }
  REQUIRE(views[0] != nullptr);
  CHECK(std::all_of(views.begin(), views.end(), [&](auto* view) { return view == views[0]; }));
  const FileView& view = *views[0];
  CHECK(view.node_count == 10);
  CHECK(view.dependency_count == 2);
  CHECK(view.dependency_files[1] == 0);
  CHECK(view.node_base == 10);
  const NodeWord node = NodeWord::Decode(LoadWord(view.nodes + 7 * kNodeWords));
  CHECK(node.tag == 13);
  CHECK(node.children_count == 2);
  CHECK(EdgeWord::Decode(LoadWord(view.edges + node.children_index)).label == 16);
  CHECK(view.nodes[7 * kNodeWords + 1] == 107);
}

}  // namespace
}  // namespace millrace
