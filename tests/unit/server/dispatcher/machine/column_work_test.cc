// Plans that lack columns: workers measure ranges of examples, and the plans wait.
#include <catch2/catch.hpp>

#include <set>
#include <string>
#include <vector>

#include "harness.h"
#include "server/dispatcher/machine/status.h"

namespace millrace::test {
namespace {

using Catch::Contains;
using Firsts = std::vector<std::uint64_t>;

const std::string kMeasures = Yaml("measures=nodes\n");

struct Measuring : Harness {
  StreamId Consumer(char nonce = 'a', const std::string& yaml = kMeasures,
                    const std::string& job = "x") {
    const StreamId stream = Attach(HelloOptions{.job = job, .yaml = yaml, .nonce = nonce});
    talking.push_back(stream);
    return stream;
  }
  Firsts Asked(StreamId worker) const {
    Firsts firsts;
    for (const v1::MeasureTask& task : LastWork(worker).measure()) {
      for (const v1::ExampleRun& run : task.runs()) {
        for (std::uint64_t at = run.first(); at < run.first() + run.count(); at += 256) {
          firsts.push_back(at);
        }
      }
    }
    return firsts;
  }
  /// The keeper has the columns.
  void Finish() {
    REQUIRE(finishes.size() == 1);
    for (const std::string& column : finishes[0].set.columns()) columns.insert(column);
    Do(dispatcher->OnColumnsKept(finishes[0].key, OkStatus(), now));
    finishes.clear();
  }
};

TEST_CASE("a job waits while workers measure a column, and then begins", "[columns]") {
  Measuring h;
  const StreamId one = h.AddWorker("w1", "w", kMeasures);
  const StreamId two = h.AddWorker("w2", "w", kMeasures);
  const StreamId consumer = h.Consumer();
  CHECK(h.Asked(one) == Firsts{0, 256});
  CHECK(h.Asked(two) == Firsts{512, 768});
  h.Advance(seconds(1));
  CHECK(h.WhyOn(consumer) == "measuring column nodes: 0 %, 2 workers");
  CHECK(h.Measure(one) == Firsts{0, 256});
  h.Advance(seconds(1));
  CHECK(h.WhyOn(consumer) == "measuring column nodes: 51 %, 1 worker");
  const v1::ServiceStatus status = BuildStatus(*h.dispatcher, h.options, h.now.time);
  CHECK(status.jobs(0).state() == "waiting");
  CHECK(status.jobs(0).why() == "measuring column nodes: 51 %, 1 worker");
  CHECK(h.Measure(two) == Firsts{512, 768});
  CHECK(h.kept.size() == 4);
  CHECK(h.WelcomeOn(consumer) == nullptr);
  h.Finish();
  CHECK(h.WelcomeOn(consumer) != nullptr);
  h.Advance(seconds(1));
  CHECK(h.Asked(one).empty());
  CHECK(h.dispatcher->facts().columns().empty());
}

TEST_CASE("without a worker the wait names the dataset", "[columns]") {
  Measuring h;
  const StreamId consumer = h.Consumer();
  CHECK(h.WhyOn(consumer) ==
        "measuring column nodes: 0 %, waits for a worker with dataset 'stdlib'");
  const StreamId worker = h.AddWorker("w1", "w", kMeasures);
  CHECK(h.Asked(worker) == Firsts{0, 256});
}

TEST_CASE("only workers with the dataset measure, that do not drain and know how", "[columns]") {
  Measuring h;
  h.Consumer();
  const StreamId other = h.AddWorker("w1", "w", kMeasures);
  const StreamId old = h.AddWorker("w2", "w", kMeasures);
  const StreamId drains = h.AddWorker("w3", "w", kMeasures);
  (*h.workers[other].mutable_datasets())["stdlib"].set_digest(std::string(32, '0'));
  h.workers[old].set_measuring(0);
  h.workers[drains].set_draining(true);
  h.Advance(seconds(2));
  for (const StreamId worker : {other, old, drains}) CHECK(h.Asked(worker).empty());
}

TEST_CASE("the ranges of a lost worker go to another, and what it has measured stays",
          "[columns]") {
  const bool silent = GENERATE(false, true);
  Measuring h;
  h.Consumer();
  const StreamId one = h.AddWorker("w1", "w", kMeasures);
  CHECK(h.Measure(one, 1) == Firsts{0});
  CHECK(h.Asked(one) == Firsts{256, 512});
  if (silent) {
    h.StopWorker(one);
  } else {
    h.Break(one);
  }
  const StreamId two = h.AddWorker("w2", "w", kMeasures);
  h.Advance(seconds(4));
  std::set<std::uint64_t> all;
  while (!h.Asked(two).empty()) {
    for (const std::uint64_t first : h.Measure(two)) CHECK(all.insert(first).second);
  }
  CHECK(all == std::set<std::uint64_t>{256, 512, 768});
  CHECK(h.kept.size() == 4);
  CHECK(h.finishes.size() == 1);
}

TEST_CASE("a range that two workers measured is kept once", "[columns]") {
  Measuring h;
  h.Consumer();
  const StreamId one = h.AddWorker("w1", "w", kMeasures);
  v1::WorkRequest late = h.workers[one];
  h.StopWorker(one);
  h.Advance(seconds(4));
  const StreamId two = h.AddWorker("w2", "w", kMeasures);
  while (!h.Asked(two).empty()) h.Measure(two);
  CHECK(h.kept.size() == 4);
  v1::Measured again = h.kept[0];
  *late.add_measured() = again;
  h.Work(one, late);
  CHECK(h.kept.size() == 4);
  CHECK(h.finishes.size() == 1);
}

TEST_CASE("two jobs that lack one column have it measured once", "[columns]") {
  Measuring h;
  const StreamId worker = h.AddWorker("w1", "w", kMeasures);
  const StreamId a = h.Consumer('a');
  const StreamId b = h.Consumer('b', Yaml("measures=nodes\nkeep=1\n"), "y");
  CHECK(h.dispatcher->facts().columns().size() == 1);
  while (!h.Asked(worker).empty()) h.Measure(worker);
  CHECK(h.kept.size() == 4);
  h.Finish();
  CHECK(h.WelcomeOn(a) != nullptr);
  CHECK(h.WelcomeOn(b) != nullptr);
}

TEST_CASE("what an earlier dispatcher has measured is not measured again", "[columns]") {
  Measuring h;
  h.measured_before = {0, 2};
  const StreamId worker = h.AddWorker("w1", "w", kMeasures);
  const StreamId consumer = h.Consumer();
  CHECK(h.WhyOn(consumer) == "measuring column nodes: 51 %, 1 worker");
  CHECK(h.Measure(worker) == Firsts{256, 768});
  CHECK(h.finishes.size() == 1);
}

TEST_CASE("columns of which all was measured before are finished at once", "[columns]") {
  Measuring h;
  h.measured_before = {0, 1, 2, 3};
  const StreamId consumer = h.Consumer();
  h.Finish();
  CHECK(h.WelcomeOn(consumer) != nullptr);
}

TEST_CASE("a worker gets more at once as it measures faster, and less again", "[columns]") {
  Measuring h;
  h.hold_compiles = true;
  h.Consumer();
  ColumnWant want = Harness::Want("nodes");
  want.set.set_examples(256 * 100);
  const StreamId worker = h.AddWorker("w1", "w", kMeasures);
  h.Do(h.dispatcher->OnColumnsMissing(h.compiles.front().key, want, h.now));
  CHECK(h.Measure(worker).size() == 2);
  CHECK(h.Measure(worker).size() == 4);
  CHECK(h.Measure(worker).size() == 8);
  CHECK(h.Measure(worker, 1).size() == 1);
  CHECK(h.Measure(worker).size() == 15);  // those that it had
  CHECK(h.Asked(worker).size() == 30);
}

TEST_CASE("a worker that cannot measure gets no more, and others do its work", "[columns]") {
  Measuring h;
  const StreamId consumer = h.Consumer();
  const StreamId one = h.AddWorker("w1", "w", kMeasures);
  v1::WorkRequest report = h.workers[one];
  v1::Measured& failed = *report.add_measured();
  *failed.mutable_set() = h.LastWork(one).measure(0).set();
  failed.mutable_run()->set_count(256);
  failed.set_error_code(static_cast<std::uint32_t>(StatusCode::kDataLoss));
  failed.set_error("b.bin is damaged");

  SECTION("for good") {
    h.Work(one, report);
    CHECK(h.Asked(one).empty());
    h.Advance(seconds(5));
    CHECK(h.Asked(one).empty());
    CHECK_THAT(h.WhyOn(consumer), Contains("worker w1 cannot: b.bin is damaged"));
    const StreamId two = h.AddWorker("w2", "w", kMeasures);
    CHECK(h.Asked(two) == Firsts{0, 256});
    h.Advance(seconds(20));
    CHECK(h.IsOpen(consumer));
  }
  SECTION("for good, and no other is left") {
    h.Work(one, report);
    h.Advance(seconds(20));
    CHECK(h.ClosedWith(consumer).code() == StatusCode::kDataLoss);
    CHECK_THAT(h.ClosedWith(consumer).message(),
               Contains("no worker is left that can measure column nodes") &&
                   Contains("worker w1 at w1:7701: b.bin is damaged"));
  }
  SECTION("for the moment") {
    failed.set_error_code(static_cast<std::uint32_t>(StatusCode::kUnavailable));
    h.Work(one, report);
    CHECK(h.Asked(one).empty());
    h.Advance(seconds(3));
    CHECK(h.Asked(one) == Firsts{0, 256});
  }
}

TEST_CASE("values in another form than was asked for are not kept", "[columns]") {
  Measuring h;
  h.Consumer();
  const StreamId worker = h.AddWorker("w1", "w", kMeasures);
  v1::WorkRequest report = h.workers[worker];
  v1::Measured& measured = *report.add_measured();
  *measured.mutable_set() = h.LastWork(worker).measure(0).set();
  measured.mutable_run()->set_count(256);
  measured.add_columns()->set_width(1);
  measured.mutable_columns(0)->set_values(std::string(256, '1'));
  SECTION("another width") { measured.mutable_columns(0)->set_width(2); }
  SECTION("no width") { measured.mutable_columns(0)->set_width(3); }
  SECTION("too large values") {
    measured.mutable_columns(0)->set_width(8);
    measured.mutable_columns(0)->set_values(std::string(256 * 8, '\xff'));
  }
  SECTION("another number of columns") { measured.add_columns()->set_width(1); }
  SECTION("no range") { measured.mutable_run()->set_first(1); }
  SECTION("beyond the end") { measured.mutable_run()->set_first(1024); }
  SECTION("a cut range") { measured.mutable_run()->set_count(255); }
  h.Work(worker, report);
  CHECK(h.kept.empty());
  CHECK(h.Asked(worker).empty());
}

TEST_CASE("values of a feature are kept only in the form of its type", "[columns]") {
  v1::ColumnSet set;
  set.set_examples(300);
  set.add_columns("label");
  set.add_types(1);
  const ColumnFacts columns = {.key = ColumnSetKey(set), .set = set, .ranges = RangeTable(300)};
  v1::Measured measured;
  *measured.mutable_set() = set;
  measured.mutable_run()->set_first(256);
  measured.mutable_run()->set_count(44);
  v1::MeasuredColumn& column = *measured.add_columns();
  column.set_type(1);
  column.set_width(8);
  column.set_values(std::string(44 * 8, '\xff'));
  column.set_present(std::string(5, '\xff') + '\x0f');
  REQUIRE(CheckMeasured(columns, measured).ok());
  const auto refused = [&] { return CheckMeasured(columns, measured).message(); };
  SECTION("another type") {
    column.set_type(2);
    CHECK(refused() == "column label has values of type 2: expected 1");
  }
  SECTION("too few bits") {
    column.set_present(std::string(5, '\xff'));
    CHECK_THAT(refused(), Contains("column label has bits that do not say of each value"));
  }
  SECTION("a bit of no example") {
    column.set_present(std::string(5, '\xff') + '\x1f');
    CHECK_THAT(refused(), Contains("bits that do not say"));
  }
  SECTION("a value without its bit") {
    column.set_present(std::string(5, '\xff') + '\x07');
    CHECK_THAT(refused(), Contains("bits that do not say"));
  }
  SECTION("narrow floats") {
    v1::ColumnSet floats = set;
    floats.set_types(0, 2);
    column.set_type(2);
    const ColumnFacts other = {.key = "k", .set = floats, .ranges = RangeTable(300)};
    CHECK(CheckMeasured(other, measured).message() ==
          "column label has floats of 8 bytes each: expected 4");
  }
}

TEST_CASE("columns that no plan lacks any more are measured no further", "[columns]") {
  Measuring h;
  const StreamId worker = h.AddWorker("w1", "w", kMeasures);
  const StreamId consumer = h.Consumer();
  h.Bye(consumer);
  h.talking.clear();
  h.Advance(std::chrono::minutes(11));
  CHECK(h.abandoned.size() == 1);
  CHECK(h.Asked(worker).empty());
  CHECK(h.dispatcher->facts().columns().empty());
}

TEST_CASE("the log of updates gives the state of measuring again", "[columns][state]") {
  Measuring h;
  h.Consumer();
  const StreamId one = h.AddWorker("w1", "w", kMeasures);
  h.AddWorker("w2", "w", kMeasures);
  h.Measure(one, 1);
  h.Break(one);
  h.Advance(seconds(4));
  DispatcherFacts replayed;
  for (const Update& update : h.updates) replayed.Apply(update);
  CHECK(replayed.Dump() == h.dispatcher->facts().Dump());
  CHECK_THAT(replayed.Dump(), Contains("given to 100."));
}

}  // namespace
}  // namespace millrace::test
