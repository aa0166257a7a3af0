// Whatever workers and reports do, a list has the first usable workers.
#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include <rapidcheck/catch.h>

#include "server/dispatcher/machine/list_order.h"
#include "server/dispatcher/machine/usable_workers.h"
#include "tests/unit/server/dispatcher/machine/harness.h"

namespace millrace::test {
namespace {

/// Workers that join, leave, fall silent and change, and the lists of two consumers.
class History {
 public:
  History() {
    for (const char* host : {"h1", "h2"}) {
      streams_.push_back(
          h_.Attach(HelloOptions{.rank = static_cast<std::uint32_t>(streams_.size()),
                                 .host_id = host,
                                 .nonce = static_cast<char>('a' + streams_.size())}));
    }
    for (char c = 'c'; c < 'i'; ++c) {
      streams_.push_back(h_.Attach(HelloOptions{.job = std::string(1, c), .nonce = c}));
    }
    h_.talking = streams_;
  }

  void Step() {
    const auto which = *rc::gen::inRange(0, 10);
    if (which < 4 || h_.workers.empty()) {
      h_.AddWorker("w" + std::to_string(++last_), *rc::gen::element<std::string>("h1", "h2", "h3"));
    } else if (which == 4) {
      h_.Break(AnyWorker());
    } else if (which == 5) {
      h_.StopWorker(AnyWorker());
    } else if (which == 6) {
      h_.workers[AnyWorker()].mutable_self()->set_address(
          *rc::gen::element<std::string>("h1:7701", "h2:7701", "127.0.0.1:7701"));
    } else if (which == 7) {
      v1::WorkRequest& worker = h_.workers[AnyWorker()];
      worker.set_draining(!worker.draining());
    } else if (which == 8) {
      v1::PlanState& plan = *h_.workers[AnyWorker()].mutable_plans(0);
      plan.set_phase(plan.phase() == v1::READY ? v1::COMPILING : v1::READY);
    } else {
      v1::Report report;
      report.mutable_next();
      report.set_used(*rc::gen::inRange<std::uint32_t>(0, 20));
      if (*rc::gen::arbitrary<bool>()) {
        v1::Failing& failing = *report.add_failing();
        ToProto(h_.dispatcher->facts().workers().begin()->first, failing.mutable_worker());
        failing.set_code(static_cast<std::uint32_t>(StatusCode::kDataLoss));
      }
      const StreamId stream = *rc::gen::elementOf(streams_);
      if (h_.IsOpen(stream)) h_.Report(stream, report);
    }
    h_.Advance(milliseconds(*rc::gen::element(250, 500, 1000, 3000)));
    h_.Advance(milliseconds(500));
  }

  void Check() const {
    const DispatcherFacts& facts = h_.dispatcher->facts();
    for (const auto& [id, session] : facts.sessions()) {
      std::vector<ListPlace> usable;
      std::vector<ListPlace> failing;
      for (const auto& [number, worker] : facts.workers()) {
        if (!IsUsable(worker, session, h_.now.time, h_.options)) continue;
        (FailsForGood(session, number) ? failing : usable).push_back(ListOrder(session).Of(worker));
      }
      if (usable.empty()) usable = failing;
      std::sort(usable.begin(), usable.end());
      const std::size_t size = std::min<std::size_t>(session.list.size.members(), usable.size());
      std::vector<WorkerId> expected;
      for (std::size_t i = 0; i < size; ++i) expected.push_back(usable[i].worker);
      RC_ASSERT(session.list.members == expected);
    }
  }

 private:
  StreamId AnyWorker() const {
    auto worker = h_.workers.begin();
    std::advance(worker, *rc::gen::inRange<std::size_t>(0, h_.workers.size()));
    return worker->first;
  }

  Harness h_;
  std::vector<StreamId> streams_;
  int last_ = 0;
};

TEST_CASE("a list has the first usable workers, whatever came and went", "[list]") {
  rc::prop("whatever workers do", [] {
    History history;
    for (int step = *rc::gen::inRange(1, 60); step > 0; --step) {
      history.Step();
      history.Check();
    }
  });
}

}  // namespace
}  // namespace millrace::test
