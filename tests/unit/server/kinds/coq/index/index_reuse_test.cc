// Indexing again after files have changed: only the changed files are read, but the index is the
// same as if all files were read.
#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <rapidcheck/catch.h>

#include "server/kinds/coq/generator/generator.h"
#include "server/kinds/coq/index/index_store.h"
#include "tests/support/dataset_fixture.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using test::FixtureFile;
using test::SampleFile;
using test::TempDir;

struct Built {
  Result<std::shared_ptr<const DatasetIndex>> index = Internal("not built");
  CoqIndexOutcome outcome;
};

Built Index(const fs::path& dir, const fs::path& file, bool force) {
  IndexOptions options;
  options.index_file = file;
  options.force = force;
  options.build.threads = 2;
  Built built;
  built.index = OpenOrBuildIndex(dir, options, &built.outcome);
  return built;
}

/// A folder whose files change, and the index that is kept for it.
class ChangingDataset {
 public:
  const TempDir& dir() const { return dir_; }

  void Write(const FixtureFile& file) { test::WriteFixture(dir_.path(), file); }
  void Remove(const std::string& name) { fs::remove(dir_ / name); }

  /// Indexes once with the kept index and once from nothing; both must give the same. Returns the
  /// first.
  Built Check() {
    Built kept = Index(dir_.path(), elsewhere_ / "kept", false);
    const Built anew = Index(dir_.path(), elsewhere_ / "anew", true);
    RC_ASSERT(kept.index.ok() == anew.index.ok());
    if (kept.index.ok()) {
      RC_ASSERT(test::ReadBytes(elsewhere_ / "kept") == test::ReadBytes(elsewhere_ / "anew"));
    } else {
      RC_ASSERT(kept.index.status().message() == anew.index.status().message());
    }
    return kept;
  }

 private:
  const TempDir dir_;
  const TempDir elsewhere_;
};

/// Files that depend on one another at random. The texts of their tactics differ from file to file,
/// and they refer to the last nodes of other files.
class RandomFiles {
 public:
  explicit RandomFiles(ChangingDataset& dataset) : dataset_(dataset) {
    const auto count = *rc::gen::inRange(1, 7);
    for (int i = 0; i < count; ++i) Add();
  }

  void Add() {
    const auto name = "f" + std::to_string(*rc::gen::inRange(0, 40)) + ".bin";
    if (!nodes_.contains(name)) Write(name);
  }
  void Change() {
    if (!order_.empty()) Write(*rc::gen::elementOf(order_));
  }
  void Remove() {
    if (order_.size() < 2) return;
    const auto at = *rc::gen::inRange<std::size_t>(0, order_.size());
    dataset_.Remove(order_[at]);
    nodes_.erase(order_[at]);
    order_.erase(order_.begin() + static_cast<std::ptrdiff_t>(at));
  }
  std::size_t size() const { return order_.size(); }

 private:
  // A file depends only on files that stand before it in order_, so that there is no cycle.
  void Write(const std::string& name) {
    std::vector<std::string> dependencies;
    const auto at = std::find(order_.begin(), order_.end(), name);
    for (auto other = order_.begin(); other != at; ++other) {
      if (*rc::gen::inRange(0, 3) == 0) dependencies.push_back(*other);
    }
    if (*rc::gen::arbitrary<bool>()) std::reverse(dependencies.begin(), dependencies.end());
    FixtureFile file = SampleFile(name, dependencies);
    for (int extra = *rc::gen::inRange(0, 4); extra > 0; --extra) file.nodes.push_back({.tag = 8});
    for (std::uint32_t d = 0; d < dependencies.size(); ++d) {
      if (*rc::gen::inRange(0, 4) == 0) continue;
      file.nodes[9].children.push_back({2, {d + 1, nodes_[dependencies[d]] - 1}});
    }
    for (test::FixtureStep& step : file.definitions[4].steps) {
      step.ident = *rc::gen::inRange(7, 12);
      step.base_text = *rc::gen::element<std::string>("intros", "apply", "rewrite");
      if (*rc::gen::inRange(0, 3) == 0) step.outcomes.clear();
    }
    if (*rc::gen::inRange(0, 4) == 0) file.representative.reset();
    nodes_[name] = static_cast<std::uint32_t>(file.nodes.size());
    if (at == order_.end()) order_.push_back(name);
    dataset_.Write(file);
  }

  ChangingDataset& dataset_;
  std::vector<std::string> order_;
  std::map<std::string, std::uint32_t> nodes_;
};

TEST_CASE("an index made with an older one's records is the one made from all files",
          "[index_reuse]") {
  rc::prop("whatever files are changed, added, removed or depend on others now", [] {
    ChangingDataset dataset;
    RandomFiles files(dataset);
    dataset.Check();
    for (int round = *rc::gen::inRange(1, 4); round > 0; --round) {
      for (int change = *rc::gen::inRange(1, 4); change > 0; --change) {
        switch (*rc::gen::inRange(0, 4)) {
          case 0:
            files.Add();
            break;
          case 1:
            files.Remove();
            break;
          default:
            files.Change();
        }
      }
      const Built built = dataset.Check();
      if (built.index.ok()) RC_ASSERT((*built.index)->files().size() == files.size());
    }
  });
}

// Three files, of which b and c depend on a.
struct ThreeFiles : ChangingDataset {
  ThreeFiles() {
    Write(SampleFile("a.bin"));
    Write(SampleFile("b.bin", {"a.bin"}));
    Write(SampleFile("c.bin", {"a.bin"}));
    REQUIRE(Check().index.ok());
  }
  std::uint64_t Anew() {
    const Built built = Check();
    REQUIRE(built.outcome.built);
    return built.outcome.report.files - built.outcome.report.unchanged_files;
  }
};

TEST_CASE("only a changed file is read", "[index_reuse]") {
  ThreeFiles files;
  FixtureFile b = SampleFile("b.bin", {"a.bin"});
  b.nodes.push_back({.tag = 8});
  files.Write(b);
  CHECK(files.Anew() == 1);
}

TEST_CASE("only a new file is read", "[index_reuse]") {
  ThreeFiles files;
  files.Write(SampleFile("aa.bin", {"a.bin"}));
  CHECK(files.Anew() == 1);
}

TEST_CASE("nothing is read where a file is gone", "[index_reuse]") {
  ThreeFiles files;
  files.Remove("b.bin");
  CHECK(files.Anew() == 0);
}

TEST_CASE("a file that was only touched counts as unchanged", "[index_reuse]") {
  ThreeFiles files;
  files.Write(SampleFile("c.bin", {"a.bin"}));
  files.Remove("b.bin");
  CHECK(files.Anew() == 0);
}

TEST_CASE("files that depend on one that became smaller are read again", "[index_reuse]") {
  ThreeFiles files;
  FixtureFile a = SampleFile("a.bin");
  a.nodes.push_back({.tag = 8});
  files.Write(a);
  CHECK(files.Anew() == 1);  // a is larger now, so all nodes that b and c refer to still exist
  files.Write(SampleFile("a.bin"));
  CHECK(files.Anew() == 3);
}

TEST_CASE("a tactic's text comes from the file that is first with it now", "[index_reuse]") {
  ChangingDataset dataset;
  FixtureFile a = SampleFile("a.bin");
  FixtureFile b = SampleFile("b.bin", {"a.bin"});
  for (auto& step : a.definitions[4].steps) step.base_text = "of a";
  for (auto& step : b.definitions[4].steps) step.base_text = "of b";
  dataset.Write(a);
  dataset.Write(b);
  REQUIRE(dataset.Check().index.ok());
  for (auto& step : a.definitions[4].steps) step.ident = 70;
  dataset.Write(a);
  const Built built = dataset.Check();
  REQUIRE(built.index.ok());
  CHECK(built.outcome.report.unchanged_files == 1);
  std::map<std::int64_t, std::string> texts;
  for (const TacticRecord& tactic : (*built.index)->tactics()) {
    texts[tactic.ident] = (*built.index)->string(tactic.base_text);
  }
  CHECK(texts == std::map<std::int64_t, std::string>{{7, "of b"}, {9, "of b"}, {70, "of a"}});
}

TEST_CASE("an older index that is damaged is not made use of", "[index_reuse]") {
  const TempDir dir;
  const TempDir elsewhere;
  GeneratorReport report;
  REQUIRE(GenerateDataset(dir.path(),
                          {.seed = 1, .nodes = 90'000, .files = 12, .proof_states = 90'000},
                          &report)
              .ok());
  const fs::path file = elsewhere / "index";
  REQUIRE(Index(dir.path(), file, false).index.ok());
  const std::vector<std::byte> whole = test::ReadBytes(file);
  REQUIRE(whole.size() > (8u << 20));  // so large that opening it does not show the damage
  std::vector<std::byte> damaged = whole;
  damaged[damaged.size() / 2] ^= std::byte{1};
  test::WriteBytes(file, damaged);
  test::WriteFixture(dir.path(), SampleFile("new.bin"));
  const Built built = Index(dir.path(), file, false);
  REQUIRE(built.index.ok());
  CHECK(built.outcome.report.unchanged_files == 0);
  CHECK((*built.index)->Verify().ok());
}

TEST_CASE("a generated dataset is indexed again file by file", "[index_reuse]") {
  const TempDir dir;
  const TempDir elsewhere;
  GeneratorReport report;
  REQUIRE(GenerateDataset(dir.path(), {.seed = 2, .nodes = 60'000, .files = 15}, &report).ok());
  const fs::path kept = elsewhere / "kept";
  const Built first = Index(dir.path(), kept, false);
  REQUIRE(first.index.ok());
  // The last file of the order, on which no other depends.
  const std::string last((*first.index)->file_name(14));
  const std::vector<std::byte> bytes = test::ReadBytes(dir / last);
  fs::remove(dir / last);
  const Built without = Index(dir.path(), kept, false);
  REQUIRE(without.index.ok());
  CHECK(without.outcome.report.unchanged_files == 14);
  test::WriteBytes(dir / last, bytes);
  const Built with = Index(dir.path(), kept, false);
  REQUIRE(with.index.ok());
  CHECK(with.outcome.report.unchanged_files == 14);
  REQUIRE(Index(dir.path(), elsewhere / "anew", true).index.ok());
  CHECK(test::ReadBytes(kept) == test::ReadBytes(elsewhere / "anew"));
}

}  // namespace
}  // namespace millrace
