#include "server/kinds/tokens/marked_documents.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "tests/unit/server/kinds/tokens/tokens_folder.h"

namespace millrace {
namespace {

using Catch::Contains;
using test::Documents;
using test::TokenBytes;
using test::Tokens;

/// Files in memory.
struct RawFiles {
  explicit RawFiles(const std::vector<Tokens>& files, DType dtype = DType::kUint16) {
    layout.dtype = dtype;
    for (const Tokens& tokens : files) {
      bytes.push_back("head" + TokenBytes(dtype, tokens));
      layout.tokens.push_back(tokens.size());
      layout.begins.push_back(4);
    }
  }
  Result<MeasuredValues> Find(const DocumentMark& mark, bool stopped = false) const {
    const auto read = [this](std::size_t data, std::uint64_t begin,
                             std::uint64_t size) -> Result<std::span<const std::byte>> {
      return std::as_bytes(std::span(bytes[data])).subspan(begin, size);
    };
    return FindMarkedLengths(mark, layout, 2, read, [stopped] { return stopped; });
  }

  RawLayout layout;
  std::vector<std::string> bytes;
};

/// The documents of a file as the page defines them.
Documents Expected(const Tokens& tokens, const DocumentMark& mark) {
  Documents documents;
  Tokens document;
  for (const std::int64_t token : tokens) {
    const bool is_mark = token == static_cast<std::int64_t>(mark.token);
    if (is_mark && !mark.ends && !document.empty()) {
      documents.push_back(document);
      document.clear();
    }
    document.push_back(token);
    if (is_mark && mark.ends) {
      documents.push_back(document);
      document.clear();
    }
  }
  if (!document.empty()) documents.push_back(document);
  return documents;
}

Tokens LengthsOf(const MeasuredValues& values) {
  Tokens lengths(values.size());
  values.Read(0, lengths);
  return lengths;
}

TEST_CASE("a token ends documents, or begins them, and what is left is one more",
          "[marked_documents]") {
  const RawFiles files({{1, 9, 9, 2, 3}, {}, {9}, {4, 5}});
  CHECK(LengthsOf(*files.Find({true, 9})) == Tokens{2, 1, 2, 1, 2});
  CHECK(LengthsOf(*files.Find({false, 9})) == Tokens{1, 1, 3, 1, 2});
}

TEST_CASE("a token that no file has is refused", "[marked_documents]") {
  const RawFiles files({{1, 2}});
  const Status none = files.Find({true, 3}).status();
  CHECK(none.code() == StatusCode::kInvalidArgument);
  CHECK_THAT(none.message(), Contains("eos: no file has the token 3: expected one that ends each"));
  CHECK_THAT(files.Find({false, 65537}).status().message(),
             Contains("bos: no file has the token 65537: the largest of uint16 is 65535"));
  CHECK(files.Find({true, 1}, /*stopped=*/true).status().code() == StatusCode::kCancelled);
}

TEST_CASE("documents that a token cuts are those of the definition, wherever pieces end",
          "[marked_documents]") {
  rc::prop("in any files", [] {
    const DType dtype =
        *rc::gen::element(DType::kUint8, DType::kUint16, DType::kInt32, DType::kInt64);
    const DocumentMark mark{*rc::gen::arbitrary<bool>(), 3};
    std::vector<Tokens> files;
    for (int f = 0; f < *rc::gen::inRange(1, 4); ++f) {
      files.push_back(*rc::gen::container<Tokens>(rc::gen::inRange<std::int64_t>(0, 6)));
    }
    files.back().push_back(3);
    const RawFiles raw(files, dtype);
    const auto lengths = raw.Find(mark);
    RC_ASSERT(lengths.ok());
    const auto found = MarkedDocuments::Make(*lengths, raw.layout);
    RC_ASSERT(found.ok());
    std::uint64_t number = 0;
    std::uint64_t longest = 0;
    for (std::size_t f = 0; f < files.size(); ++f) {
      RC_ASSERT((*found)->FirstOf(f) == number);
      std::uint64_t first = 0;
      const Documents expected = Expected(files[f], mark);
      for (std::size_t d = 0; d < expected.size(); ++d, ++number) {
        RC_ASSERT((*found)->FileOf(number) == f);
        const DocumentPlace place = (*found)->Find(number);
        RC_ASSERT(place.data == f);
        RC_ASSERT(place.number == d);
        RC_ASSERT(place.first == first);
        RC_ASSERT(place.tokens == expected[d].size());
        first += place.tokens;
        longest = std::max(longest, place.tokens);
      }
    }
    RC_ASSERT((*found)->size() == number);
    RC_ASSERT((*found)->longest() == longest);
  });
}

TEST_CASE("a file of more tokens than a thread takes at once is cut in the same places",
          "[marked_documents]") {
  constexpr std::size_t kTokens = (std::size_t{1} << 22) + 100;
  Tokens tokens(kTokens, 1);
  for (const std::size_t at : {std::size_t{0}, kTokens - 101, kTokens - 100, kTokens - 1}) {
    tokens[at] = 9;
  }
  const RawFiles files({tokens, {9}}, DType::kUint8);
  CHECK(LengthsOf(*files.Find({true, 9})) ==
        Tokens{1, static_cast<std::int64_t>(kTokens - 101), 1, 99, 1});
  CHECK(LengthsOf(*files.Find({false, 9})) ==
        Tokens{static_cast<std::int64_t>(kTokens - 101), 1, 99, 1, 1});
}

TEST_CASE("lengths that do not fill the files exactly are refused", "[marked_documents]") {
  const RawFiles files({{1, 1, 1}, {}, {1, 1}});
  const auto make = [&](const std::vector<std::uint64_t>& lengths) {
    return MarkedDocuments::Make(MeasuredValues(lengths), files.layout).status().code();
  };
  CHECK(make({3, 2}) == StatusCode::kOk);
  CHECK(make({1, 2, 1, 1}) == StatusCode::kOk);
  CHECK(make({}) == StatusCode::kDataLoss);
  CHECK(make({3}) == StatusCode::kDataLoss);
  CHECK(make({3, 2, 1}) == StatusCode::kDataLoss);
  CHECK(make({4, 1}) == StatusCode::kDataLoss);
  CHECK(make({3, 0, 2}) == StatusCode::kDataLoss);
  CHECK(make({3, MeasuredValues::kNone, 2}) == StatusCode::kDataLoss);
  CHECK(make({~std::uint64_t{0} >> 2, 2}) == StatusCode::kDataLoss);
}

TEST_CASE("the column of lengths goes by dataset, token, its side and the type",
          "[marked_documents]") {
  const Digest128 dataset{1, 2};
  const auto name = [&](const DocumentMark& mark, DType dtype) {
    return MarkedColumn(dataset, mark, dtype).FileName();
  };
  const std::string one = name({true, 3}, DType::kUint16);
  CHECK(name({false, 3}, DType::kUint16) != one);
  CHECK(name({true, 4}, DType::kUint16) != one);
  CHECK(name({true, 3}, DType::kUint32) != one);
  CHECK(MarkedColumn({2, 1}, {true, 3}, DType::kUint16).FileName() != one);
}

}  // namespace
}  // namespace millrace
