// A file of a dataset: framing, scan, index, and batches built from it. Beside it lies an intact
// file, `base.bin`, on which it may depend.
#include "server/kinds/coq/scan/graph_file.h"

#include <filesystem>
#include <fstream>

#include "server/kinds/coq/coq_dataset.h"
#include "server/kinds/coq/generator/generator.h"
#include "server/kinds/coq/index/index_builder.h"
#include "server/kinds/coq/scan/file_scanner.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/plan_use.h"
#include "tests/support/dataset_fixture.h"
#include "tests/unit/server/state/temporary_folder.h"

namespace millrace::fuzz {
namespace {

constexpr const char* kName = "fuzzed.bin";

struct World {
  World() { test::WriteFixture(folder.path(), test::SampleFile("base.bin")); }
  test::TemporaryFolder folder;
};

void Write(const std::filesystem::path& path, const std::uint8_t* data, std::size_t size) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
}

}  // namespace
}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  static const fuzz::World world;
  const std::filesystem::path& dir = world.folder.path();
  fuzz::Write(dir / fuzz::kName, data, size);
  FileSummary summary;
  FileBlob blob;
  const NameTable names = {{"base.bin", 0}, {fuzz::kName, 1}};
  const Status scanned = ScanFile(dir, fuzz::kName, 1, names, summary, blob);
  if (!scanned.ok()) {
    fuzz::Require(scanned.code() == StatusCode::kDataLoss, "a bad file is DataLoss");
    return 0;
  }
  const std::filesystem::path index_file = dir / "index";
  const auto built = BuildIndex(dir, index_file, {.threads = 1});
  if (!built.ok()) return 0;  // some errors show only in comparison with the other file
  const auto index = DatasetIndex::Open(index_file);
  fuzz::RequireOk(index.status(), "an index that was built opens");
  fuzz::RequireOk((*index)->Verify(), "an index that was built is whole");
  const Status used = fuzz::UseDataset(std::make_shared<const CoqDataset>(dir, *index));
  fuzz::Require(used.ok() || used.code() != StatusCode::kDataLoss,
                "a file that was indexed can be read: " + used.message());
  return 0;
}

std::vector<std::string> millrace::fuzz::Seeds() {
  std::vector<std::string> seeds;
  const auto add = [&](const std::vector<std::byte>& bytes) {
    seeds.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  add(test::Serialize(test::SampleFile(kName)));
  add(test::Serialize(test::SampleFile(kName, {"base.bin"})));
  test::FixtureFile one_segment = test::SampleFile(kName, {"base.bin"});
  one_segment.segment_words = 1 << 16;
  add(test::Serialize(one_segment));
  test::FixtureFile small{.name = kName};
  small.nodes = {{.tag = 3}, {.tag = 5, .children = {{1, {0, 0}}}}};
  small.definitions = {{.node = 0, .name = "a"}};
  add(test::Serialize(small));
  return seeds;
}
