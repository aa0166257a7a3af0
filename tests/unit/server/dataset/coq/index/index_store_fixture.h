// A dataset of two files, and a log for whose events tests can wait. For tests of indexes on disk.
#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/system/mutex.h"
#include "server/dataset/coq/index/index_store.h"
#include "tests/support/dataset_fixture.h"

namespace millrace::test {

/// Remembers the events of a log, and calls the test for each.
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

inline Opened Open(const std::filesystem::path& dir, IndexOptions options = {}) {
  Opened opened{.index = Internal("not opened"), .outcome = {}};
  options.logger = opened.logger;
  opened.index = OpenOrBuildIndex(dir, options, &opened.outcome);
  return opened;
}

/// A folder with two files.
inline void WriteSamples(const TempDir& dir) {
  WriteFixture(dir.path(), SampleFile("a.bin"));
  WriteFixture(dir.path(), SampleFile("x/b.bin", {"a.bin"}));
}

inline void Touch(const std::filesystem::path& path) {
  std::filesystem::last_write_time(path,
                                   std::filesystem::last_write_time(path) - std::chrono::hours(1));
}

}  // namespace millrace::test
