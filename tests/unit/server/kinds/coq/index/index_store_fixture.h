// A dataset of two files, and a log for whose events tests can wait. For tests of indexes on disk.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "server/kinds/coq/index/index_store.h"
#include "tests/support/dataset_fixture.h"
#include "tests/support/recording_logger.h"

namespace millrace::test {

struct Opened {
  Result<std::shared_ptr<const DatasetIndex>> index;
  CoqIndexOutcome outcome;
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
