// Which files of a folder count as tokens, which are bad, and when they are read again.
#include "server/kinds/tokens/index/tokens_index_store.h"

#include <catch2/catch.hpp>

#include <chrono>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include <sys/stat.h>

#include "server/files/index_place.h"
#include "server/kinds/tokens/index/tokens_scan.h"
#include "tests/unit/server/kinds/tokens/tokens_folder.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using test::OpenedTokens;
using test::OpenTokens;
using test::TempDir;
using test::TokenBytes;
using test::WriteBytes;
using test::WritePair;

std::vector<std::string> NamesOf(const TokensIndex& index) {
  std::vector<std::string> names;
  for (const TokensFile& file : index.files()) names.push_back(file.file.name);
  return names;
}

void WriteTwoPairs(const TempDir& dir) {
  WritePair(dir / "a", DType::kUint16, {{1, 2, 3}, {4}});
  WritePair(dir / "b/c", DType::kUint16, {{5}});
}

std::string StoreError(const fs::path& dir, StatusCode code) {
  const OpenedTokens opened = OpenTokens(dir);
  REQUIRE_FALSE(opened.index.ok());
  CHECK(opened.index.status().code() == code);
  return opened.index.status().message();
}

TEST_CASE("an index of tokens is built, and then fits", "[tokens_store]") {
  const TempDir dir;
  WriteTwoPairs(dir);
  const OpenedTokens first = OpenTokens(dir.path());
  INFO(first.index.status().message());
  REQUIRE(first.index.ok());
  CHECK(first.outcome.built);
  CHECK(first.outcome.file == dir / kIndexFileName);
  CHECK((*first.index)->sequences() == 3);
  CHECK((*first.index)->tokens() == 5);
  CHECK(first.logger->Has("index built"));
  const OpenedTokens second = OpenTokens(dir.path());
  REQUIRE(second.index.ok());
  CHECK_FALSE(second.outcome.built);
  CHECK((*second.index)->digest() == (*first.index)->digest());
}

TEST_CASE("files of tokens count at any depth, by the bytes of their names", "[tokens_store]") {
  const TempDir dir;
  WritePair(dir / "a-b", DType::kUint8, {{1}});
  WritePair(dir / "a", DType::kUint8, {{2}});
  WritePair(dir / "a/z", DType::kUint8, {{3}});
  WriteBytes(dir / ".hidden/x.bin", "1");
  WriteBytes(dir / ".y.idx", "1");
  WriteBytes(dir / "cache/document_index.npy", "1");
  WriteBytes(dir / "notes.txt", "1");
  const auto index = *OpenTokens(dir.path()).index;
  CHECK(NamesOf(*index) ==
        std::vector<std::string>{"a-b.bin", "a-b.idx", "a.bin", "a.idx", "a/z.bin", "a/z.idx"});
  CHECK(index->DataFile(2).file.name == "a/z.bin");
}

TEST_CASE("without an *.idx, *.bin and *.npy are raw files", "[tokens_store]") {
  const TempDir dir;
  WriteBytes(dir / "a.npy", test::NpyBytes(DType::kUint16, {1, 2}));
  WriteBytes(dir / "b.bin", test::LlmcBytes(DType::kUint16, {1, 2, 3}));
  WriteBytes(dir / "c.bin", "ab");
  WriteBytes(dir / "d.bin", "");
  const auto index = *OpenTokens(dir.path()).index;
  REQUIRE(index->files().size() == 4);
  CHECK(index->files()[0].form == TokensForm::kNpy);
  CHECK(index->files()[1].form == TokensForm::kLlmc);
  CHECK(index->files()[2].form == TokensForm::kBare);
  CHECK(index->files()[3].form == TokensForm::kBare);
  CHECK(index->tokens() == 5);
  // An *.idx makes pairs of all of them, and takes the *.npy away.
  WritePair(dir / "e", DType::kUint16, {{1}});
  CHECK_THAT(StoreError(dir.path(), StatusCode::kDataLoss),
             Contains("b.bin: has no b.idx beside it") && Contains("c.bin: ") &&
                 Contains("3 bad files") && !Contains("a.npy"));
}

TEST_CASE("half a pair is named, and what to do", "[tokens_store]") {
  const TempDir dir;
  WriteTwoPairs(dir);
  fs::remove(dir / "b/c.idx");
  CHECK_THAT(StoreError(dir.path(), StatusCode::kDataLoss),
             Contains("b/c.bin: has no b/c.idx beside it: sequences of tokens need both; put it "
                      "there, or take this one away"));
  WriteTwoPairs(dir);
  fs::remove(dir / "a.bin");
  const OpenedTokens opened = OpenTokens(dir.path());
  CHECK_THAT(opened.index.status().message(), Contains("a.idx: has no a.bin beside it"));
  REQUIRE(opened.outcome.bad.size() == 1);
  CHECK(opened.outcome.bad[0].name == "a.idx");
}

TEST_CASE("all bad files of tokens are named at once, before any is hashed", "[tokens_store]") {
  const TempDir dir;
  WriteTwoPairs(dir);
  WriteBytes(dir / "a.bin", "1234567");
  WritePair(dir / "d", DType::kUint16, {{1}});
  test::WriteOver(dir / "d.idx", 9, "\2");
  WriteBytes(dir / "e.idx", "");
  fs::create_symlink("nowhere", dir / "f.bin");
  WriteBytes(dir / "f.idx", test::SequenceIndexBytes(DType::kUint16, {}));
  const OpenedTokens opened = OpenTokens(dir.path());
  CHECK_THAT(opened.index.status().message(),
             Contains("4 bad files") &&
                 Contains("a.bin: has 7 bytes, expected 8 for the 4 tokens of uint16 that a.idx "
                          "says: it is cut off") &&
                 Contains("d.idx: has version 2, expected 1") && Contains("e.idx: is empty") &&
                 Contains("f.bin: is a link to a file that does not exist") &&
                 Contains("--skip-bad indexes without bad files"));
  CHECK(opened.outcome.bad.size() == 4);
}

TEST_CASE("bad files of tokens are left out with their other halves", "[tokens_store]") {
  const TempDir dir;
  WriteTwoPairs(dir);
  WritePair(dir / "d", DType::kUint16, {{1}});
  test::WriteOver(dir / "d.idx", 9, "\2");
  WriteBytes(dir / "a.bin", "1234567");
  DatasetOpenOptions options;
  options.skip_bad = true;
  const OpenedTokens opened = OpenTokens(dir.path(), options);
  INFO(opened.index.status().message());
  REQUIRE(opened.index.ok());
  CHECK(NamesOf(**opened.index) == std::vector<std::string>{"b/c.bin", "b/c.idx"});
  REQUIRE((*opened.index)->left_out().size() == 4);
  CHECK((*opened.index)->left_out()[1].file.ToString() == "a.idx: its other half a.bin is bad");
  CHECK((*opened.index)->left_out()[2].file.ToString() == "d.bin: its other half d.idx is bad");
  CHECK_FALSE(OpenTokens(dir.path(), options).outcome.built);
  CHECK(OpenTokens(dir.path()).index.status().code() == StatusCode::kDataLoss);
  fs::remove(dir / "b/c.idx");
  CHECK_THAT(OpenTokens(dir.path(), options).index.status().message(),
             Contains("no file is left without the bad ones"));
}

TEST_CASE("files with tokens of two types, or without a token, are refused", "[tokens_store]") {
  const TempDir dir;
  WritePair(dir / "a", DType::kUint16, {{}, {}});
  CHECK_THAT(StoreError(dir.path(), StatusCode::kInvalidArgument),
             Contains("its 2 files have no token: expected at least one"));
  WritePair(dir / "b", DType::kInt32, {{7}});
  CHECK_THAT(StoreError(dir.path(), StatusCode::kInvalidArgument),
             Contains("a.bin has tokens of uint16, and b.bin of int32: expected one type in all"));
  const TempDir raw;
  WriteBytes(raw / "a.bin", "");
  CHECK_THAT(StoreError(raw.path(), StatusCode::kInvalidArgument), Contains("have no token"));
  WriteBytes(raw / "b.npy", test::NpyBytes(DType::kUint16, {1}));
  WriteBytes(raw / "c.npy", test::NpyBytes(DType::kInt32, {1}));
  CHECK_THAT(StoreError(raw.path(), StatusCode::kInvalidArgument),
             Contains("b.npy has tokens of uint16, and c.npy of int32"));
}

TEST_CASE("a folder without files of tokens is refused with what is expected", "[tokens_store]") {
  const TempDir dir;
  WriteBytes(dir / "readme.txt", "x");
  CHECK_THAT(StoreError(dir.path(), StatusCode::kInvalidArgument),
             Contains("no file of tokens (*.bin with *.idx, *.bin, *.npy) below "));
  CHECK(OpenTokens(dir / "none").index.status().code() == StatusCode::kNotFound);
}

TEST_CASE("only changed files of tokens are hashed again", "[tokens_store]") {
  const TempDir dir;
  WriteTwoPairs(dir);
  const Digest128 before = (*OpenTokens(dir.path()).index)->digest();
  fs::last_write_time(dir / "a.bin", fs::last_write_time(dir / "a.bin") - std::chrono::hours(1));
  OpenedTokens touched = OpenTokens(dir.path());
  CHECK(touched.outcome.built);
  CHECK(touched.outcome.unchanged == 4);
  CHECK((*touched.index)->digest() == before);
  WriteBytes(dir / "a.bin", TokenBytes(DType::kUint16, {1, 2, 3, 5}));
  OpenedTokens changed = OpenTokens(dir.path());
  CHECK(changed.outcome.unchanged == 3);
  CHECK((*changed.index)->digest() != before);
  // A raw file that becomes one of a pair is not read anew, but is another thing.
  const TempDir raw;
  WriteBytes(raw / "a.bin", "12");
  REQUIRE(OpenTokens(raw.path()).index.ok());
  WriteBytes(raw / "a.idx", test::SequenceIndexBytes(DType::kUint16, {{1}}));
  OpenedTokens paired = OpenTokens(raw.path());
  REQUIRE(paired.index.ok());
  CHECK(paired.outcome.unchanged == 1);
  CHECK((*paired.index)->is_pairs());
}

TEST_CASE("an index of tokens with the name of a file of tokens is refused", "[tokens_store]") {
  const TempDir dir;
  WriteTwoPairs(dir);
  DatasetOpenOptions options;
  options.index_file = dir / "index.idx";
  CHECK_THAT(OpenTokens(dir.path(), options).index.status().message(),
             Contains("has the name of a dataset's own file"));
  options.index_file = dir / "notes";
  WriteBytes(options.index_file, "something else");
  CHECK_THAT(OpenTokens(dir.path(), options).index.status().message(),
             Contains("is no index, and is not overwritten"));
  options.index_file = dir / "good";
  REQUIRE(OpenTokens(dir.path(), options).index.ok());
  CHECK(fs::exists(dir / "good"));
}

TEST_CASE("the building of an index of tokens is cancelled", "[tokens_store]") {
  const TempDir dir;
  WriteTwoPairs(dir);
  std::stop_source stop;
  stop.request_stop();
  DatasetOpenOptions options;
  options.stop = stop.get_token();
  CHECK(OpenTokens(dir.path(), options).index.status().code() == StatusCode::kCancelled);
}

TEST_CASE("files of tokens are compared with their index", "[tokens_store]") {
  const TempDir dir;
  WriteTwoPairs(dir);
  CHECK(FindTokensIndex(dir.path(), {}).status().code() == StatusCode::kNotFound);
  REQUIRE(OpenTokens(dir.path()).index.ok());
  const auto index = *FindTokensIndex(dir.path(), {});
  CHECK(VerifyTokens(dir.path(), *index, {}).ok());
  test::WriteOver(dir / "a.bin", 0, "\7");
  WriteBytes(dir / "d.bin", "");
  fs::remove(dir / "b/c.idx");
  CHECK_THAT(VerifyTokens(dir.path(), *index, {}).message(),
             Contains("3 bad files") && Contains("a.bin: has digest ") &&
                 Contains("d.bin: is not in the index") && Contains("b/c.idx: "));
}

TEST_CASE("a folder has an index of sequences if an *.idx begins like one", "[tokens_store]") {
  const TempDir dir;
  CHECK_FALSE(HasSequenceIndex(dir.path()));
  WriteBytes(dir / "a.idx", "MMIDIX");
  WriteBytes(dir / "b.idx", "another index");
  WriteBytes(dir / "c.bin", "MMIDIDX");
  WriteBytes(dir / ".d.idx", "MMIDIDX");
  REQUIRE(::mkfifo((dir / "pipe.idx").c_str(), 0600) == 0);
  CHECK_FALSE(HasSequenceIndex(dir.path()));
  WriteBytes(dir / "deep/er/e.idx", "MMIDIDX, and whatever follows");
  CHECK(HasSequenceIndex(dir.path()));
}

}  // namespace
}  // namespace millrace
