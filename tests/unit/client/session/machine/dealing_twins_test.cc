// Tests of steps that a worker has for a twin of the session.
#include <catch2/catch.hpp>

#include <numeric>

#include "common/base/hash.h"
#include "tests/unit/client/session/machine/machine.h"

namespace millrace::client {
namespace {

using Steps = std::set<std::uint64_t>;

std::uint64_t RankOf(std::uint64_t step, std::uint64_t worker) {
  const std::string text = "0/" + std::to_string(step) + "/10." + std::to_string(worker);
  return Xxh3_64(std::as_bytes(std::span(text)));
}

TEST_CASE("a step that a worker has for a twin goes there, without a slot", "[dealing][twins]") {
  Machine m(LongEpoch());
  m.Welcome();
  m.List({1, 2});
  m.Say(2, {.slots = 1, .twins = {0, 1, 2, 3, 4}});
  CHECK(m.AskedOf(2).size() >= 5);
  CHECK(m.state->asks().Of(Machine::IdOf(2)).open <= 1);
  for (const std::uint64_t step : {0, 1, 2, 3, 4}) {
    CHECK(m.state->asks().Find(step)->all()[0].shared);
  }
}

TEST_CASE("a step that a twin asks for elsewhere is moved there, by one of the two",
          "[dealing][twins]") {
  // A session that asked worker 1, and a twin that asked worker 2; each hears of the other.
  std::uint64_t moved = 0;
  std::vector<Steps> where(2);
  for (const std::uint64_t own : {1, 2}) {
    const std::uint64_t other = 3 - own;
    Machine m({.epochs = 1});
    m.Welcome();
    m.List({1, 2});
    m.Say(own, {.slots = 10});
    REQUIRE(m.AskedOf(own).size() == 10);
    m.Say(other, {.slots = 10, .twins = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}});
    moved += m.state->stats(m.now).asks_moved;
    where[own - 1] = m.AskedOf(1);
    for (std::uint64_t step = 0; step < 10; ++step) {
      const std::uint64_t best = RankOf(step, 1) > RankOf(step, 2) ? 1 : 2;
      CHECK(m.AskedOf(best).contains(step));
    }
    // A second word changes nothing.
    m.Say(own, {.slots = 10, .twins = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}});
    CHECK(m.AskedOf(1) == where[own - 1]);
  }
  CHECK(moved == 10);
  CHECK(where[0] == where[1]);
}

TEST_CASE("a step that is begun is not moved to a twin's worker", "[dealing][twins]") {
  Machine m({.epochs = 1});
  m.Welcome();
  m.List({1, 2});
  m.Say(1, {.slots = 10});
  std::vector<std::uint64_t> all(10);
  std::iota(all.begin(), all.end(), 0);
  m.Say(1, {.slots = 10, .built = {0, 1, 2, 3, 4}, .building = {5, 6, 7, 8, 9}});
  m.Say(2, {.slots = 10, .twins = all});
  CHECK(m.state->stats(m.now).asks_moved == 0);
}

TEST_CASE("of members that are about as fast, twins take the same one for a step",
          "[dealing][twins]") {
  Machine m(LongEpoch());
  m.Welcome();
  m.List({1, 2, 3});
  m.Say(1, {.slots = 1, .batch_ms = 100, .twins = {1000}});
  m.Say(2, {.slots = 10, .batch_ms = 100});
  m.Say(3, {.slots = 10, .batch_ms = 100});
  std::uint64_t as_ranked = 0;
  for (const std::uint64_t worker : {2, 3}) {
    for (const std::uint64_t step : m.AskedOf(worker)) {
      as_ranked += RankOf(step, worker) > RankOf(step, 5 - worker) ? 1 : 0;
    }
  }
  CHECK(as_ranked >= 10);
}

TEST_CASE("a step takes a slot again if the twin takes its ask back", "[dealing][twins]") {
  Machine m(LongEpoch());
  m.Welcome();
  m.List({1});
  m.Say(1, {.slots = 2, .twins = {0, 1}});
  const std::uint64_t before = m.state->asks().Of(Machine::IdOf(1)).open;
  m.Say(1, {.slots = 2});
  CHECK(m.state->asks().Of(Machine::IdOf(1)).open >= before + 2);
}

}  // namespace
}  // namespace millrace::client
