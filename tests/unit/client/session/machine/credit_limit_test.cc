#include "client/session/machine/credit_limit.h"

#include <catch2/catch.hpp>

namespace millrace::client {
namespace {

constexpr std::uint64_t kEnough = 100'000;

/// Brings the batches of one round trip: as many batches of 1,000 bytes as the limit allows on
/// their way, but at least one.
void PassRoundTrip(CreditLimit& limit) {
  const std::uint64_t batches = std::max<std::uint64_t>(1, limit.bytes() / 1000);
  for (std::uint64_t i = 0; i < batches; ++i) limit.OnBatch(1000, kEnough);
}

TEST_CASE("a worker that was never silent has no credit limit", "[session][credit]") {
  CreditLimit limit;
  limit.OnBatch(1000, kEnough);
  CHECK(limit.bytes() >= kEnough);
}

TEST_CASE("after a silence credit doubles up to half of what was under way, then grows by a batch",
          "[session][credit]") {
  CreditLimit limit;
  limit.OnSilence(16'000);
  CHECK(limit.bytes() == 0);
  for (const std::uint64_t expected : {1000, 2000, 4000, 8000}) {
    PassRoundTrip(limit);
    CHECK(limit.bytes() == expected);
  }
  PassRoundTrip(limit);
  CHECK(limit.bytes() > 8500);
  CHECK(limit.bytes() <= 9010);
}

TEST_CASE("silences with nothing in between are one", "[session][credit]") {
  CreditLimit limit;
  limit.OnSilence(16'000);
  limit.OnSilence(0);
  for (int i = 0; i < 4; ++i) PassRoundTrip(limit);
  CHECK(limit.bytes() == 8000);
  limit.OnSilence(8000);
  for (int i = 0; i < 3; ++i) PassRoundTrip(limit);
  CHECK(limit.bytes() == 4000);
}

TEST_CASE("a credit limit ends where it limits nothing any more", "[session][credit]") {
  CreditLimit limit;
  limit.OnSilence(2 * kEnough);
  for (int i = 0; i < 8; ++i) PassRoundTrip(limit);
  CHECK(limit.bytes() > kEnough);
  limit.OnSilence(0);
  CHECK(limit.bytes() == 0);
}

}  // namespace
}  // namespace millrace::client
