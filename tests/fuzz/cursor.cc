// Texts that a checkpoint contains: cursors, fingerprints, digests.
#include "common/base/ids.h"
#include "common/epoch/cursor.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto cursor = Cursor::Parse(text); cursor.ok()) {
    fuzz::Require(!cursor->entries.empty(), "a cursor has an entry");
    fuzz::Require(cursor->ToString() == text, "a cursor has one text: " + text);
  }
  if (const auto fingerprint = Fingerprint::FromString(text); fingerprint.ok()) {
    fuzz::Require(fingerprint->ToString() == text, "a fingerprint has one text: " + text);
  }
  if (const auto digest = Digest128::FromHex(text); digest.ok()) {
    fuzz::Require(digest->ToHex() == text, "a digest has one text: " + text);
  }
  if (const auto digest = Digest128::FromBytes(text); digest.ok()) {
    fuzz::Require(digest->ToBytes() == text, "a digest has one row of bytes");
  }
  return 0;
}

std::vector<std::string> millrace::fuzz::Seeds() {
  const Fingerprint order{{1, ~std::uint64_t{0}}, {0, 77}};
  Cursor cursor;
  cursor.entries = {{order, {0, 0}}};
  std::vector<std::string> seeds = {cursor.ToString(), order.ToString(), order.dataset.ToHex(),
                                    order.dataset.ToBytes()};
  cursor.entries = {{order, {3, 512}}, {order, {~std::uint64_t{0}, ~std::uint64_t{0}}}};
  seeds.push_back(cursor.ToString());
  return seeds;
}
