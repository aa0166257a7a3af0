// The SQLite store with a full disk, a killed process, missing rights, and damaged files.
#include <catch2/catch.hpp>

#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "server/state/sqlite/sqlite_store.h"
#include "tests/support/skip.h"
#include "tests/unit/server/state/temporary_folder.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

v1::JobRecord RecordOfSize(const std::string& name, std::size_t bytes = 0) {
  v1::JobRecord record;
  record.set_name(name);
  record.mutable_pipeline()->set_yaml(std::string(bytes, '#'));
  return record;
}

bool OneLine(const std::string& text) { return text.find('\n') == std::string::npos; }

/// A file system of 1 MiB. It needs the right to mount.
class SmallDisk {
 public:
  SmallDisk() {
    if (mount("tmpfs", path().c_str(), "tmpfs", 0, "size=1m") != 0) {
      test::SkipTest("cannot mount a small file system here");
    }
  }
  ~SmallDisk() { umount2(path().c_str(), MNT_DETACH); }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  const fs::path& path() const { return folder_.path(); }

  /// Writes a file that takes all the space that is left.
  void Fill() const {
    std::ofstream filler(path() / "filler", std::ios::binary);
    const std::string block(512, 'x');
    while (filler.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
  }
  void Free() const { fs::remove(path() / "filler"); }

 private:
  test::TemporaryFolder folder_;
};

/// Gives up root's rights while it lives. Does nothing if the test is not run by root.
class Unprivileged {
 public:
  Unprivileged() : before_(geteuid()) {
    if (before_ == 0) REQUIRE(seteuid(65534) == 0);
  }
  ~Unprivileged() {
    if (before_ == 0 && seteuid(before_) != 0) std::abort();
  }

 private:
  uid_t before_;
};

/// Another process, which opens the store of `folder`, commits term 3 and two jobs, and stays.
class OtherProcess {
 public:
  explicit OtherProcess(const fs::path& folder) {
    int ready[2];
    REQUIRE(pipe(ready) == 0);
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      // The process must not stay behind if the test ends early.
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      auto store = SqliteStore::Open(folder);
      const bool committed = store.ok() && (*store)->CommitTerm(3).ok() &&
                             (*store)->CommitJob(3, RecordOfSize("a", 10'000), 0).ok() &&
                             (*store)->CommitJob(3, RecordOfSize("b", 10'000), 0).ok();
      const char answer = committed ? 'y' : 'n';
      if (write(ready[1], &answer, 1) != 1 || !committed) _exit(1);
      while (true) pause();
    }
    char answer = 0;
    REQUIRE(read(ready[0], &answer, 1) == 1);
    REQUIRE(answer == 'y');
    close(ready[0]);
    close(ready[1]);
  }
  ~OtherProcess() { Kill(); }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  pid_t pid() const { return pid_; }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
};

TEST_CASE("a commit on a full disk is refused, and the next one goes on once there is space",
          "[sqlite]") {
  SmallDisk disk;
  auto opened = SqliteStore::Open(disk.path());
  REQUIRE(opened.ok());
  StateStore& store = **opened;
  REQUIRE(store.CommitTerm(1).ok());
  REQUIRE(store.CommitJob(1, RecordOfSize("before", 20'000), 0).ok());

  disk.Fill();
  const Status job = store.CommitJob(1, RecordOfSize("during", 20'000), 0);
  CHECK(job.code() == StatusCode::kResourceExhausted);
  CHECK(job.message().find((disk.path() / "state.db").string()) != std::string::npos);
  CHECK(OneLine(job.message()));
  CHECK(store.Load()->term == 1);
  CHECK(store.Load()->jobs.size() == 1);

  disk.Free();
  CHECK(store.CommitTerm(2).ok());
  CHECK(store.CommitJob(2, RecordOfSize("after", 20'000), 0).ok());
  opened = Status(StatusCode::kCancelled, "closed");
  auto again = SqliteStore::Open(disk.path());
  REQUIRE(again.ok());
  CHECK((*again)->Load()->term == 2);
  CHECK((*again)->Load()->jobs.size() == 2);
}

TEST_CASE("a store cannot be opened on a full disk, and says so", "[sqlite]") {
  SmallDisk disk;
  disk.Fill();
  const Status status = SqliteStore::Open(disk.path()).status();
  CHECK(status.code() == StatusCode::kResourceExhausted);
  CHECK(OneLine(status.message()));
}

TEST_CASE("another process that has the folder is named by its number", "[sqlite]") {
  test::TemporaryFolder folder;
  OtherProcess other(folder.path());
  const Status status = SqliteStore::Open(folder.path()).status();
  CHECK(status.code() == StatusCode::kFailedPrecondition);
  CHECK(status.message().find("process " + std::to_string(other.pid()) + ":") != std::string::npos);
  CHECK(OneLine(status.message()));
}

TEST_CASE("what a killed process committed is there, and its lock is not", "[sqlite]") {
  test::TemporaryFolder folder;
  OtherProcess other(folder.path());
  other.Kill();
  auto store = SqliteStore::Open(folder.path());
  REQUIRE(store.ok());
  CHECK((*store)->Load()->term == 3);
  CHECK((*store)->Load()->jobs.size() == 2);
}

TEST_CASE("a folder without the right to write is refused as such", "[sqlite]") {
  test::TemporaryFolder folder;
  fs::permissions(folder.path(),
                  fs::perms::owner_all | fs::perms::others_read | fs::perms::others_exec);
  if (geteuid() != 0) fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec);
  Status status;
  {
    Unprivileged unprivileged;
    status = SqliteStore::Open(folder.path()).status();
  }
  fs::permissions(folder.path(), fs::perms::owner_all);
  CHECK(status.code() == StatusCode::kPermissionDenied);
  CHECK(status.message().find(folder.path().string()) != std::string::npos);
  CHECK(OneLine(status.message()));
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("a state file that this user may not read is refused as such", "[sqlite]") {
  test::TemporaryFolder folder;
  REQUIRE(SqliteStore::Open(folder.path()).ok());
  fs::permissions(folder.path(), fs::perms::all);
  fs::permissions(folder.path() / "lock", fs::perms::all);
  fs::permissions(folder.path() / "state.db", fs::perms::none);
  Status status;
  {
    Unprivileged unprivileged;
    status = SqliteStore::Open(folder.path()).status();
  }
  CHECK(status.code() == StatusCode::kPermissionDenied);
  CHECK(OneLine(status.message()));
}

TEST_CASE("a damaged page is found when the store is opened, and told in one line", "[sqlite]") {
  test::TemporaryFolder folder;
  {
    auto store = SqliteStore::Open(folder.path());
    REQUIRE(store.ok());
    REQUIRE((*store)->CommitTerm(1).ok());
    for (int i = 0; i < 20; ++i) {
      REQUIRE((*store)->CommitJob(1, RecordOfSize("job" + std::to_string(i), 2'000), 0).ok());
    }
  }
  // Damages one page after another; each of them holds something that the check covers.
  const fs::path file = folder.path() / "state.db";
  const auto pages = fs::file_size(file) / 4096;
  REQUIRE(pages > 10);
  int found = 0;
  for (std::uintmax_t page = 1; page < pages; ++page) {
    test::TemporaryFolder damaged;
    fs::copy_file(file, damaged.path() / "state.db");
    {
      std::fstream out(damaged.path() / "state.db",
                       std::ios::binary | std::ios::in | std::ios::out);
      out.seekp(static_cast<std::streamoff>(page * 4096));
      out.write(std::string(16, '\xff').data(), 16);
    }
    const Status status = SqliteStore::Open(damaged.path()).status();
    if (status.ok()) continue;
    ++found;
    CHECK(status.code() == StatusCode::kDataLoss);
    CHECK(status.message().find((damaged.path() / "state.db").string()) != std::string::npos);
    CHECK(OneLine(status.message()));
  }
  CHECK(found >= 5);
}

}  // namespace
}  // namespace millrace
