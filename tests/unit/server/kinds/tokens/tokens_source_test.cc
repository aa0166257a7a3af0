// The source of tokens, without plans: documents, columns, refusals, damage.
#include "server/kinds/tokens/tokens_source.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "server/files/sigbus_guard.h"
#include "tests/unit/server/kinds/tokens/tokens_source_fixture.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using Catch::StartsWith;
using test::Documents;
using test::MakeTokenSource;
using test::RefusedSource;
using test::TempDir;
using test::TokenBytes;
using test::Tokens;
using test::TokenSourceTest;
using test::WriteBytes;
using test::WritePair;

TEST_CASE("the sequences of pairs are examples, with columns at no cost", "[tokens_source]") {
  const TempDir dir;
  WritePair(dir / "a", DType::kUint16, {{1, 2, 3}, {}, {4}});
  WritePair(dir / "b", DType::kUint16, {});
  WritePair(dir / "c/d", DType::kUint16, {{65535, 0}});
  TokenSourceTest test(dir.path());
  CHECK(test.ReadAll() == Documents{{1, 2, 3}, {}, {4}, {65535, 0}});
  CHECK(TokenSourceTest::RowsOf(*test.MustBuild({3, 0})) == Documents{{65535, 0}, {1, 2, 3}});
  CHECK(test.Column("tokens.length") == Tokens{3, 0, 1, 2});
  CHECK(test.Column("tokens.length", 2) == Tokens{1, 2});
  CHECK(test.Column("example_id", 1) == Tokens{1, 2, 3});
  CHECK(test.Column("file") == Tokens{0, 0, 0, 2});
  CHECK(test.Column("file", 2, 2) == Tokens{0, 2});
  const SourceFacts& facts = test.source->facts();
  CHECK(facts.examples == 4);
  CHECK(facts.split_column == "example_id");
  CHECK(facts.max_example_bytes == 7);
  const ExampleDescription description = test.source->Describe(ExampleId(3));
  CHECK(description.file == "c/d.bin");
  CHECK(description.title == "sequence 0");
  CHECK(std::get<std::uint64_t>(*description.Find("tokens")) == 2);
  // Nothing was read as data.
  CHECK_FALSE(fs::exists(dir / ".millrace.columns"));
}

TEST_CASE("tokens travel as wide as their files, and are delivered as the session's index type",
          "[tokens_source]") {
  const struct {
    DType dtype;
    DType travels;
    std::uint64_t largest;
  } types[] = {
      {DType::kUint8, DType::kUint8, 255},         {DType::kInt8, DType::kUint8, 127},
      {DType::kUint16, DType::kUint16, 65535},     {DType::kInt16, DType::kUint16, 32767},
      {DType::kInt32, DType::kUint32, 2147483647}, {DType::kInt64, DType::kUint32, 2147483647}};
  for (const auto& type : types) {
    const TempDir dir;
    const auto largest = static_cast<std::int64_t>(type.largest);
    WritePair(dir / "x", type.dtype, {{0, largest}, {1}});
    TokenSourceTest test(dir.path());
    INFO(DTypeName(type.dtype));
    const TensorSpec& tokens = test.source->tensors()[1];
    CHECK(tokens.path == "tokens");
    CHECK(tokens.dtype == type.travels);
    CHECK(tokens.max == type.largest);
    CHECK(tokens.expansion == Expansion::kWiden);
    CHECK(tokens.splits == "tokens_splits");
    CHECK(test.ReadAll() == Documents{{0, largest}, {1}});
  }
}

TEST_CASE("a raw file is an example, unless eos or bos cuts it", "[tokens_source]") {
  const TempDir dir;
  WriteBytes(dir / "a.bin", TokenBytes(DType::kUint16, {1, 9, 9, 2}));
  WriteBytes(dir / "b.npy", test::NpyBytes(DType::kUint16, {9, 3}));
  WriteBytes(dir / "c.bin", "");
  WriteBytes(dir / "d.bin", test::LlmcBytes(DType::kUint16, {4}));
  CHECK(TokenSourceTest(dir.path(), R"({"dtype": "uint16"})").ReadAll() ==
        Documents{{1, 9, 9, 2}, {9, 3}, {4}});
  TokenSourceTest ends(dir.path(), R"({"dtype": "uint16", "eos": 9})");
  CHECK(ends.ReadAll() == Documents{{1, 9}, {9}, {2}, {9}, {3}, {4}});
  CHECK(ends.Column("tokens.length") == Tokens{2, 1, 1, 1, 1, 1});
  CHECK(ends.Column("file") == Tokens{0, 0, 0, 1, 1, 3});
  CHECK(ends.source->Describe(ExampleId(4)).title == "document 1");
  CHECK(TokenSourceTest(dir.path(), R"({"dtype": "uint16", "bos": 9})").ReadAll() ==
        Documents{{1}, {9}, {9, 2}, {9, 3}, {4}});
}

TEST_CASE("documents that were found are kept, and found again if they do not fit",
          "[tokens_source]") {
  const TempDir dir;
  WriteBytes(dir / "a.bin", TokenBytes(DType::kUint8, {1, 9, 2, 9}));
  const std::string keys = R"({"dtype": "uint8", "eos": 9})";
  DatasetOpenOptions options;
  const auto open = [&](const std::shared_ptr<test::RecordingLogger>& logger) {
    options.logger = logger;
    TokenSourceTest test(test::MustOpenTokens(dir.path(), options), test::TokenParts(keys));
    CHECK(test.source->examples() == 2);
    // Another source over the same dataset has the same documents.
    CHECK(MakeTokenSource(test.dataset, test::TokenParts(keys)).ok());
  };
  const auto first = std::make_shared<test::RecordingLogger>();
  open(first);
  CHECK(first->Has("looking for documents"));
  CHECK(first->Has("documents found"));
  const auto second = std::make_shared<test::RecordingLogger>();
  open(second);
  CHECK_FALSE(second->Has("documents"));
  for (const auto& entry : fs::directory_iterator(dir / ".millrace.columns")) {
    test::WriteOver(entry.path(), 60, "\7");
  }
  const auto third = std::make_shared<test::RecordingLogger>();
  open(third);
  CHECK(third->Has("the lengths of documents cannot be read; they are found again"));
  CHECK(third->Has("documents found"));
}

TEST_CASE("documents are kept where indexes are, or else only found", "[tokens_source]") {
  const TempDir dir;
  WriteBytes(dir / "a/a.bin", TokenBytes(DType::kUint8, {1, 9}));
  DatasetOpenOptions options;
  options.index_file = dir / "index";
  TokenSourceTest test(test::MustOpenTokens(dir / "a", options),
                       test::TokenParts(R"({"dtype": "uint8", "eos": 9})"));
  CHECK(fs::exists(dir / "index.columns"));
  CHECK_FALSE(fs::exists(dir / "a/.millrace.columns"));
  const auto logger = std::make_shared<test::RecordingLogger>();
  options.logger = logger;
  options.index_file = dir / "a/a.bin/no folder";
  TokenSourceTest unkept(test::MustOpenTokens(dir / "a", options),
                         test::TokenParts(R"({"dtype": "uint8", "eos": 9})"));
  CHECK(unkept.source->examples() == 1);
  CHECK(logger->Has("the lengths of documents cannot be kept"));
}

TEST_CASE("folders of pairs that are made up are read as they were written", "[tokens_source]") {
  rc::prop("in pairs and in raw files", [] {
    const TempDir dir;
    const DType dtype = *rc::gen::element(DType::kUint8, DType::kInt8, DType::kUint16,
                                          DType::kInt16, DType::kInt32, DType::kInt64);
    const bool pairs = *rc::gen::arbitrary<bool>();
    const char* const name = *rc::gen::element("tokens", "a b", "\xc3\xa4", "a.b", "a.bin");
    Documents all;
    for (int f = 0; f < 3; ++f) {
      Documents documents;
      for (int d = 0; d < *rc::gen::inRange(0, 5); ++d) {
        documents.push_back(*rc::gen::container<Tokens>(rc::gen::inRange<std::int64_t>(0, 127)));
        // In raw files a document ends with a token that is nowhere else.
        if (!pairs) documents.back().push_back(127);
      }
      if (f == 2) documents.push_back({127});
      const std::string stem = (dir / std::to_string(f) / name).string();
      if (pairs) {
        WritePair(stem, dtype, documents);
      } else {
        WriteBytes(stem + ".bin", TokenBytes(dtype, test::Joined(documents)));
      }
      all.insert(all.end(), documents.begin(), documents.end());
    }
    TokenSourceTest test(
        dir.path(),
        pairs ? "{}" : R"({"eos": 127, "dtype": ")" + std::string(DTypeName(dtype)) + "\"}");
    RC_ASSERT(test.ReadAll() == all);
    const Tokens lengths = test.Column("tokens.length");
    for (std::size_t i = 0; i < all.size(); ++i) {
      RC_ASSERT(lengths[i] == static_cast<std::int64_t>(all[i].size()));
    }
  });
}

TEST_CASE("an index of sequences with any byte flipped gives the same documents, or an error",
          "[tokens_source]") {
  const Documents documents = {{1, 2, 3}, {}, {4, 5}};
  for (const DType dtype : {DType::kUint8, DType::kUint16, DType::kInt64}) {
    const std::string idx = test::SequenceIndexBytes(dtype, documents);
    for (std::size_t at = 0; at < idx.size(); ++at) {
      const TempDir dir;
      WritePair(dir / "x", dtype, documents);
      test::WriteOver(dir / "x.idx", at, std::string(1, static_cast<char>(idx[at] ^ 1)));
      const test::OpenedTokens opened = test::OpenTokens(dir.path());
      if (!opened.index.ok()) {
        CHECK(opened.index.status().code() == StatusCode::kDataLoss);
        continue;
      }
      INFO(DTypeName(dtype) << ", byte " << at);
      TokenSourceTest test(dir.path());
      CHECK(test.ReadAll() == documents);
    }
  }
}

TEST_CASE("a source of tokens is refused with the key that is wrong", "[tokens_source]") {
  const TempDir bare;
  WriteBytes(bare / "a.npy", test::NpyBytes(DType::kUint16, {1}));
  CHECK(RefusedSource(bare.path(), R"({"dtype": "int32"})").message() ==
        "source.tokens.dtype: a.npy has tokens of uint16, as its header says; got int32");
  WriteBytes(bare / "b.bin", "abc");
  CHECK_THAT(RefusedSource(bare.path()).message(),
             Contains("source.tokens.dtype: the key is missing; expected uint8, ") &&
                 Contains("b.bin has no header that says its type"));
  const Status odd = RefusedSource(bare.path(), R"({"dtype": "uint16"})");
  CHECK(odd.code() == StatusCode::kDataLoss);
  CHECK_THAT(odd.message(),
             Contains("b.bin: has 3 bytes, which are no whole number of tokens of uint16") &&
                 Contains("`exclude: {files: [\"b.bin\"]}`"));
  CHECK(MakeTokenSource(test::MustOpenTokens(bare.path()),
                        test::TokenParts(R"({"dtype": "uint16"})", {"b.bin"}))
            .ok());
  CHECK_THAT(RefusedSource(bare.path(), R"({"dtype": "uint16", "eos": 7})", {}).message(),
             Contains("3 bytes"));
  const TempDir pairs;
  WritePair(pairs / "x", DType::kUint16, {{1}});
  CHECK(RefusedSource(pairs.path(), R"({"dtype": "int32"})").message() ==
        "source.tokens.dtype: x.bin has tokens of uint16, as x.idx says; got int32");
  CHECK(TokenSourceTest(pairs.path(), R"({"dtype": "uint16", "eos": 7})").ReadAll() ==
        Documents{{1}});
  CHECK_THAT(RefusedSource(pairs.path(), "{}", {"x.idx"}).message(),
             Contains("exclude.files: x.idx says where sequences are, and cannot be left out; "
                      "exclude x.bin, after which the two are called"));
  const TempDir raw;
  WriteBytes(raw / "a.npy", test::NpyBytes(DType::kUint16, {1}));
  CHECK_THAT(RefusedSource(raw.path(), R"({"eos": 7})").message(),
             StartsWith("source.tokens.eos: no file has the token 7"));
  CHECK_THAT(RefusedSource(raw.path(), R"({"bos": 65537})").message(),
             StartsWith("source.tokens.bos: no file has the token 65537: the largest of uint16"));
}

TEST_CASE("a value that no token may have is named with file, place and value", "[tokens_source]") {
  const TempDir dir;
  WritePair(dir / "x", DType::kInt32, {{5}, {6, -2, 7}, {8}});
  TokenSourceTest test(dir.path());
  CHECK(test.ErrorOf({0, 1}) ==
        "dataset " + dir.path().string() +
            ": file x.bin, document 1: token 2 is -2, expected 0 to 2147483647; to go on without "
            "it, write `exclude: {examples: [1]}`");
  CHECK(TokenSourceTest::RowsOf(*test.MustBuild({0, 2})) == Documents{{5}, {8}});
  // The file is what was indexed, so it is no damage of the file.
  CHECK(test.source->CheckIntact().ok());
  TokenSourceTest small(dir.path(), R"({"vocab": 7})");
  CHECK(small.source->tensors()[1].max == 6);
  CHECK_THAT(small.ErrorOf({2}), Contains("token 4 is 8, expected 0 to 6 (vocab)"));
  CHECK(small.MustBuild({0})->examples() == 1);
  const TempDir wide;
  WritePair(wide / "x", DType::kInt64, {{std::int64_t{1} << 40}});
  CHECK_THAT(TokenSourceTest(wide.path()).ErrorOf({0}), Contains("token 0 is 1099511627776"));
}

TEST_CASE("documents of an excluded file keep their numbers, and it is never opened",
          "[tokens_source]") {
  const TempDir dir;
  const bool pairs = GENERATE(true, false);
  for (const char* name : {"a", "b", "c"}) {
    const Documents documents = {{1, 9}, {2, 9}};
    if (pairs) {
      WritePair(dir / name, DType::kUint8, documents);
    } else {
      WriteBytes(dir / (std::string(name) + ".bin"),
                 TokenBytes(DType::kUint8, test::Joined(documents)));
    }
  }
  const std::string keys = pairs ? "{}" : R"({"dtype": "uint8", "eos": 9})";
  const auto dataset = test::MustOpenTokens(dir.path());
  CHECK(TokenSourceTest(dataset, test::TokenParts(keys)).source->examples() == 6);
  fs::remove(dir / "b.bin");
  // Opened anew, it has no file open, and a plan needs the kept documents.
  const auto again = std::make_shared<const TokensDataset>(
      dir.path(), std::make_shared<const TokensIndex>(dataset->index()), DatasetOpenOptions());
  TokenSourceTest test(again, test::TokenParts(keys, {"b.bin"}));
  CHECK(test.Column("tokens.length") == Tokens(6, 2));
  const auto batch = test.MustBuild({0, 2, 3, 5});
  CHECK(TokenSourceTest::RowsOf(*batch) == Documents{{1, 9}, {2, 9}});
  REQUIRE(batch->info().dropped.size() == 2);
  CHECK(batch->info().dropped[0] == DroppedExample{ExampleId(2), DropReason::kExcluded});
  CHECK(test.source->CheckIntact().ok());
  // Whoever does not exclude it meets the error.
  TokenSourceTest whole(again, test::TokenParts(keys));
  CHECK_THAT(whole.ErrorOf({2}), Contains("b.bin"));
  CHECK_THAT(whole.source->CheckIntact().message(), Contains("exclude: {files: [\"b.bin\"]}"));
  CHECK(test.source->CheckIntact().ok());
}

TEST_CASE("an index of sequences that is gone is needed even if its tokens are excluded",
          "[tokens_source]") {
  const TempDir dir;
  WritePair(dir / "a", DType::kUint8, {{1}});
  WritePair(dir / "b", DType::kUint8, {{2}});
  const auto dataset = test::MustOpenTokens(dir.path());
  fs::remove(dir / "b.idx");
  const auto made = MakeTokenSource(dataset, test::TokenParts("{}", {"b.bin"}));
  REQUIRE_FALSE(made.ok());
  CHECK(made.status().code() == StatusCode::kDataLoss);
  CHECK_THAT(made.status().message(), Contains("file b.idx of dataset "));
}

TEST_CASE("documents cannot be found without an excluded file", "[tokens_source]") {
  const TempDir dir;
  WriteBytes(dir / "a.bin", TokenBytes(DType::kUint8, {1, 9}));
  WriteBytes(dir / "b.bin", TokenBytes(DType::kUint8, {2, 9}));
  const Status status = RefusedSource(dir.path(), R"({"dtype": "uint8", "eos": 9})", {"b.bin"});
  CHECK(status.code() == StatusCode::kFailedPrecondition);
  CHECK_THAT(status.message(), Contains("were not found while these files were good: b.bin"));
}

TEST_CASE("documents are looked for only in files that are as large as they were indexed",
          "[tokens_source]") {
  const TempDir dir;
  WriteBytes(dir / "a.bin", TokenBytes(DType::kUint8, {1, 9}));
  TokensIndexContent content;
  content.files.emplace_back().file = {"a.bin", std::uint64_t{1} << 61, {1, 2}, std::nullopt};
  const auto index = *TokensIndex::Decode(TokensIndex::Encode(content));
  const auto dataset =
      std::make_shared<const TokensDataset>(dir.path(), index, DatasetOpenOptions());
  const auto made = MakeTokenSource(dataset, test::TokenParts(R"({"dtype": "uint8", "eos": 9})"));
  REQUIRE_FALSE(made.ok());
  CHECK(made.status().code() == StatusCode::kDataLoss);
  CHECK_THAT(made.status().message(), Contains("a.bin") && Contains("has 2 bytes, expected"));
}

TEST_CASE("a file of tokens that is cut off or written over while it is mapped is reported",
          "[tokens_source]") {
  InstallSigbusGuard();
  const TempDir dir;
  WritePair(dir / "a", DType::kUint16, {Tokens(5000, 1), Tokens(5000, 2)});
  WritePair(dir / "b", DType::kUint16, {{3}});
  TokenSourceTest test(dir.path());
  REQUIRE(test.MustBuild({0, 1, 2})->examples() == 3);
  REQUIRE(test.source->CheckIntact().ok());
#if !defined(__SANITIZE_ADDRESS__) && !defined(_GLIBCXX_TSAN)
  SECTION("cut off, and read before anybody looks") {
    fs::resize_file(dir / "a.bin", 4096);
    const auto batch = test.Build({1});
    CHECK(batch.ok());  // zeros, which are worth nothing, as the next line says
    CHECK_THAT(test.source->CheckIntact().message(),
               Contains("a.bin: at byte ") && Contains("it was cut off, or its disk fails") &&
                   Contains("exclude: {files: [\"a.bin\"]}"));
  }
#endif
  SECTION("cut off, and looked at") {
    fs::resize_file(dir / "a.bin", 4096);
    const FileNews news = test.dataset->CheckFiles({});
    REQUIRE(news.damaged.size() == 1);
    CHECK(news.damaged[0].name == "a.bin");
    CHECK_FALSE(test.source->CheckIntact().ok());
  }
  SECTION("written over") {
    test::WriteOver(dir / "a.bin", 2, "\7");
    fs::last_write_time(dir / "a.bin", fs::file_time_type::clock::now());
    CHECK(test.dataset->CheckFiles({}).damaged.size() == 1);
  }
  CHECK(test.source->CheckIntact().code() == StatusCode::kDataLoss);
  TokenSourceTest without(test.dataset, test::TokenParts("{}", {"a.bin"}));
  CHECK(TokenSourceTest::RowsOf(*without.MustBuild({2})) == Documents{{3}});
}

TEST_CASE("a file of tokens that is replaced while it is mapped goes on being read",
          "[tokens_source]") {
  const TempDir dir;
  WritePair(dir / "a", DType::kUint16, {{1, 2}});
  TokenSourceTest test(dir.path());
  REQUIRE(test.MustBuild({0})->examples() == 1);
  WriteBytes(dir / "new", TokenBytes(DType::kUint16, {8, 9}));
  fs::rename(dir / "new", dir / "a.bin");
  const FileNews news = test.dataset->CheckFiles({});
  CHECK(news.damaged.empty());
  REQUIRE(news.replaced.size() == 1);
  CHECK(news.replaced[0].name == "a.bin");
  CHECK(test.ReadAll() == Documents{{1, 2}});
}

TEST_CASE("an index of sequences that is written over or cut off while it is mapped is reported",
          "[tokens_source]") {
  InstallSigbusGuard();
  const TempDir dir;
  WritePair(dir / "a", DType::kUint16, Documents(3000, Tokens{1, 2}));
  TokenSourceTest test(dir.path());
  SECTION("a length below 0") {
    test::WriteOver(dir / "a.idx", 34 + 4, test::Little(~std::uint64_t{0}, 4));
    CHECK(test.Column("tokens.length", 0, 3) == Tokens{2, 0, 2});
  }
  SECTION("a place beyond the tokens") {
    test::WriteOver(dir / "a.idx", 34 + 4 * 3000 + 8, test::Little(12000, 8));
    CHECK_THAT(test.ErrorOf({1}), Contains("file a.idx: sequence 1: length 2, offset 12000; it was "
                                           "written to while it was in use"));
  }
  SECTION("a place within a token") {
    test::WriteOver(dir / "a.idx", 34 + 4 * 3000 + 8, test::Little(3, 8));
    CHECK_THAT(test.ErrorOf({1}), Contains("sequence 1: length 2, offset 3"));
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(_GLIBCXX_TSAN)
  SECTION("cut off") {
    fs::resize_file(dir / "a.idx", 4096);
    CHECK(test.Column("tokens.length", 2999) == Tokens{0});
  }
#endif
  const Status intact = test.source->CheckIntact();
  CHECK(intact.code() == StatusCode::kDataLoss);
  CHECK_THAT(intact.message(),
             Contains("it says where the sequences of a.bin are, so it is needed even if that "
                      "file is excluded"));
}

TEST_CASE("a split by names of files goes by the files with tokens", "[tokens_source]") {
  const TempDir dir;
  WritePair(dir / "train", DType::kUint8, {{1}});
  WritePair(dir / "valid", DType::kUint8, {{2}});
  TokenSourceTest test(dir.path());
  SplitOptions options;
  options.method = SplitMethod::kFilePrefix;
  options.prefixes = {{"valid"}};
  CHECK(*test.source->FileLabels(options) == std::vector<std::uint32_t>{0, 1});
}

}  // namespace
}  // namespace millrace
