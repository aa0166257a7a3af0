#include <catch2/catch.hpp>

#include <map>
#include <vector>

#include "server/dispatcher/machine/heartbeat_round.h"
#include "tests/unit/server/dispatcher/machine/harness.h"

namespace millrace::test {
namespace {

using Streams = std::vector<StreamId>;

std::map<StreamId, StreamFacts> Open(StreamId from, StreamId to) {
  std::map<StreamId, StreamFacts> streams;
  for (StreamId id = from; id <= to; ++id) streams[id];
  return streams;
}

constexpr Time kBegan{seconds(1000)};

TEST_CASE("each stream has one turn in a round, and the turns are spread over it", "[heartbeats]") {
  const auto streams = Open(1, 4);
  HeartbeatRound round(kBegan, seconds(1));
  for (int i = 0; i < 2; ++i) {
    const Time began = kBegan + seconds(i);
    CHECK(round.Take(streams, began).empty());
    CHECK(round.Take(streams, began + milliseconds(250)) == Streams{1});
    CHECK(round.Take(streams, began + milliseconds(300)).empty());
    CHECK(round.Take(streams, began + milliseconds(750)) == Streams{2, 3});
    CHECK_FALSE(round.Ends(began + milliseconds(999)));
    REQUIRE(round.Ends(began + seconds(1)));
    CHECK(round.Take(streams, began + seconds(1)) == Streams{4});
  }
}

TEST_CASE("a stream that opens during a round has its turn in it", "[heartbeats]") {
  HeartbeatRound round(kBegan, seconds(1));
  CHECK(round.Take(Open(1, 4), kBegan + milliseconds(750)) == Streams{1, 2, 3});
  CHECK(round.Take(Open(1, 6), kBegan + seconds(1)) == Streams{4, 5, 6});
}

TEST_CASE("if streams close during a round, all others still have their turn in it",
          "[heartbeats]") {
  HeartbeatRound round(kBegan, seconds(1));
  CHECK(round.Take(Open(1, 4), kBegan + milliseconds(500)) == Streams{1, 2});
  CHECK(round.Take(Open(3, 4), kBegan + seconds(1)) == Streams{3, 4});
}

TEST_CASE("a late look takes all that are left of a round, and the next begins then",
          "[heartbeats]") {
  const auto streams = Open(1, 4);
  HeartbeatRound round(kBegan, seconds(1));
  CHECK(round.Take(streams, kBegan + seconds(9)) == Streams{1, 2, 3, 4});
  CHECK(round.Take(streams, kBegan + seconds(9)).empty());
  CHECK(round.Take(streams, kBegan + milliseconds(9250)) == Streams{1});
}

TEST_CASE("heartbeats of many peers do not go out in one event", "[heartbeats]") {
  Harness h;
  for (int i = 0; i < 20; ++i) h.AddWorker("w" + std::to_string(i));
  for (std::uint32_t rank = 0; rank < 20; ++rank) {
    h.Attach({.rank = rank, .world_size = 20, .nonce = static_cast<char>('a' + rank)});
  }
  h.Do(h.dispatcher->OnTick(h.now));
  std::map<StreamId, int> heartbeats;
  for (int tick = 0; tick < 20; ++tick) {
    h.now.time = h.now.time + h.options.tick;
    int of_tick = 0;
    for (const Action& action : h.dispatcher->OnTick(h.now)) {
      const auto* attach = std::get_if<SendAttach>(&action);
      const auto* work = std::get_if<SendWork>(&action);
      if (attach == nullptr && work == nullptr) continue;
      ++heartbeats[attach != nullptr ? attach->stream : work->stream];
      ++of_tick;
    }
    CHECK(of_tick == 2);
  }
  CHECK(heartbeats.size() == 40);
}

}  // namespace
}  // namespace millrace::test
