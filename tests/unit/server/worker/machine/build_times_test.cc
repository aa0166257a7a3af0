#include <catch2/catch.hpp>

#include "server/worker/machine/build_times.h"
#include "server/worker/machine/stream_shares.h"

namespace millrace {
namespace {

TEST_CASE("the time of a batch follows builds slowly", "[build_times]") {
  BuildTime time;
  CHECK(time.seconds() == 0);
  time.Add(1);
  CHECK(time.seconds() == 1);
  time.Add(1.5);
  CHECK(time.seconds() == Approx(1.1));
}

TEST_CASE("one build that is long or short says little, two in a row replace the mean",
          "[build_times]") {
  BuildTime time;
  for (int i = 0; i < 10; ++i) time.Add(1);
  time.Add(10);
  CHECK(time.seconds() == Approx(2.8));
  time.Add(8);  // both are above twice 2.8
  CHECK(time.seconds() == Approx(9));
  time.Add(0.5);
  CHECK(time.seconds() == Approx(0.8 * 9 + 0.1));
  time.Add(0.7);
  CHECK(time.seconds() == Approx(0.6));
  time.Add(10);
  time.Add(0.5);  // one of them is short, and one is long
  CHECK(time.seconds() == Approx(0.8 * (0.8 * 0.6 + 2) + 0.1));
}

TEST_CASE("each plan has a time and a size of its own", "[build_times]") {
  BuildTimes times;
  times.Add("a", 1, 100);
  times.Add("b", 3, 300);
  CHECK(times.Of("a").time.seconds() == 1);
  CHECK(times.Of("b").bytes == 300);
  CHECK(times.Of("c").time.seconds() == 0);
  CHECK(times.all().bytes == Approx(140));
  times.Forget("a");
  CHECK(times.Of("a").bytes == 0);
}

TEST_CASE("a worker has two slots a thread, or what it builds in 0.2 s, as memory allows",
          "[shares]") {
  CHECK(SlotsOfWorker({.threads = 4, .memory_bytes = 1000}) == 8);
  CHECK(SlotsOfWorker({.threads = 4, .batch_seconds = 1, .memory_bytes = 1000}) == 8);
  CHECK(SlotsOfWorker({.threads = 4, .batch_seconds = 0.01, .memory_bytes = 1000}) == 80);
  WorkerCapacity capacity{
      .threads = 4, .batch_seconds = 0.01, .batch_bytes = 100, .memory_bytes = 1099};
  CHECK(SlotsOfWorker(capacity) == 10);
  CHECK(SlotsOfStream(capacity, {.of_worker = 0.2}) == 2);
  CHECK(SlotsOfStream(capacity, {.of_worker = 0.21}) == 3);
  capacity.memory_bytes = 0;
  CHECK(SlotsOfWorker(capacity) == 0);
  CHECK(SlotsOfStream(capacity, {.of_worker = 0.5}) == 1);
  CHECK(ThreadsMilli(2, 0.1) == 200);
}

TEST_CASE("a stream of short batches has slots for its turn between long ones", "[shares]") {
  StreamShares shares;
  shares.Add(1, "short");
  shares.Add(2, "long");
  shares.SetWeight("long", 4);
  shares.SetBatchSeconds("short", 0.05);
  shares.SetBatchSeconds("long", 2);
  const WorkerCapacity capacity{.batch_seconds = 0.05, .memory_bytes = 1000};
  CHECK(SlotsOfStream(capacity, shares.Of(1)) == 4);
  shares.SetAsks(2, true);
  CHECK(shares.Of(1).turn_seconds == Approx(0.5));
  CHECK(SlotsOfStream(capacity, shares.Of(1)) == 11);
  shares.SetAsks(1, true);
  CHECK(SlotsOfStream(capacity, shares.Of(1)) == 11);
  CHECK(shares.Of(2).turn_seconds == Approx(0.2));
  CHECK(SlotsOfStream({.batch_seconds = 2, .memory_bytes = 1000}, shares.Of(2)) == 2);
}

TEST_CASE("a turn that is shorter than a batch needs no slot of its own", "[shares]") {
  StreamShares shares;
  for (const BatchStreamId id : {1, 2, 3}) {
    const std::string job = "job" + std::to_string(id);
    shares.Add(id, job);
    shares.SetBatchSeconds(job, 2);
    shares.SetAsks(id, true);
  }
  CHECK(shares.Of(1).turn_seconds == Approx(1));
  CHECK(SlotsOfStream({.threads = 1, .batch_seconds = 2, .memory_bytes = 1000}, shares.Of(1)) == 1);
}

TEST_CASE("jobs that ask share by priority, and their streams that ask equally", "[shares]") {
  StreamShares shares;
  shares.Add(1, "light");
  shares.Add(2, "heavy");
  shares.Add(3, "heavy");
  shares.SetWeight("heavy", 4);
  CHECK(shares.Of(1).of_worker == 1);  // it would be alone
  CHECK(shares.Of(2).of_worker == 1);
  shares.SetAsks(2, true);
  CHECK(shares.Of(1).of_worker == Approx(0.2));
  CHECK(shares.Of(2).of_worker == 1);
  CHECK(shares.Of(3).of_worker == 0.5);
  shares.SetAsks(1, true);
  shares.SetAsks(3, true);
  CHECK(shares.Of(1).of_worker == Approx(0.2));
  CHECK(shares.Of(2).of_worker == Approx(0.4));
  shares.Remove(2);
  CHECK(shares.Of(3).of_worker == Approx(0.8));
  shares.Remove(3);
  CHECK(shares.Of(1).of_worker == 1);
  shares.Add(4, "heavy");  // its weight went with its last stream
  CHECK(shares.Of(4).of_worker == 0.5);
}

}  // namespace
}  // namespace millrace
