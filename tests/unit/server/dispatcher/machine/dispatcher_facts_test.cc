// The facts follow from the updates alone, and their size is bounded.
#include <catch2/catch.hpp>

#include "harness.h"

namespace millrace::test {
namespace {

using Catch::Contains;

TEST_CASE("applying the log of updates gives the state again", "[state]") {
  Harness h;
  const StreamId worker = h.AddWorker("w1");
  const StreamId a = h.Attach(HelloOptions{.rank = 0, .nonce = 'a'});
  const StreamId b = h.Attach(HelloOptions{.rank = 1, .nonce = 'b'});
  h.Attach(HelloOptions{.world_size = 4, .nonce = 'c'});
  h.talking = {a};
  h.ReportAt(a, {0, 0});
  h.ReportAt(b, {0, 0});
  v1::Report asking;
  asking.mutable_next();
  asking.set_asks(true);
  asking.set_used(12);
  asking.mutable_now()->set_cause(v1::WAIT_LEASE);
  h.Report(a, asking);
  h.Break(worker);
  h.Pause(seconds(20));
  h.AddWorker("w2");
  h.Advance(seconds(12));
  h.store_error = Internal("no");
  h.Attach(HelloOptions{.job = "y", .nonce = 'd'});
  DispatcherFacts replayed;
  for (const Update& update : h.updates) replayed.Apply(update);
  CHECK(replayed.Dump() == h.dispatcher->facts().Dump());
  CHECK_THAT(replayed.Dump(), Contains("list 3 size 12"));
}

TEST_CASE("only the newest ended records stay in memory", "[state]") {
  DispatcherOptions options;
  options.max_records = 3;
  Harness h(options);
  for (char c = 'a'; c <= 'h'; ++c) {
    ++h.now.unix_seconds;
    h.Bye(h.Attach(HelloOptions{.job = std::string(1, c), .nonce = c}));
  }
  CHECK(h.dispatcher->facts().records().size() == 3);
  CHECK(h.dispatcher->facts().records().contains("h"));
}

}  // namespace
}  // namespace millrace::test
