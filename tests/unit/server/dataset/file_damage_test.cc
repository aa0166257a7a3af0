// Files that change while they are mapped: no read ends the process, and what became of a file is
// known afterwards.
#include <catch2/catch.hpp>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "server/dataset/dataset.h"
#include "server/dataset/index_store.h"
#include "server/dataset/mapped_file.h"
#include "server/dataset/sigbus_guard.h"
#include "server/dataset/verify.h"
#include "tests/support/dataset_fixture.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using Kind = FileChange::Kind;

constexpr std::size_t kPages = 8;

std::size_t PageBytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

/// A file of ones.
fs::path WriteOnes(const fs::path& path) {
  WriteBytes(path, std::vector<std::byte>(kPages * PageBytes(), std::byte{1}));
  return path;
}

MappedFile Map(const fs::path& path) {
  InstallSigbusGuard();
  return *MappedFile::Open(path, AccessPattern::kRandom);
}

std::byte ReadOnce(const MappedFile& file, std::size_t offset) {
  return *static_cast<const volatile std::byte*>(file.bytes().data() + offset);
}

TEST_CASE("a read behind the end of a file that was cut off gives zeros and marks the file",
          "[sigbus]") {
  const TempDir dir;
  const MappedFile file = Map(WriteOnes(dir / "a"));
  const MappedFile other = Map(WriteOnes(dir / "b"));
  fs::resize_file(dir / "a", 2 * PageBytes());
  CHECK(ReadOnce(file, PageBytes()) == std::byte{1});
  CHECK(file.CheckIntact().ok());
  const std::uint64_t faults = SigbusFaults();
  CHECK(ReadOnce(file, 5 * PageBytes() + 7) == std::byte{0});
  CHECK(SigbusFaults() == faults + 1);
  CHECK(file.CheckIntact().code() == StatusCode::kDataLoss);
  CHECK_THAT(file.CheckIntact().message(),
             Contains("at byte " + std::to_string(5 * PageBytes() + 7)));
  // Behind it without another fault, before it with one; nothing else is touched.
  CHECK(ReadOnce(file, 7 * PageBytes()) == std::byte{0});
  CHECK(SigbusFaults() == faults + 1);
  CHECK(ReadOnce(file, 3 * PageBytes()) == std::byte{0});
  CHECK(SigbusFaults() == faults + 2);
  CHECK(ReadOnce(file, 0) == std::byte{1});
  CHECK(other.CheckIntact().ok());
}

TEST_CASE("the mark moves with the file and does not outlive it", "[sigbus]") {
  const TempDir dir;
  MappedFile file = Map(WriteOnes(dir / "a"));
  fs::resize_file(dir / "a", 0);
  ReadOnce(file, 0);
  MappedFile moved = std::move(file);
  CHECK_FALSE(moved.CheckIntact().ok());
  moved = Map(WriteOnes(dir / "b"));
  CHECK(moved.CheckIntact().ok());
}

TEST_CASE("threads that read one cut file at once all go on", "[sigbus]") {
  const TempDir dir;
  const MappedFile file = Map(WriteOnes(dir / "a"));
  WriteOnes(dir / "passing");
  fs::resize_file(dir / "a", 0);
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&file, t] {
      for (std::size_t page = kPages; page > 0; --page) {
        ReadOnce(file, (page - 1) * PageBytes() + t);
        // Others come and go meanwhile.
        const MappedFile passing = Map(file.path().parent_path() / "passing");
        ReadOnce(passing, 0);
      }
    });
  }
  threads.clear();
  CHECK_FALSE(file.CheckIntact().ok());
}

TEST_CASE("a fault outside of mapped files ends the process as before", "[sigbus]") {
  const TempDir dir;
  WriteOnes(dir / "a");
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGBUS, SIG_DFL);
    InstallSigbusGuard();
    const std::FILE* raw = std::fopen((dir / "a").c_str(), "rb");
    void* map = ::mmap(nullptr, PageBytes(), PROT_READ, MAP_SHARED,
                       ::fileno(const_cast<std::FILE*>(raw)), 0);
    fs::resize_file(dir / "a", 0);
    ::_exit(static_cast<int>(*static_cast<volatile char*>(map)));
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGBUS);
}

TEST_CASE("a look tells what was replaced from what was changed in place", "[files]") {
  const TempDir dir;
  const MappedFile file = Map(WriteOnes(dir / "a"));
  CHECK(file.Look().kind == Kind::kSame);
  SECTION("renamed over") {
    WriteOnes(dir / "b");
    fs::rename(dir / "b", dir / "a");
    CHECK(file.Look().kind == Kind::kReplaced);
  }
  SECTION("removed") {
    fs::remove(dir / "a");
    CHECK(file.Look().kind == Kind::kReplaced);
  }
  SECTION("cut off") {
    fs::resize_file(dir / "a", 5);
    CHECK(file.Look().kind == Kind::kInPlace);
    CHECK_THAT(file.Look().what, Contains("it has 5 bytes, had "));
  }
  SECTION("written to, at another time") {
    fs::last_write_time(dir / "a", fs::last_write_time(dir / "a") + std::chrono::seconds(1));
    CHECK(file.Look().kind == Kind::kInPlace);
    CHECK_THAT(file.Look().what, Contains("modified 1.000 s later"));
  }
  SECTION("other permissions") {
    fs::permissions(dir / "a", fs::perms::owner_read);
    CHECK(file.Look().kind == Kind::kSame);
  }
}

struct Opened {
  TempDir dir;
  std::unique_ptr<Dataset> dataset;

  Opened() {
    InstallSigbusGuard();
    WriteFixture(dir.path(), SampleFile("a.bin"));
    WriteFixture(dir.path(), SampleFile("b.bin", {"a.bin"}));
    dataset = std::make_unique<Dataset>(dir.path(), *OpenOrBuildIndex(dir.path(), {}));
    for (std::uint32_t f = 0; f < 2; ++f) REQUIRE(dataset->View(FileId(f)).ok());
  }
};

TEST_CASE("a dataset tells once of each file, and remembers the damaged ones", "[files]") {
  Opened o;
  CHECK(o.dataset->CheckFiles().damaged.empty());
  WriteFixture(o.dir / "new", SampleFile("a.bin"));
  fs::rename(o.dir / "new" / "a.bin", o.dir / "a.bin");
  fs::resize_file(o.dir / "b.bin", 16);
  const FileNews news = o.dataset->CheckFiles();
  REQUIRE(news.replaced.size() == 1);
  CHECK(news.replaced[0].name == "a.bin");
  REQUIRE(news.damaged.size() == 1);
  CHECK(news.damaged[0].name == "b.bin");
  CHECK(o.dataset->CheckFiles().damaged.empty());
  CHECK(o.dataset->CheckFiles().replaced.empty());
  REQUIRE(o.dataset->Damages().size() == 1);
  CHECK(o.dataset->Damages()[0].name == "b.bin");
}

TEST_CASE("a dataset knows of a read that found no bytes before anybody looks", "[files][sigbus]") {
  Opened o;
  CHECK(o.dataset->Damages().empty());
  fs::resize_file(o.dir / "b.bin", 0);
  const FileView* view = o.dataset->TryView(FileId(1));
  (void)*static_cast<const volatile std::uint64_t*>(view->nodes);
  REQUIRE(o.dataset->Damages().size() == 1);
  CHECK(o.dataset->Damages()[0].name == "b.bin");
  CHECK_THAT(o.dataset->Damages()[0].what, Contains("cannot be read any more"));
  CHECK(o.dataset->CheckFiles().damaged.size() == 1);
}

TEST_CASE("an index that is changed in place is damage of the whole dataset", "[files]") {
  Opened o;
  fs::last_write_time(o.dir / kIndexFileName,
                      fs::last_write_time(o.dir / kIndexFileName) + std::chrono::seconds(1));
  const FileNews news = o.dataset->CheckFiles();
  REQUIRE(news.damaged.size() == 1);
  CHECK(news.damaged[0].file == kNone);
  CHECK(news.damaged[0].name == (o.dir / kIndexFileName).string());
}

TEST_CASE("an index that is cut off under its map fails its verification, not the process",
          "[sigbus][index]") {
  Opened o;
  fs::resize_file(o.dir / kIndexFileName, 0);
  const Status status = o.dataset->index().Verify();
  CHECK(status.code() == StatusCode::kDataLoss);
  CHECK_THAT(status.message(), Contains(kIndexFileName));
}

}  // namespace
}  // namespace millrace::test
