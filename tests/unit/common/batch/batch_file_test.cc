#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "common/batch/batch.h"
#include "tests/unit/common/batch/model_batch.h"

namespace millrace {
namespace {

/// A folder that is removed together with the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "millrace_batch_XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST_CASE("a batch saved to a file is read back whole", "[batch_file]") {
  const TemporaryFolder folder;
  BufferPool pool;
  const auto batch = test::Pack(test::RandomBatch(5, 10), pool);
  REQUIRE(WriteBatchFile(*batch, folder / "b.batch").ok());
  const auto read = ReadBatchFile(folder / "b.batch", pool);
  REQUIRE(read.ok());
  CHECK((*read)->digest() == batch->digest());
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("every changed byte of a saved batch is found", "[batch_file]") {
  const TemporaryFolder folder;
  BufferPool pool;
  const auto batch = test::Pack(test::RandomBatch(5, 3), pool);
  REQUIRE(WriteBatchFile(*batch, folder / "b").ok());
  const std::string whole = Contents(folder / "b");
  REQUIRE(whole.size() == batch->bytes().size() + 32);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 4);
    std::ofstream(folder / "changed", std::ios::binary) << changed;
    const Status status = ReadBatchFile(folder / "changed", pool).status();
    INFO(at << ": " << status.ToString());
    REQUIRE_FALSE(status.ok());
  }
}

TEST_CASE("a saved batch of a later version is refused as such", "[batch_file]") {
  const TemporaryFolder folder;
  BufferPool pool;
  const auto batch = test::Pack(test::RandomBatch(5, 3), pool);
  REQUIRE(WriteBatchFile(*batch, folder / "b").ok());
  std::string later = Contents(folder / "b");
  later[batch->bytes().size() + 8] = 2;
  std::ofstream(folder / "later", std::ios::binary) << later;
  const Status status = ReadBatchFile(folder / "later", pool).status();
  CHECK(status.code() == StatusCode::kUnimplemented);
  CHECK_THAT(status.message(), Catch::Contains("version 2: expected 1"));
}

TEST_CASE("a file with nothing behind the batch is read", "[batch_file]") {
  const TemporaryFolder folder;
  BufferPool pool;
  const auto batch = test::Pack(test::RandomBatch(5, 3), pool);
  std::ofstream(folder / "bare", std::ios::binary)
      .write(reinterpret_cast<const char*>(batch->bytes().data()),
             static_cast<std::streamsize>(batch->bytes().size()));
  const auto read = ReadBatchFile(folder / "bare", pool);
  REQUIRE(read.ok());
  CHECK((*read)->digest() == batch->digest());
}

TEST_CASE("a file that cannot be written leaves nothing behind", "[batch_file]") {
  const TemporaryFolder folder;
  BufferPool pool;
  const auto batch = test::Pack(test::RandomBatch(5, 2), pool);
  std::filesystem::create_directory(folder / "taken");
  const Status status = WriteBatchFile(*batch, folder / "taken");
  CHECK_FALSE(status.ok());
  CHECK_THAT(status.message(), Catch::Contains("taken"));
  CHECK(WriteBatchFile(*batch, folder / "no/such/folder").code() == StatusCode::kNotFound);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("a damaged or missing file is an error that names it", "[batch_file]") {
  const TemporaryFolder folder;
  BufferPool pool;
  CHECK(ReadBatchFile(folder / "none", pool).status().code() == StatusCode::kNotFound);
  CHECK(ReadBatchFile(folder.path().string(), pool).status().code() ==
        StatusCode::kInvalidArgument);
  std::ofstream(folder / "short") << "MILLBTCH";
  const Status status = ReadBatchFile(folder / "short", pool).status();
  CHECK(status.code() == StatusCode::kDataLoss);
  CHECK_THAT(status.message(), Catch::StartsWith(folder / "short"));
  std::ofstream(folder / "empty").flush();
  CHECK(ReadBatchFile(folder / "empty", pool).status().code() == StatusCode::kDataLoss);
}

}  // namespace
}  // namespace millrace
