// The sets of workers that WorkerSets keeps are always those that would be made now.
#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include <vector>

#include <rapidcheck/catch.h>

#include "server/dispatcher/machine/worker_choice.h"
#include "tests/unit/server/dispatcher/machine/harness.h"

namespace millrace::test {
namespace {

/// Workers that join, leave, fall silent and change, and the sets of two consumers.
class History {
 public:
  History() {
    plan_ = *CompileFake([] {
      v1::PipelineText text;
      text.set_yaml(Yaml());
      return text;
    }());
    for (const char* host : {"h1", "h2"}) {
      SessionFacts& session = sessions_.emplace_back();
      session.id = {1, 1000 + sessions_.size()};
      session.hello.set_host_id(host);
      session.plan = SessionPlan{plan_, plan_->fingerprint().ToString(), *plan_->Steps(1), {}, {}};
    }
  }

  void Step() {
    const auto which = *rc::gen::inRange(0, 12);
    if (which == 0) {
      const Number id{1, ++last_};
      Apply(WorkerJoined{id, "nonce" + std::to_string(last_)});
      Report(id);
    } else if (which == 1 && !facts_.workers().empty()) {
      Apply(WorkerLeft{AnyWorker()});
    } else if (which == 2 && !facts_.workers().empty()) {
      Apply(WorkerDrained{AnyWorker()});
    } else if (which == 3) {
      Apply(TimeGranted{std::chrono::seconds(*rc::gen::inRange(0, 4))});
    } else if (which == 4) {
      now_ = now_ + std::chrono::milliseconds(*rc::gen::inRange(0, 3500));
    } else if (which == 5 && !facts_.workers().empty()) {
      SessionFacts& session = sessions_[*rc::gen::inRange<std::size_t>(0, 2)];
      session.failing.clear();
      if (*rc::gen::arbitrary<bool>()) session.failing[AnyWorker()] = {now_, 1.0, {}, ""};
    } else if (!facts_.workers().empty()) {
      Report(AnyWorker());
    }
  }

  void Check() {
    for (const SessionFacts& session : sessions_) {
      const WorkerSet expected = MakeWorkerSet(facts_.workers(), session, now_, options_);
      const WorkerSet& kept = sets_.Of(session, facts_.workers(), now_, options_);
      RC_ASSERT(kept.workers == expected.workers);
      RC_ASSERT(kept.own_host == expected.own_host);
    }
  }

 private:
  void Apply(const Update& update) {
    sets_.WillApply(update, facts_.workers(), now_, options_);
    facts_.Apply(update);
  }
  Number AnyWorker() const {
    auto worker = facts_.workers().begin();
    std::advance(worker, *rc::gen::inRange<std::size_t>(0, facts_.workers().size()));
    return worker->first;
  }
  void Report(Number id) {
    v1::WorkRequest report;
    report.mutable_self()->set_address(
        *rc::gen::element<std::string>("h1:7701", "h2:7701", "127.0.0.1:7701"));
    report.mutable_self()->set_host_id(*rc::gen::element<std::string>("h1", "h2", "h3"));
    report.set_draining(*rc::gen::inRange(0, 8) == 0);
    v1::PlanState& plan = *report.add_plans();
    plan.set_fingerprint(plan_->fingerprint().ToString());
    plan.set_phase(*rc::gen::inRange(0, 5) == 0 ? v1::COMPILING : v1::READY);
    Apply(WorkerReported{id, report, 1, now_});
  }

  const DispatcherOptions options_{.max_workers_of_consumer = 3};
  std::shared_ptr<const PlanFacts> plan_;
  DispatcherFacts facts_;
  WorkerSets sets_;
  std::vector<SessionFacts> sessions_;
  Time now_{std::chrono::seconds(1000)};
  std::uint64_t last_ = 0;
};

TEST_CASE("a consumer's workers are the same whether they were kept or chosen now", "[leasing]") {
  rc::prop("whatever workers do", [] {
    History history;
    for (int step = *rc::gen::inRange(1, 120); step > 0; --step) {
      history.Step();
      history.Check();
    }
  });
}

}  // namespace
}  // namespace millrace::test
