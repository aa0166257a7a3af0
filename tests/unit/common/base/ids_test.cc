#include <catch2/catch.hpp>

#include <string>
#include <type_traits>

#include "common/base/ids.h"

namespace millrace {
namespace {

TEST_CASE("digests and fingerprints read what they write and refuse the rest", "[ids]") {
  const Digest128 d{0x0123456789abcdefu, 0xfedcba9876543210u};
  CHECK(d.ToHex() == "0123456789abcdeffedcba9876543210");
  CHECK(Digest128::FromHex(d.ToHex()).value() == d);
  CHECK(Digest128::FromBytes(d.ToBytes()).value() == d);
  CHECK_FALSE(Digest128::FromHex("0123").ok());
  CHECK_FALSE(Digest128::FromHex(std::string(32, 'g')).ok());
  const Fingerprint f{d, {1, 2}};
  CHECK(Fingerprint::FromString(f.ToString()).value() == f);
  CHECK_FALSE(Fingerprint::FromString(d.ToHex()).ok());
}

TEST_CASE("numbers order by term, then by count", "[ids]") {
  CHECK(Number{1, 9} < Number{2, 0});
  CHECK(Number{2, 1} < Number{2, 2});
  CHECK_FALSE(Number{}.is_set());
}

TEST_CASE("ids order and print as their numbers do", "[ids]") {
  CHECK(WorkerId({1, 9}) < WorkerId({2, 0}));
  CHECK(WorkerId({2, 1}) < WorkerId({2, 2}));
  CHECK(WorkerId({2, 1}) == WorkerId(Number{2, 1}));
  CHECK(SessionId({2, 1}).ToString() == Number{2, 1}.ToString());
  CHECK(SessionId({2, 1}).is_set());
  CHECK_FALSE(SessionId{}.is_set());
}

template <class A, class B>
concept Comparable = requires(A a, B b) {
  a == b;
};

static_assert(Comparable<WorkerId, WorkerId>);
static_assert(!Comparable<WorkerId, SessionId> && !Comparable<WorkerId, Number>);
static_assert(!std::is_constructible_v<WorkerId, SessionId>);
static_assert(!std::is_convertible_v<Number, WorkerId> && !std::is_convertible_v<WorkerId, Number>);

}  // namespace
}  // namespace millrace
