#include "server/kinds/tokens/index/tokens_index.h"

#include <catch2/catch.hpp>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "common/base/hash.h"
#include "tests/unit/server/kinds/tokens/tokens_folder.h"

namespace millrace {
namespace {

using Catch::Contains;
using test::TempDir;

TokensFile FileOf(std::string name, std::uint64_t size, TokensForm form) {
  TokensFile file;
  file.file = {std::move(name), size, {size, 1}, FileIdentity{.size = size, .inode = 7}};
  file.form = form;
  return file;
}

/// Two pairs of uint16, with 5 tokens and none.
TokensIndexContent Pairs() {
  TokensIndexContent content;
  content.files = {
      FileOf("a.bin", 10, TokensForm::kPaired), FileOf("a.idx", 70, TokensForm::kSequences),
      FileOf("b.bin", 0, TokensForm::kPaired), FileOf("b.idx", 34, TokensForm::kSequences)};
  content.files[1].dtype = content.files[3].dtype = DType::kUint16;
  content.files[1].tokens = 5;
  content.files[1].sequences = 3;
  content.files[1].longest = 4;
  content.left_out = {{{"c.bin", "why"}, FileIdentity{.size = 3}},
                      {{"d.idx", "unreadable"}, std::nullopt}};
  return content;
}

/// A bare file, and one that says that it has 3 tokens of uint16.
TokensIndexContent Raw() {
  TokensIndexContent content;
  content.files = {FileOf("a.bin", 10, TokensForm::kBare), FileOf("b.npy", 134, TokensForm::kNpy)};
  content.files[1].dtype = DType::kUint16;
  content.files[1].begin = 128;
  content.files[1].tokens = 3;
  return content;
}

bool IsIndex(const TokensIndexContent& content) {
  return TokensIndex::Decode(TokensIndex::Encode(content)).ok();
}

TEST_CASE("an index of tokens is read as it was written", "[tokens_index]") {
  const TempDir dir;
  REQUIRE(TokensIndex::Write(dir / "index", Pairs()).ok());
  const auto opened = TokensIndex::Open(dir / "index");
  INFO(opened.status().message());
  REQUIRE(opened.ok());
  const TokensIndex& index = **opened;
  CHECK(index.same_host());
  REQUIRE(index.files().size() == 4);
  CHECK(index.files()[1].file.name == "a.idx");
  CHECK(index.files()[1].file.digest == Digest128{70, 1});
  CHECK(index.files()[1].file.identity->inode == 7);
  CHECK(index.is_pairs());
  REQUIRE(index.data().size() == 2);
  CHECK(index.data()[0].file == 0);
  CHECK(index.data()[0].sequences == 1);
  CHECK(index.DataFile(1).file.name == "b.bin");
  CHECK(index.dtype() == DType::kUint16);
  CHECK(index.typed_file() == 1);
  CHECK(index.sequences() == 3);
  CHECK(index.tokens() == 5);
  CHECK(index.bytes() == 114);
  REQUIRE(index.left_out().size() == 2);
  CHECK(index.left_out()[0].file.reason == "why");
  CHECK(index.left_out()[0].identity->size == 3);
  CHECK_FALSE(index.left_out()[1].identity.has_value());
  CHECK(TokensIndex::Open(dir / "none").status().code() == StatusCode::kNotFound);
}

TEST_CASE("the digest of a dataset of tokens is that of its files, after the name of the kind",
          "[tokens_index]") {
  const auto index = *TokensIndex::Decode(TokensIndex::Encode(Raw()));
  CHECK_FALSE(index->is_pairs());
  std::string bytes = "tokens\n";
  for (const TokensFile& file : index->files()) {
    bytes += test::Little(file.file.name.size(), 4) + file.file.name +
             test::Little(file.file.size, 8) + file.file.digest.ToBytes();
  }
  CHECK(index->digest() == Xxh3(bytes));
}

TEST_CASE("an index of tokens with any byte changed or cut off is refused", "[tokens_index]") {
  const std::vector<std::byte> whole = TokensIndex::Encode(Pairs());
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::vector<std::byte> changed = whole;
    changed[at] ^= std::byte{1};
    const auto index = TokensIndex::Decode(changed);
    REQUIRE_FALSE(index.ok());
    CHECK(index.status().code() == StatusCode::kDataLoss);
    CHECK_THAT(index.status().message(), Contains("; build it again"));
    CHECK_FALSE(TokensIndex::Decode(std::span(whole).first(at)).ok());
  }
}

TEST_CASE("an index of tokens whose files do not fit together is refused", "[tokens_index]") {
  REQUIRE(IsIndex(Pairs()));
  REQUIRE(IsIndex(Raw()));
  const auto pairs_with = [](std::size_t file, auto change) {
    TokensIndexContent content = Pairs();
    change(content.files[file]);
    return IsIndex(content);
  };
  CHECK_FALSE(pairs_with(0, [](TokensFile& f) { f.file.size = 12; }));
  CHECK_FALSE(pairs_with(0, [](TokensFile& f) { f.form = TokensForm::kBare; }));
  CHECK_FALSE(pairs_with(0, [](TokensFile& f) { f.file.name = "0.bin"; }));
  CHECK_FALSE(pairs_with(0, [](TokensFile& f) { f.file.name = "a.bim"; }));
  CHECK_FALSE(pairs_with(1, [](TokensFile& f) { f.sequences = 4; }));
  CHECK_FALSE(pairs_with(1, [](TokensFile& f) { f.longest = 6; }));
  CHECK_FALSE(pairs_with(1, [](TokensFile& f) { f.tokens = std::uint64_t{1} << 63; }));
  CHECK_FALSE(pairs_with(1, [](TokensFile& f) { f.dtype = DType::kInt32; }));
  CHECK_FALSE(pairs_with(1, [](TokensFile& f) { f.dtype = DType::kFloat32; }));
  CHECK_FALSE(pairs_with(1, [](TokensFile& f) { f.form = static_cast<TokensForm>(9); }));
  CHECK_FALSE(pairs_with(3, [](TokensFile& f) { f.dtype = DType::kInt16; }));
  CHECK_FALSE(pairs_with(3, [](TokensFile& f) { f.file.size = 33; }));
  TokensIndexContent half = Pairs();
  half.files.erase(half.files.begin() + 2);
  CHECK_FALSE(IsIndex(half));
  const auto raw_with = [](std::size_t file, auto change) {
    TokensIndexContent content = Raw();
    change(content.files[file]);
    return IsIndex(content);
  };
  CHECK_FALSE(raw_with(0, [](TokensFile& f) { f.tokens = 5; }));
  CHECK_FALSE(raw_with(0, [](TokensFile& f) { f.file.name = "c"; }));  // out of order
  CHECK_FALSE(raw_with(1, [](TokensFile& f) { f.tokens = 2; }));
  CHECK_FALSE(raw_with(1, [](TokensFile& f) { f.begin = 135; }));
  CHECK_FALSE(raw_with(1, [](TokensFile& f) { f.file.size = std::uint64_t{1} << 63; }));
}

TEST_CASE("any bytes are read as an index of tokens without a fault", "[tokens_index]") {
  rc::prop("with a good checksum", [] {
    std::vector<std::byte> bytes =
        TokensIndex::Encode(*rc::gen::arbitrary<bool>() ? Pairs() : Raw());
    for (int i = 0; i < *rc::gen::inRange(0, 4); ++i) {
      bytes[*rc::gen::inRange<std::size_t>(28, bytes.size())] =
          static_cast<std::byte>(*rc::gen::arbitrary<std::uint8_t>());
    }
    if (*rc::gen::arbitrary<bool>()) bytes.resize(*rc::gen::inRange<std::size_t>(28, bytes.size()));
    const std::uint64_t size = bytes.size();
    const std::uint64_t checksum = Xxh3_64(std::span(bytes).subspan(28));
    std::memcpy(bytes.data() + 12, &size, sizeof(size));
    std::memcpy(bytes.data() + 20, &checksum, sizeof(checksum));
    const auto index = TokensIndex::Decode(bytes);
    RC_ASSERT((index.ok() || index.status().code() == StatusCode::kDataLoss));
  });
}

}  // namespace
}  // namespace millrace
