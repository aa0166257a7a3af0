// Where an index lies, when it is built again, and by whom.
#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "common/base/mutex.h"
#include "server/dataset/dataset.h"
#include "server/dataset/index_format.h"
#include "server/dataset/index_store.h"
#include "server/dataset/verify.h"
#include "tests/support/dataset_fixture.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using test::SampleFile;
using test::TempDir;

// Remembers the events of a log, and tells the test of each.
class RecordingLogger final : public Logger {
 public:
  void Log(LogLevel, std::string_view event, std::initializer_list<LogField> fields) override {
    std::string line(event);
    for (const LogField& field : fields) {
      line += " " + std::string(field.key) + "=" + field.value;
    }
    MutexLock lock(mutex_);
    lines_.push_back(line);
    changed_.NotifyAll();
  }

  bool Has(const std::string& text) {
    MutexLock lock(mutex_);
    return Find(text);
  }

  void WaitFor(const std::string& text) {
    MutexLock lock(mutex_);
    while (!Find(text)) changed_.Wait(mutex_);
  }

 private:
  bool Find(const std::string& text) MILLRACE_REQUIRES(mutex_) {
    return std::any_of(lines_.begin(), lines_.end(), [&](const std::string& line) {
      return line.find(text) != std::string::npos;
    });
  }

  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> lines_ MILLRACE_GUARDED_BY(mutex_);
};

struct Opened {
  Result<std::shared_ptr<const DatasetIndex>> index;
  IndexOutcome outcome;
  std::shared_ptr<RecordingLogger> logger = std::make_shared<RecordingLogger>();
};

Opened Open(const fs::path& dir, IndexOptions options = {}) {
  Opened opened{.index = Internal("not opened"), .outcome = {}};
  options.logger = opened.logger;
  opened.index = OpenOrBuildIndex(dir, options, &opened.outcome);
  return opened;
}

// A folder with two files.
void WriteSamples(const TempDir& dir) {
  test::WriteFixture(dir.path(), SampleFile("a.bin"));
  test::WriteFixture(dir.path(), SampleFile("x/b.bin", {"a.bin"}));
}

void Touch(const fs::path& path) {
  fs::last_write_time(path, fs::last_write_time(path) - std::chrono::hours(1));
}

TEST_CASE("a missing index is built in the dataset's folder, and said", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  const Opened first = Open(dir.path());
  REQUIRE(first.index.ok());
  CHECK(first.outcome.built);
  CHECK(first.outcome.file == dir / ".millrace.index");
  CHECK(first.outcome.report.files == 2);
  CHECK(first.outcome.report.nodes == 20);
  CHECK(first.outcome.report.proof_states == 6);
  CHECK(first.logger->Has("building the index"));
}

TEST_CASE("an index that fits is opened as it is", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  REQUIRE(Open(dir.path()).index.ok());
  const Opened second = Open(dir.path());
  REQUIRE(second.index.ok());
  CHECK_FALSE(second.outcome.built);
  CHECK_FALSE(second.logger->Has("index"));
}

TEST_CASE("force builds an index that fits", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  REQUIRE(Open(dir.path()).index.ok());
  IndexOptions options;
  options.force = true;
  CHECK(Open(dir.path(), options).outcome.built);
}

TEST_CASE("an index is built again where a file has another size", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  const Opened before = Open(dir.path());
  test::FixtureFile file = SampleFile("a.bin");
  file.nodes.push_back({.tag = 5});
  file.representative.reset();
  for (auto& d : file.definitions) d.discharged.reset();
  test::WriteFixture(dir.path(), file);
  const Opened after = Open(dir.path());
  REQUIRE(after.index.ok());
  CHECK(after.outcome.built);
  CHECK(after.logger->Has("a.bin has"));
  CHECK((*after.index)->digest() != (*before.index)->digest());
}

TEST_CASE("an index is built again where a file came or went", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  REQUIRE(Open(dir.path()).index.ok());
  test::WriteFixture(dir.path(), SampleFile("c.bin"));
  CHECK(Open(dir.path()).outcome.built);
  fs::remove(dir / "c.bin");
  const Opened after = Open(dir.path());
  CHECK(after.outcome.built);
  CHECK(after.logger->Has("c.bin is gone"));
}

TEST_CASE("an index is built again where contents changed and the size did not", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  REQUIRE(Open(dir.path()).index.ok());
  test::FixtureFile file = SampleFile("a.bin");
  file.nodes[9].identity = 12345;
  test::WriteFixture(dir.path(), file);
  const Opened after = Open(dir.path());
  REQUIRE(after.index.ok());
  CHECK(after.outcome.built);
  CHECK(after.logger->Has("a.bin has other contents"));
}

TEST_CASE("an index is renewed, not built, where only times changed", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  const Opened before = Open(dir.path());
  Touch(dir / "a.bin");
  const Opened after = Open(dir.path());
  REQUIRE(after.index.ok());
  CHECK_FALSE(after.outcome.built);
  CHECK(after.logger->Has("index renewed"));
  CHECK(after.logger->Has("hashed_files=1"));
  CHECK((*after.index)->Verify().ok());
  CHECK((*after.index)->digest() == (*before.index)->digest());
  CHECK_FALSE(Open(dir.path()).logger->Has("renewed"));
}

TEST_CASE("an index that another host wrote is believed once all files are hashed",
          "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  REQUIRE(Open(dir.path()).index.ok());
  std::vector<std::byte> bytes = test::ReadBytes(dir / kIndexFileName);
  IndexHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  std::vector<SectionEntry> table(header.section_count);
  std::memcpy(table.data(), bytes.data() + sizeof(header), table.size() * sizeof(SectionEntry));
  ++header.host_id_low;
  header.checksum = HeaderChecksum(header, table);
  std::memcpy(bytes.data(), &header, sizeof(header));
  test::WriteBytes(dir / kIndexFileName, bytes);
  const Opened after = Open(dir.path());
  REQUIRE(after.index.ok());
  CHECK_FALSE(after.outcome.built);
  CHECK(after.logger->Has("hashed_files=2"));
}

TEST_CASE("a damaged index is built again", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  REQUIRE(Open(dir.path()).index.ok());
  std::vector<std::byte> bytes = test::ReadBytes(dir / kIndexFileName);
  bytes[bytes.size() / 2] ^= std::byte{1};
  test::WriteBytes(dir / kIndexFileName, bytes);
  const Opened after = Open(dir.path());
  REQUIRE(after.index.ok());
  CHECK(after.outcome.built);
  CHECK(after.logger->Has("checksum"));
}

TEST_CASE("an interrupted build leaves the old index whole and nothing else", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  REQUIRE(Open(dir.path()).index.ok());
  const std::vector<std::byte> old = test::ReadBytes(dir / kIndexFileName);
  test::WriteFixture(dir.path(), SampleFile("c.bin"));
  IndexOptions options;
  options.build.before_publish = [] { return Cancelled("interrupted"); };
  CHECK(Open(dir.path(), options).index.status().code() == StatusCode::kCancelled);
  CHECK(test::ReadBytes(dir / kIndexFileName) == old);
  CHECK_FALSE(fs::exists(dir / ".millrace.index.tmp"));
  CHECK(Open(dir.path()).outcome.built);
}

TEST_CASE("a builder that is killed leaves the old index, and the next one builds",
          "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  REQUIRE(Open(dir.path()).index.ok());
  const std::vector<std::byte> old = test::ReadBytes(dir / kIndexFileName);
  test::WriteFixture(dir.path(), SampleFile("c.bin"));
  const pid_t child = ::fork();
  if (child == 0) {
    IndexOptions options;
    options.build.threads = 1;
    options.build.before_publish = []() -> Status { ::_exit(9); };
    const auto ignored = OpenOrBuildIndex(dir.path(), options);
    ::_exit(ignored.ok() ? 1 : 2);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WEXITSTATUS(status) == 9);
  CHECK(test::ReadBytes(dir / kIndexFileName) == old);
  CHECK(fs::exists(dir / ".millrace.index.tmp"));
  const Opened after = Open(dir.path());
  REQUIRE(after.index.ok());
  CHECK(after.outcome.built);
  CHECK_FALSE(fs::exists(dir / ".millrace.index.tmp"));
}

TEST_CASE("of two builders one builds, and the other waits and says so", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  Opened waiting{.index = Internal("not opened"), .outcome = {}};
  std::jthread other;
  IndexOptions options;
  options.build.before_publish = [&] {
    // The index is not there yet: the other one comes now, and has to wait for this one.
    other = std::jthread([&] {
      IndexOptions its_options;
      its_options.logger = waiting.logger;
      waiting.index = OpenOrBuildIndex(dir.path(), its_options, &waiting.outcome);
    });
    waiting.logger->WaitFor("waiting for another process");
    return OkStatus();
  };
  const Opened builder = Open(dir.path(), options);
  other.join();
  REQUIRE(builder.index.ok());
  CHECK(builder.outcome.built);
  REQUIRE(waiting.index.ok());
  CHECK_FALSE(waiting.outcome.built);
  CHECK_FALSE(waiting.logger->Has("building"));
}

TEST_CASE("a build that is stopped between files leaves the old index whole and nothing else",
          "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  REQUIRE(Open(dir.path()).index.ok());
  IndexOptions options;
  options.force = true;
  options.build.threads = 1;
  std::stop_source stop;
  options.build.stop = stop.get_token();
  int files = 0;
  options.build.progress = [&](const IndexProgress&) {
    ++files;
    stop.request_stop();
  };
  const Opened stopped = Open(dir.path(), options);
  REQUIRE_FALSE(stopped.index.ok());
  CHECK(stopped.index.status().code() == StatusCode::kCancelled);
  CHECK(files == 1);
  CHECK_FALSE(fs::exists(dir / ".millrace.index.tmp"));
  const Opened after = Open(dir.path());
  CHECK(after.index.ok());
  CHECK_FALSE(after.outcome.built);
}

TEST_CASE("who waits for another builder can be stopped", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  IndexOptions options;
  Status stopped_with;
  options.build.before_publish = [&] {
    Opened waiting{.index = Internal("not opened"), .outcome = {}};
    std::stop_source stop;
    std::jthread other([&] {
      IndexOptions its_options;
      its_options.logger = waiting.logger;
      its_options.build.stop = stop.get_token();
      waiting.index = OpenOrBuildIndex(dir.path(), its_options, &waiting.outcome);
    });
    waiting.logger->WaitFor("waiting for another process");
    stop.request_stop();
    other.join();
    stopped_with = waiting.index.status();
    return OkStatus();
  };
  CHECK(Open(dir.path(), options).index.ok());
  CHECK(stopped_with.code() == StatusCode::kCancelled);
}

TEST_CASE("many processes that open one dataset at once all get its index", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      IndexOptions options;
      options.build.threads = 1;
      const auto index = OpenOrBuildIndex(dir.path(), options);
      ::_exit(index.ok() && (*index)->files().size() == 2 ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
}

TEST_CASE("the index of a folder that cannot be written lies in the cache", "[index_store]") {
  const TempDir dir;
  const TempDir cache;
  WriteSamples(dir);
  constexpr auto kReadOnly = static_cast<fs::perms>(0555);
  fs::permissions(dir.path(), kReadOnly);
  fs::permissions(cache.path(), fs::perms::all);
  IndexOptions options;
  options.cache_dir = cache.path();
  const bool is_root = ::geteuid() == 0;
  if (is_root) REQUIRE(::seteuid(65534) == 0);
  const Opened first = Open(dir.path(), options);
  const Opened second = Open(dir.path() / ".", options);
  if (is_root) REQUIRE(::seteuid(0) == 0);
  fs::permissions(dir.path(), fs::perms::owner_all);
  INFO(first.index.status().ToString());
  REQUIRE(first.index.ok());
  CHECK(first.outcome.built);
  CHECK(first.outcome.file.string().starts_with(cache.path().string()));
  CHECK_FALSE(fs::exists(dir / kIndexFileName));
  REQUIRE(second.index.ok());
  CHECK_FALSE(second.outcome.built);
}

TEST_CASE("an index lies in the file that was asked for", "[index_store]") {
  const TempDir dir;
  const TempDir elsewhere;
  WriteSamples(dir);
  IndexOptions options;
  options.index_file = elsewhere / "my.index";
  CHECK(Open(dir.path(), options).outcome.file == elsewhere / "my.index");
  CHECK_FALSE(fs::exists(dir / kIndexFileName));
  options.index_file = elsewhere / "no/folder/my.index";
  CHECK(Open(dir.path(), options).index.status().code() == StatusCode::kNotFound);
}

TEST_CASE("a dataset that turns bad leaves its index and lists the bad files", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  REQUIRE(Open(dir.path()).index.ok());
  const std::vector<std::byte> old = test::ReadBytes(dir / kIndexFileName);
  test::WriteBytes(dir / "a.bin", {});
  std::vector<BadFile> bad;
  IndexOptions options;
  options.bad = &bad;
  CHECK(Open(dir.path(), options).index.status().code() == StatusCode::kDataLoss);
  REQUIRE(bad.size() == 1);
  CHECK(bad[0].name == "a.bin");
  CHECK(test::ReadBytes(dir / kIndexFileName) == old);
}

TEST_CASE("verify names every file that differs, is gone, or is not indexed", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  test::WriteFixture(dir.path(), SampleFile("same.bin"));
  test::WriteFixture(dir.path(), SampleFile("gone.bin"));
  const Opened opened = Open(dir.path());
  REQUIRE(opened.index.ok());
  CHECK(VerifyDataset(dir.path(), **opened.index, {}).ok());

  std::vector<std::byte> bytes = test::ReadBytes(dir / "a.bin");
  bytes.back() ^= std::byte{1};
  const auto time = fs::last_write_time(dir / "a.bin");
  test::WriteBytes(dir / "a.bin", bytes);
  fs::last_write_time(dir / "a.bin", time);
  fs::remove(dir / "gone.bin");
  test::WriteFixture(dir.path(), SampleFile("new.bin"));
  std::vector<BadFile> bad;
  CHECK(VerifyDataset(dir.path(), **opened.index, {}, &bad).code() == StatusCode::kDataLoss);
  std::vector<std::string> names;
  for (const BadFile& file : bad) names.push_back(file.name);
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"a.bin", "gone.bin", "new.bin"});
}

TEST_CASE("an index that is only looked for is not built", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  CHECK(FindIndex(dir.path(), {}).status().code() == StatusCode::kNotFound);
  REQUIRE(Open(dir.path()).index.ok());
  fs::remove(dir / "a.bin");
  CHECK(FindIndex(dir.path(), {}).ok());
}

TEST_CASE("a file that was changed after indexing is refused when it is opened", "[dataset]") {
  const TempDir dir;
  WriteSamples(dir);
  const Opened opened = Open(dir.path());
  REQUIRE(opened.index.ok());
  test::FixtureFile file = SampleFile("a.bin");
  file.nodes[9].identity = 12345;
  test::WriteFixture(dir.path(), file);
  const Dataset dataset(dir.path(), *opened.index);
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
  const Dataset dataset(dir.path(), *opened.index);
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
  const Dataset dataset(dir.path(), *opened.index);
  CHECK(dataset.View(FileId(0)).ok());
}

TEST_CASE("threads that open a file at once all get the same view", "[dataset]") {
  const TempDir dir;
  WriteSamples(dir);
  const Opened opened = Open(dir.path());
  REQUIRE(opened.index.ok());
  const Dataset dataset(dir.path(), *opened.index);
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
