// Examples on disk: they outlive a process, and whatever happens to their folder costs only speed.
#include <catch2/catch.hpp>

#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "server/files/sigbus_guard.h"
#include "server/kinds/coq/generator/generator.h"
#include "tests/unit/server/plan/cache/cached_world.h"
#include "tests/unit/server/plan/cache/faulty_files.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

/// A generated dataset, and a process that keeps its examples on disk.
struct DiskWorld : CachedWorld {
  explicit DiskWorld(std::uint64_t memory_bytes = 64 << 20) {
    GeneratorReport report;
    REQUIRE(GenerateDataset(data, {.nodes = 20'000, .files = 5}, &report).ok());
    Restart(memory_bytes);
  }
  std::vector<fs::path> Segments() const {
    std::vector<fs::path> found;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      if (entry.path().extension() == ".examples") found.push_back(entry.path());
    }
    return found;
  }
};

TEST_CASE("a process that was restarted finds on disk what another one built", "[cached]") {
  DiskWorld world;
  const std::uint64_t built = world.Builds();
  CHECK(built > 50);
  world.Restart();
  CHECK(world.Builds() == 0);
  CHECK(world.kept->stats().cache.disk->hits == built);
  CHECK(world.Builds("shuffle: {seed: 4}\n") == 0);
  CHECK(world.kept->stats().cache.disk->hits == built);
}

TEST_CASE("a pipeline that asks for memory leaves the disk alone", "[cached]") {
  DiskWorld world;
  world.level = "memory";
  const std::uint64_t built = world.Builds();
  CHECK(world.Segments().empty());
  world.level = "disk";
  world.Restart();
  CHECK(world.Builds() == built);
}

TEST_CASE("on disk there is room for what memory has none for", "[cached]") {
  DiskWorld world(0);
  const std::uint64_t built = world.Builds();
  CHECK(world.kept->stats().cache.memory.entries == 0);
  world.Restart(0);
  CHECK(world.Builds() == 0);
  CHECK(built > 0);
}

TEST_CASE("two processes share a folder", "[cached]") {
  DiskWorld world;
  const std::shared_ptr<BuiltExamples> first = world.kept;
  const std::uint64_t built = world.Builds();
  CHECK(built > 0);
  first->Flush();
  const std::shared_ptr<BuiltExamples> second = world.NewProcess();
  world.kept = second;
  CHECK(world.Builds() == 0);
  // Both write the same examples at once.
  const std::string more = "closure: {order: dfs}\n";
  const auto expected = world.Uncached(more);
  PlanLibrary one(world.Options(first), MakeNullLogger());
  PlanLibrary other(world.Options(second), MakeNullLogger());
  for (PlanLibrary* const library : {&one, &other}) {
    const auto plan = library->Compile(world.Text(more + "cache: {examples: disk}\n"));
    REQUIRE(plan.ok());
    CHECK(Same(TwoEpochs(**plan), expected));
  }
  CHECK_FALSE(one.CheckFiles());
  CHECK_FALSE(other.CheckFiles());
  first->Flush();
  second->Flush();
  world.Restart();
  CHECK(world.Builds(more) == 0);
}

TEST_CASE("damaged files of examples are built again", "[cached]") {
  DiskWorld world;
  const std::uint64_t built = world.Builds();
  world.kept.reset();
  REQUIRE_FALSE(world.Segments().empty());
  for (const fs::path& path : world.Segments()) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    const auto size = static_cast<std::streamoff>(fs::file_size(path));
    for (std::streamoff at = 200; at < size; at += 997) {
      file.seekp(at);
      file.put('\x5a');
    }
  }
  world.Restart();
  const std::uint64_t again = world.Builds();
  CHECK(again > 0);
  CHECK(again <= built);
  CHECK(world.kept->stats().cache.disk->failures > 0);
  CHECK(world.Builds() == 0);
}

TEST_CASE("a folder that is deleted under way is filled again", "[cached]") {
  DiskWorld world(0);
  const std::uint64_t built = world.Builds();
  world.kept->Flush();
  CHECK_FALSE(world.Segments().empty());
  fs::remove_all(world.folder);
  // Open segments still have their records. A look at the folder closes them.
  world.kept->Flush();
  world.Restart(0);
  CHECK(world.Builds() == built);
  world.Restart(0);
  CHECK(world.Builds() == 0);
}

TEST_CASE("a folder that vanishes while batches are built costs only speed", "[cached]") {
  const DiskWorld world(0);
  std::atomic<bool> done{false};
  std::thread remover([&] {
    std::error_code ignored;
    while (!done) fs::remove_all(world.folder, ignored);
  });
  for (int round = 0; round < 3; ++round) world.Run();
  done = true;
  remover.join();
}

TEST_CASE("a folder in which nothing can be written costs only speed", "[cached]") {
  DiskWorld world;
  const auto faulty = std::make_shared<FaultyFiles>();
  world.files = faulty;
  for (std::atomic<int> FaultyFiles::*const fault :
       {&FaultyFiles::create, &FaultyFiles::write, &FaultyFiles::list, &FaultyFiles::make_folder,
        &FaultyFiles::rename, &FaultyFiles::read, &FaultyFiles::open}) {
    for (const int error : {EROFS, ENOSPC, EIO}) {
      world.Restart();
      ((*faulty).*fault) = error;
      CHECK(world.Builds() > 0);
      CHECK(world.Builds() == 0);  // from memory
      ((*faulty).*fault) = 0;
      world.kept.reset();
      fs::remove_all(world.folder);
    }
  }
}

TEST_CASE("a folder that is full in the middle of a record costs only speed", "[cached]") {
  DiskWorld world;
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 10'000;
  const auto expected = world.Uncached();  // writes the index
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  PlanLibrary library(world.Options(world.kept), MakeNullLogger());
  const auto plan = library.Compile(world.Text("cache: {examples: disk}\n"));
  const bool same = plan.ok() && TwoEpochs(**plan) == expected;
  library.CheckFiles();
  world.kept->Flush();
  const bool again = plan.ok() && TwoEpochs(**plan) == expected;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, old);
  CHECK(same);
  CHECK(again);
  CHECK(world.kept->stats().cache.disk->failures > 0);
}

TEST_CASE("what was built of a file that is changed in place is not kept", "[cached]") {
  InstallSigbusGuard();
  CachedWorld world;
  world.Restart();
  WriteFixture(world.data, SampleFile("a.bin"));
  const std::vector<std::byte> good = ReadBytes(world.data / "a.bin");
  {
    PlanLibrary library(world.Options(world.kept), MakeNullLogger());
    const auto plan = library.Compile(world.Text("cache: {examples: disk}\n"));
    REQUIRE(plan.ok());
    const auto scratch = (*plan)->NewScratch();
    // The first example opens the file. The others are built of what is overwritten, which nobody
    // has noticed yet.
    REQUIRE((*plan)->BatchOf(std::vector{ExampleId(0)}, 0, *scratch).ok());
    std::fstream file(world.data / "a.bin", std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(200);
    file.write(std::string(300, '\0').data(), 300);
    file.close();
    static_cast<void>((*plan)->BatchOf(std::vector{ExampleId(1), ExampleId(2)}, 0, *scratch));
    fs::last_write_time(world.data / "a.bin",
                        fs::file_time_type::clock::now() + std::chrono::seconds(2));
    CHECK(library.CheckFiles());
    CHECK(world.kept->stats().cache.memory.entries == 0);
  }
  WriteBytes(world.data / "a.bin", good);
  CHECK(world.Builds() == 3);
  world.Restart();
  CHECK(world.Builds() == 0);
}

}  // namespace
}  // namespace millrace::test
