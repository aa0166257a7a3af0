#include "common/epoch/cursor.h"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>
#include <catch2/catch.hpp>

#include <string>

namespace millrace {
namespace {

const std::string kFingerprint =
    "0123456789abcdef0123456789abcdef-00000000000000010000000000000002";

std::string ParseError(const std::string& text) { return Cursor::Parse(text).status().ToString(); }

TEST_CASE("a cursor is written as one line without spaces", "[cursor]") {
  const Cursor cursor{
      {{Fingerprint{{0x0123456789abcdefu, 0x0123456789abcdefu}, {1, 2}}, {3, 512}}}};
  CHECK(cursor.ToString() == "v2," + kFingerprint + ":3:512");
}

TEST_CASE("a cursor is read as it was written", "[cursor]") {
  rc::prop("for any number of sources", [] {
    const auto word = [] {
      return *rc::gen::oneOf(rc::gen::arbitrary<std::uint64_t>(),
                             rc::gen::element<std::uint64_t>(0, ~std::uint64_t{0}));
    };
    Cursor cursor;
    const int sources = *rc::gen::inRange(1, 5);
    for (int i = 0; i < sources; ++i) {
      cursor.entries.push_back({{{word(), word()}, {word(), word()}}, {word(), word()}});
    }
    const auto read = Cursor::Parse(cursor.ToString());
    RC_ASSERT(read.ok());
    RC_ASSERT(*read == cursor);
  });
}

TEST_CASE("every change of one character of a cursor is refused or another cursor", "[cursor]") {
  const std::string text = "v2," + kFingerprint + ":3:512," + kFingerprint + ":0:0";
  const Cursor cursor = Cursor::Parse(text).value();
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (const char c : std::string(" \n,:-x0v/\xff")) {
      if (text[i] == c) continue;
      std::string changed = text;
      changed[i] = c;
      const auto read = Cursor::Parse(changed);
      CHECK((!read.ok() || !(*read == cursor)));
    }
  }
}

TEST_CASE("a cursor without its last part is refused", "[cursor]") {
  const std::string text = "v2," + kFingerprint + ":3:512";
  // If the last number is cut, the rest is still a number; but no text before it may be missing.
  for (std::size_t length = 0; length <= text.size() - 3; ++length) {
    CHECK_FALSE(Cursor::Parse(text.substr(0, length)).ok());
  }
}

TEST_CASE("a cursor of one source is a place in its own order only", "[cursor]") {
  const std::string text = "v2," + kFingerprint + ":3:512";
  const Fingerprint order = Fingerprint::FromString(kFingerprint).value();
  CHECK(Cursor::ParseOne(text)->order == order);
  CHECK(*Cursor::PlaceIn(order, text) == Position{3, 512});
  Fingerprint other = order;
  ++other.dataset.low;
  const Status refused = Cursor::PlaceIn(other, text).status();
  CHECK(refused.code() == StatusCode::kFailedPrecondition);
  CHECK_THAT(refused.message(), Catch::Contains("is of another order than " + other.ToString()));
  CHECK(Cursor::PlaceIn(order, "x").status().code() == StatusCode::kInvalidArgument);
}

TEST_CASE("a cursor of two sources is no cursor of one", "[cursor]") {
  const std::string text = "v2," + kFingerprint + ":3:512," + kFingerprint + ":0:0";
  CHECK(Cursor::ParseOne(text).status() == InvalidArgument("a cursor with 2 sources: expected 1"));
}

TEST_CASE("a cursor of another version is refused as such", "[cursor]") {
  CHECK(ParseError("v1," + kFingerprint + ":3:512") ==
        "FAILED_PRECONDITION: cursor has version 1, this program reads version 2: use the release "
        "that wrote it");
}

TEST_CASE("what is no cursor is refused with what was expected", "[cursor]") {
  CHECK(ParseError("") ==
        "INVALID_ARGUMENT: '' is no cursor: expected v2,FINGERPRINT:EPOCH:EXAMPLE");
  CHECK(ParseError("3:512") ==
        "INVALID_ARGUMENT: '3:512' is no cursor: expected v2,FINGERPRINT:EPOCH:EXAMPLE");
  CHECK(ParseError("v2") ==
        "INVALID_ARGUMENT: cursor entry 0: '' does not begin with a fingerprint: expected "
        "v2,FINGERPRINT:EPOCH:EXAMPLE");
  CHECK(ParseError("v2," + kFingerprint + ":3:512,x") ==
        "INVALID_ARGUMENT: cursor entry 1: 'x' does not begin with a fingerprint: expected "
        "v2,FINGERPRINT:EPOCH:EXAMPLE");
  CHECK(ParseError("v2," + kFingerprint + ":-3:512") ==
        "INVALID_ARGUMENT: cursor entry 0: epoch '-3' is no number from 0 to 2^64 - 1: expected "
        "v2,FINGERPRINT:EPOCH:EXAMPLE");
  CHECK(ParseError("v2," + kFingerprint + ":03:512") ==
        "INVALID_ARGUMENT: cursor entry 0: epoch '03' is no number from 0 to 2^64 - 1: expected "
        "v2,FINGERPRINT:EPOCH:EXAMPLE");
  CHECK(ParseError("v2," + kFingerprint + ":3:18446744073709551616") ==
        "INVALID_ARGUMENT: cursor entry 0: example '18446744073709551616' is no number from 0 to "
        "2^64 - 1: expected v2,FINGERPRINT:EPOCH:EXAMPLE");
  CHECK(ParseError("v2," + kFingerprint + ":3:512,") ==
        "INVALID_ARGUMENT: cursor ends with ',' after entry 0: it may be cut off");
}

TEST_CASE("a message shows what is printable of a wrong cursor, and not all of it", "[cursor]") {
  const std::string message = ParseError("a\nb" + std::string(1000, 'c'));
  CHECK(message.find("'a?bccc") != std::string::npos);
  CHECK(message.size() < 200);
}

}  // namespace
}  // namespace millrace
