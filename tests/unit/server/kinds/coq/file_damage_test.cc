// Files that change while they are mapped: no read ends the process, and afterwards the dataset
// knows what happened to a file.
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
#include "server/files/mapped_file.h"
#include "server/files/sigbus_guard.h"
#include "server/files/suspect_files.h"
#include "server/kinds/coq/coq_dataset.h"
#include "server/kinds/coq/index/index_store.h"
#include "server/kinds/coq/verify.h"
#include "tests/support/dataset_fixture.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using Kind = FileChange::Kind;

constexpr std::size_t kPages = 8;

std::size_t PageBytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

/// Writes a file in which every byte is 1.
fs::path WriteOnes(const fs::path& path) {
  WriteBytes(path, std::vector<std::byte>(kPages * PageBytes(), std::byte{1}));
  return path;
}

MappedFile Map(const fs::path& path) {
  InstallSigbusGuard();
  return *MappedFile::Open(path, AccessPattern::kRandom);
}

void WriteAt(const fs::path& path, std::streamoff offset, const std::string& text) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(offset);
  file << text;
}

/// Waits until a file that is written now gets a new time, because tests run faster than the
/// kernel's clock ticks.
void NextTick(const TempDir& dir) {
  const auto stamp = [&dir] {
    WriteBytes(dir / "tick", {std::byte{1}});
    return (*IdentifyFile(dir / "tick")).changed_ns;
  };
  const std::int64_t before = stamp();
  while (stamp() == before) {
  }
}

/// Sets another modification time, one second later with every call.
void Touch(const fs::path& path) {
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(1));
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
  // A read behind the damage causes no further fault, a read before it causes one. Nothing else is
  // touched.
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
        // Other maps come and go meanwhile.
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
  CHECK(file.ChangeFrom().kind == Kind::kSame);
  SECTION("renamed over") {
    WriteOnes(dir / "b");
    fs::rename(dir / "b", dir / "a");
    CHECK(file.ChangeFrom().kind == Kind::kReplaced);
  }
  SECTION("removed") {
    fs::remove(dir / "a");
    CHECK(file.ChangeFrom().kind == Kind::kReplaced);
  }
  SECTION("cut off") {
    fs::resize_file(dir / "a", 5);
    CHECK(file.ChangeFrom().kind == Kind::kInPlace);
    CHECK_THAT(file.ChangeFrom().what, Contains("it has 5 bytes, had "));
  }
  SECTION("written to, at another time") {
    fs::last_write_time(dir / "a", fs::last_write_time(dir / "a") + std::chrono::seconds(1));
    CHECK(file.ChangeFrom().kind == Kind::kTouched);
    CHECK_THAT(file.ChangeFrom().what, Contains("modified 1.000 s later"));
    CHECK(file.ChangeFrom(file.ChangeFrom().now).kind == Kind::kSame);
  }
  SECTION("written to, and the time put back") {
    const auto before = fs::last_write_time(dir / "a");
    NextTick(dir);
    WriteAt(dir / "a", 100, "other");
    fs::last_write_time(dir / "a", before);
    CHECK(file.ChangeFrom().now.modified_ns == file.identity().modified_ns);
    CHECK(file.ChangeFrom().kind == Kind::kTouched);
  }
}

TEST_CASE("a file is hashed piece by piece, and one that was cut off meanwhile is no end",
          "[sigbus][files]") {
  const TempDir dir;
  std::vector<std::byte> bytes((std::size_t{40} << 20) + 5, std::byte{3});
  bytes.back() = std::byte{4};
  WriteBytes(dir / "a", bytes);
  const MappedFile file = Map(dir / "a");
  const Digest128 digest = Xxh3(bytes);
  CHECK(HashesTo(digest, file, {}).ok());
  const Status other = HashesTo(Xxh3("other"), file, {});
  CHECK(other == DataLoss("has digest " + digest.ToHex() + ", expected " + Xxh3("other").ToHex()));
  std::stop_source stop;
  stop.request_stop();
  CHECK(HashesTo(digest, file, stop.get_token()).code() == StatusCode::kCancelled);
  fs::resize_file(dir / "a", std::size_t{20} << 20);
  CHECK_THAT(HashesTo(digest, file, {}).message(), Contains("cannot be read any more"));
}

/// A file in doubt, and the result that hashing it will have.
struct Suspected {
  TempDir dir;
  MappedFile file = Map(WriteOnes(dir / "a"));
  SuspectFiles suspects;
  std::vector<std::uint32_t> hashed;
  std::function<Status()> find = OkStatus;

  std::vector<FileVerdict> Check() {
    suspects.Check(7, file);
    return suspects.Reconcile([this](std::uint32_t number, const MappedFile&) {
      hashed.push_back(number);
      return find();
    });
  }
};

TEST_CASE("a file that nobody touched is not hashed, a touched one twice", "[files]") {
  Suspected d;
  CHECK(d.Check().empty());
  CHECK(d.hashed.empty());
  Touch(d.dir / "a");
  CHECK(d.Check().empty());
  CHECK(d.hashed.size() == 1);
  const auto verdicts = d.Check();
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].number == 7);
  CHECK(verdicts[0].status.ok());
  CHECK(d.hashed.size() == 2);
  CHECK(d.Check().empty());
  CHECK(d.hashed.size() == 2);
}

TEST_CASE("a file that is written to while it is hashed stays in doubt", "[files]") {
  Suspected d;
  Touch(d.dir / "a");
  d.Check();
  d.find = [&d] {
    Touch(d.dir / "a");
    return OkStatus();
  };
  for (int check = 0; check < 3; ++check) CHECK(d.Check().empty());
  CHECK(d.hashed.size() == 4);
  d.find = [] { return DataLoss("other"); };
  const auto verdicts = d.Check();
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].status == DataLoss("other"));
}

TEST_CASE("a file that was cut off or replaced while it was in doubt is not hashed", "[files]") {
  Suspected d;
  Touch(d.dir / "a");
  d.find = [] { return Cancelled("not now"); };
  CHECK(d.Check().empty());
  if (GENERATE(false, true)) {
    fs::resize_file(d.dir / "a", 5);
  } else {
    fs::remove(d.dir / "a");
  }
  CHECK(d.Check().empty());
  CHECK(d.hashed.size() == 1);
}

TEST_CASE("files in doubt are hashed in turn, so many bytes a look and no less than one file",
          "[files]") {
  const TempDir dir;
  std::vector<MappedFile> files;
  for (const char* name : {"a", "b", "c"}) files.push_back(Map(WriteOnes(dir / name)));
  SuspectFiles suspects(kPages * PageBytes() + 1);
  std::vector<std::uint32_t> hashed;
  // The first file is touched before every look, but the other files have their turns too.
  for (const char* name : {"b", "c"}) Touch(dir / name);
  std::size_t settled = 0;
  for (int look = 0; look < 6; ++look) {
    Touch(dir / "a");
    for (std::uint32_t f = 0; f < 3; ++f) suspects.Check(f, files[f]);
    settled += suspects
                   .Reconcile([&](std::uint32_t number, const MappedFile&) {
                     hashed.push_back(number);
                     return OkStatus();
                   })
                   .size();
  }
  CHECK(hashed == std::vector<std::uint32_t>{0, 1, 2, 0, 1, 0, 2, 0, 0, 0});
  CHECK(settled == 2);
}

struct OpenedDataset {
  TempDir dir;
  std::unique_ptr<CoqDataset> dataset;

  OpenedDataset() {
    InstallSigbusGuard();
    WriteFixture(dir.path(), SampleFile("a.bin"));
    WriteFixture(dir.path(), SampleFile("b.bin", {"a.bin"}));
    dataset = std::make_unique<CoqDataset>(dir.path(), *OpenOrBuildIndex(dir.path(), {}));
    for (std::uint32_t f = 0; f < 2; ++f) REQUIRE(dataset->View(FileId(f)).ok());
  }
};

TEST_CASE("a dataset tells once of each file, and remembers the damaged ones", "[files]") {
  OpenedDataset o;
  CHECK(o.dataset->CheckFiles({}).damaged.empty());
  WriteFixture(o.dir / "new", SampleFile("a.bin"));
  fs::rename(o.dir / "new" / "a.bin", o.dir / "a.bin");
  fs::resize_file(o.dir / "b.bin", 16);
  const FileNews news = o.dataset->CheckFiles({});
  REQUIRE(news.replaced.size() == 1);
  CHECK(news.replaced[0].name == "a.bin");
  REQUIRE(news.damaged.size() == 1);
  CHECK(news.damaged[0].name == "b.bin");
  CHECK(o.dataset->CheckFiles({}).damaged.empty());
  CHECK(o.dataset->CheckFiles({}).replaced.empty());
  REQUIRE(o.dataset->Damages().size() == 1);
  CHECK(o.dataset->Damages()[0].name == "b.bin");
}

TEST_CASE("a dataset knows of a read that found no bytes before anybody looks", "[files][sigbus]") {
  OpenedDataset o;
  CHECK(o.dataset->Damages().empty());
  fs::resize_file(o.dir / "b.bin", 0);
  const FileView* view = o.dataset->TryView(FileId(1));
  (void)*static_cast<const volatile std::uint64_t*>(view->nodes);
  REQUIRE(o.dataset->Damages().size() == 1);
  CHECK(o.dataset->Damages()[0].name == "b.bin");
  CHECK_THAT(o.dataset->Damages()[0].what, Contains("cannot be read any more"));
  CHECK(o.dataset->CheckFiles({}).damaged.size() == 1);
}

TEST_CASE("a touched file that holds the same bytes is told of once and goes on", "[files]") {
  OpenedDataset o;
  Touch(o.dir / "b.bin");
  CHECK(o.dataset->CheckFiles({}).touched.empty());  // a writer may not have finished
  const FileNews news = o.dataset->CheckFiles({});
  CHECK(news.touched == std::vector<std::string>{"b.bin"});
  CHECK(news.damaged.empty());
  CHECK(news.replaced.empty());
  CHECK(o.dataset->CheckFiles({}).touched.empty());
  CHECK(o.dataset->Damages().empty());
  // The file is now known by its new times, so the next change is news again.
  Touch(o.dir / "b.bin");
  CHECK(o.dataset->CheckFiles({}).touched.empty());
  CHECK(o.dataset->CheckFiles({}).touched.size() == 1);
}

TEST_CASE("a file that is overwritten with as many bytes is damaged at the next look", "[files]") {
  OpenedDataset o;
  const bool touched_before = GENERATE(false, true);
  if (touched_before) {
    Touch(o.dir / "b.bin");
    o.dataset->CheckFiles({});
    o.dataset->CheckFiles({});
  }
  WriteAt(o.dir / "b.bin", 40, "other bytes");
  Touch(o.dir / "b.bin");
  const FileNews news = o.dataset->CheckFiles({});
  REQUIRE(news.damaged.size() == 1);
  CHECK(news.damaged[0].name == "b.bin");
  CHECK_THAT(news.damaged[0].what, Contains("was written to while it was in use: has digest ") &&
                                       Contains(", expected "));
  CHECK(news.touched.empty());
}

TEST_CASE("a file that is written to between two looks at new times is damaged", "[files]") {
  OpenedDataset o;
  Touch(o.dir / "b.bin");
  CHECK(o.dataset->CheckFiles({}).damaged.empty());
  // The file keeps the time that it has, as after a write that follows another one at once.
  const auto time = fs::last_write_time(o.dir / "b.bin");
  WriteAt(o.dir / "b.bin", 40, "other bytes");
  fs::last_write_time(o.dir / "b.bin", time);
  CHECK(o.dataset->CheckFiles({}).damaged.size() == 1);
}

TEST_CASE("a look that is stopped says nothing of files in doubt", "[files]") {
  OpenedDataset o;
  std::stop_source stop;
  stop.request_stop();
  WriteAt(o.dir / "b.bin", 40, "other bytes");
  Touch(o.dir / "b.bin");
  CHECK(o.dataset->CheckFiles(stop.get_token()).damaged.empty());
  CHECK(o.dataset->CheckFiles({}).damaged.size() == 1);
}

TEST_CASE("an index that is changed in place is damage of the whole dataset", "[files]") {
  OpenedDataset o;
  const fs::path index = o.dir / kIndexFileName;
  WriteAt(index, static_cast<std::streamoff>(fs::file_size(index)) / 2, std::string(500, '\7'));
  Touch(index);
  const FileNews news = o.dataset->CheckFiles({});
  REQUIRE(news.damaged.size() == 1);
  CHECK(news.damaged[0].file == kNoRef);
  CHECK(news.damaged[0].name == index.string());
  CHECK_THAT(news.damaged[0].what, Contains("was written to") && Contains("section `"));
}

TEST_CASE("an index that is touched is used on", "[files]") {
  OpenedDataset o;
  Touch(o.dir / kIndexFileName);
  o.dataset->CheckFiles({});
  const FileNews news = o.dataset->CheckFiles({});
  CHECK(news.touched == std::vector<std::string>{(o.dir / kIndexFileName).string()});
  CHECK(news.damaged.empty());
}

TEST_CASE("an index that is cut off under its map fails its verification, not the process",
          "[sigbus][index]") {
  OpenedDataset o;
  fs::resize_file(o.dir / kIndexFileName, 0);
  const Status status = o.dataset->index().Verify();
  CHECK(status.code() == StatusCode::kDataLoss);
  CHECK_THAT(status.message(), Contains(kIndexFileName));
}

}  // namespace
}  // namespace millrace::test
