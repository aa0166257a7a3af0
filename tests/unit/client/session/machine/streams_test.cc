// Tests of the streams that a session opens to its workers, and closes.
#include <catch2/catch.hpp>

#include <numeric>

#include "tests/unit/client/session/machine/machine.h"

namespace millrace::client {
namespace {

/// A session whose dispatcher lists so many workers.
class Listed : public Machine {
 public:
  explicit Listed(std::uint64_t workers, const Machine::Options& given = {}) : Machine(given) {
    Welcome();
    std::vector<std::uint64_t> numbers(workers);
    std::iota(numbers.begin(), numbers.end(), 1);
    List(numbers);
  }
  /// The numbers of the workers that have streams.
  std::vector<std::uint64_t> Open() const {
    std::vector<std::uint64_t> open;
    for (const auto& [id, link] : state->workers().all()) {
      if (link.stream.id != 0) open.push_back(id.number().n);
    }
    return open;
  }
};

using Workers = std::vector<std::uint64_t>;

TEST_CASE("8 streams are opened first, and 8 more every 100 ms while a step finds no slot",
          "[session][streams][J5]") {
  Listed m(40);
  CHECK(m.Open() == Workers{1, 2, 3, 4, 5, 6, 7, 8});
  m.PassAttached(90 * kMs);
  CHECK(m.Open().size() == 8);
  m.PassAttached(10 * kMs);
  CHECK(m.Open().size() == 16);
  m.PassAttached(300 * kMs);
  CHECK(m.Open().size() == 40);
}

TEST_CASE("streams that suffice are not joined by more", "[session][streams]") {
  Listed m(40, {.epochs = 1});  // 10 steps
  for (std::uint64_t worker = 1; worker <= 8; ++worker) m.Say(worker, {.slots = 2});
  REQUIRE_FALSE(m.state->wants_more());
  m.PassAttached(5 * kSecond);
  CHECK(m.Open().size() == 8);
}

TEST_CASE("a stream that is not used for 10 s is closed, and opened again once it is needed",
          "[session][streams]") {
  Listed m(2, {.steps = {.examples = 30, .size = 5, .world_size = 2}, .epochs = 1});  // 3 steps
  m.Say(1, {.slots = 3});
  m.Say(2, {.slots = 3});
  REQUIRE(m.AskedOf(1).size() == 3);
  m.Say(1, {.slots = 3, .built = {0, 1, 2}});
  m.PassAttached(9 * kSecond);
  CHECK(m.Take<CloseStream>().empty());
  m.PassAttached(1600 * kMs);
  const auto closed = m.Take<CloseStream>();
  REQUIRE(closed.size() == 1);
  CHECK(closed[0].why.ok());
  CHECK(m.Open() == Workers{1});
  m.Silence(2);
  m.PassAttached(30 * kSecond);
  CHECK(m.Open() == Workers{1});
  m.Break(1);
  m.PassAttached(100 * kMs);
  CHECK(m.Open() == Workers{2});
}

TEST_CASE("a worker that is no member any more sends what it owes, and its stream is closed",
          "[session][streams]") {
  Listed m(1, {.steps = {.examples = 30, .size = 5, .world_size = 2}, .epochs = 1});
  const StreamId stream = m.StreamTo(1);
  m.Say(1, {.slots = 3});
  m.List({});
  CHECK(m.AskedOf(1).size() == 3);
  for (std::uint64_t step = 0; step < 3; ++step) CHECK(m.Arrive(stream, step) == Verdict::kTaken);
  m.PassAttached(11 * kSecond);
  CHECK(m.Take<CloseStream>().size() == 1);
  CHECK(m.Open().empty());
}

TEST_CASE("a stream that breaks is opened anew after 0.5, 1, 2, 4, 5 and 5 s",
          "[session][streams]") {
  Listed m(1);
  std::vector<double> pauses;
  for (int i = 0; i < 6; ++i) {
    m.Break(1);
    const Time broke = m.now;
    while (m.StreamTo(1) == 0) m.Pass(10 * kMs);
    pauses.push_back(ToSeconds(m.now - broke));
  }
  const std::vector<double> expected{0.5, 1, 2, 4, 5, 5};
  for (std::size_t i = 0; i < pauses.size(); ++i) {
    CHECK(pauses[i] == Approx(expected[i]).margin(0.011));
  }
}

TEST_CASE("members up to the last one that is asked are reported as used", "[session][streams]") {
  Listed m(8, {.epochs = 1});
  CHECK(m.PassAttached(kSecond).used() == 0);
  for (std::uint64_t worker = 1; worker <= 3; ++worker) m.Say(worker, {.slots = 4});
  CHECK(m.PassAttached(kSecond).used() == 3);
}

}  // namespace
}  // namespace millrace::client
