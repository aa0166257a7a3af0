#include "server/kinds/tokens/tokens_kind.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "server/catalog/product_kinds.h"
#include "server/files/index_place.h"
#include "server/source/warm.h"
#include "tests/unit/server/kinds/tokens/tokens_folder.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using Catch::EndsWith;
using test::TempDir;
using test::TokenBytes;
using test::Tokens;
using test::WriteBytes;
using test::WritePair;

std::string KindOf(const fs::path& dir) {
  const auto kind = ProductKinds().Find(dir, "");
  return kind.ok() ? std::string((*kind)->name()) : kind.status().message();
}

TEST_CASE("a folder is found to be of tokens by an *.idx that begins so, before others are asked",
          "[tokens_kind]") {
  const TempDir dir;
  WriteBytes(dir / "x.bin", "12");
  CHECK(KindOf(dir.path()) != "tokens");
  WritePair(dir / "deep/y", DType::kUint16, {{1}});
  CHECK(KindOf(dir.path()) == "tokens");
  const auto told = ProductKinds().Find(dir.path(), "tokens");
  REQUIRE(told.ok());
  CHECK((*told)->name() == "tokens");
  const TempDir none;
  CHECK_THAT(KindOf(none.path()), Contains("no *.idx file below it that begins with MMIDIDX"));
}

TEST_CASE("a folder of pairs is indexed, inspected, verified and warmed", "[tokens_kind]") {
  const TempDir dir;
  WritePair(dir / "a", DType::kUint16, {{1, 2, 3}, {}, {4}});
  WritePair(dir / "b", DType::kUint16, {Tokens(9, 7)});
  const auto kind = MakeTokensKind();
  CHECK(kind->FilesToWarm(dir.path())->names.size() == 4);
  CHECK_THAT(kind->Verify(dir.path(), {}).status().message(), Contains("has no index; build it"));
  CHECK_THAT(*kind->Index(dir.path(), {}),
             Contains("index            " + (dir / kIndexFileName).string()) &&
                 Contains("0 of 4 files as before") && Contains("documents        4\n"));
  CHECK_THAT(*kind->Index(dir.path(), {}), Contains("fits             as it is\n"));
  const std::string inspected = *kind->Inspect(dir.path(), {});
  CHECK_THAT(inspected, Contains("documents        4\n") && Contains("tokens           13\n") &&
                            Contains("dtype            uint16\n") &&
                            Contains("longest          9\n") && Contains("files            2\n"));
  CHECK_THAT(inspected, Contains("lengths                      documents            tokens\n"
                                 "  0                                  1                 0\n"
                                 "  1                                  1                 1\n"
                                 "  2 to 3                             1                 3\n"
                                 "  8 to 15                            1                 9\n"));
  CHECK_THAT(inspected,
             Contains("  a.bin: 3 sequences, 4 tokens, 8 bytes\n") && EndsWith("source: tokens\n"));
  CHECK_THAT(*kind->Verify(dir.path(), {}), Contains("4 files, ") && Contains("all as indexed"));
  CHECK(kind->FilesToWarm(dir.path())->names.back() == kIndexFileName);
  WarmOptions options;
  options.threads = 1;
  CHECK(WarmFiles(dir.path(), *kind->FilesToWarm(dir.path()), options)->files == 5);
}

TEST_CASE("a source is suggested for raw files, and guesses are said to be such", "[tokens_kind]") {
  const auto kind = MakeTokensKind();
  const auto suggested = [&](const std::vector<std::string>& files) {
    const TempDir dir;
    for (std::size_t i = 0; i < files.size(); ++i) {
      WriteBytes(dir / (std::to_string(i) + ".bin"), files[i]);
    }
    const auto text = kind->Inspect(dir.path(), {});
    INFO(text.status().message());
    REQUIRE(text.ok());
    const std::size_t begin = std::min(text->find("guessed"), text->find("source: "));
    return text->substr(begin);
  };
  const Tokens one = {9, 500, 8, 50256};
  const Tokens other = {7, 6, 50256};
  CHECK(suggested({TokenBytes(DType::kUint16, one), TokenBytes(DType::kUint16, other)}) ==
        "guessed          dtype, because it gives small numbers; eos: 50256, because all files end "
        "with it\nsource: {tokens: {dtype: uint16, eos: 50256}}\n");
  CHECK_THAT(suggested({TokenBytes(DType::kUint32, one), TokenBytes(DType::kUint32, other)}),
             EndsWith("source: {tokens: {dtype: uint32, eos: 50256}}\n"));
  CHECK_THAT(suggested({test::LlmcBytes(DType::kUint16, {50256, 3}),
                        test::LlmcBytes(DType::kUint16, {50256, 4})}),
             EndsWith("source: {tokens: {bos: 50256}}\n"));
  CHECK(suggested({test::NpyBytes(DType::kUint16, {1, 2}),
                   test::NpyBytes(DType::kUint16, {3, 4})}) == "source: tokens\n");
  CHECK_THAT(suggested({"abc", ""}), EndsWith("source: {tokens: {dtype: uint8, eos: 99}}\n"));
}

TEST_CASE("a folder of tokens with a damaged file is opened if it was good once", "[tokens_kind]") {
  const TempDir dir;
  WritePair(dir / "a", DType::kUint16, {{1, 2}});
  WritePair(dir / "b", DType::kUint16, {{3}});
  const auto kind = MakeTokensKind();
  const OpenedDataset before = kind->Open(dir.path(), {});
  REQUIRE(before.status.ok());
  CHECK(before.dataset->examples() == 2);
  CHECK(before.dataset->file_count() == 2);
  CHECK(before.dataset->Files().size() == 4);
  CHECK(before.dataset->can_exclude_files());
  CHECK(before.dataset->LeavesToSources("a.idx"));
  CHECK_FALSE(before.dataset->LeavesToSources("a.bin"));
  const auto damaged = [&] {
    OpenedDataset opened = kind->Open(dir.path(), {});
    CHECK(opened.status.code() == StatusCode::kDataLoss);
    REQUIRE(opened.dataset != nullptr);
    CHECK(opened.dataset->digest() == before.dataset->digest());
    CHECK(opened.bad_files == 1);
    return opened.damaged;
  };
  using Names = std::vector<std::string>;
  SECTION("tokens that are cut off") {
    fs::resize_file(dir / "a.bin", 3);
    CHECK(damaged() == Names{"a.bin"});
  }
  SECTION("tokens that are gone") {
    fs::remove(dir / "a.bin");
    CHECK(damaged() == Names{"a.bin"});
  }
  SECTION("an index of sequences that is gone") {
    fs::remove(dir / "a.idx");
    CHECK(damaged() == Names{"a.bin"});
  }
  SECTION("an index of sequences that is damaged") {
    test::WriteOver(dir / "a.idx", 9, "\2");
    CHECK(damaged() == Names{"a.idx"});
  }
}

TEST_CASE("a folder of tokens that was never good is not opened, and says what is left out",
          "[tokens_kind]") {
  const TempDir dir;
  WritePair(dir / "a", DType::kUint16, {{1, 2}});
  WriteBytes(dir / "b.bin", "1");
  const auto kind = MakeTokensKind();
  const OpenedDataset opened = kind->Open(dir.path(), {});
  CHECK(opened.dataset == nullptr);
  CHECK(opened.damaged == std::vector<std::string>{"b.bin"});
  DatasetOpenOptions options;
  options.skip_bad = true;
  const OpenedDataset without = kind->Open(dir.path(), options);
  REQUIRE(without.status.ok());
  CHECK(without.bad_files == 1);
  CHECK(without.dataset->left_out_count() == 1);
  CHECK(without.dataset->LeftOut(0).empty());
  CHECK(without.dataset->LeftOut(9)[0].name == "b.bin");
  CHECK_THAT(*kind->Inspect(dir.path(), options), Contains("  left out: b.bin: has no b.idx"));
  CHECK_THAT(*kind->Verify(dir.path(), options), Contains("1 files left out of the index\n"));
}

}  // namespace
}  // namespace millrace
