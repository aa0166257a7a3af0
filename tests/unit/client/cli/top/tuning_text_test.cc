#include <catch2/catch.hpp>

#include <string>
#include <utility>

#include "client/cli/top/status_table.h"
#include "client/cli/top/top_frame.h"
#include "client/cli/top/tuning_text.h"

namespace millrace::cli {
namespace {

v1::TuneDecision* Decide(v1::Tuning& tuning, const std::string& setting, double from, double to,
                         double age) {
  v1::TuneDecision* const decision = tuning.add_decisions();
  decision->set_setting(setting);
  decision->set_from(from);
  decision->set_to(to);
  decision->set_age_seconds(age);
  decision->set_outcome("trying");
  return decision;
}

v1::ServiceStatus AFleet() {
  v1::ServiceStatus status;
  v1::WorkerStatus& worker = *status.add_workers();
  worker.set_name("host7:41");
  v1::TuneSetting& threads = *worker.mutable_tuning()->add_settings();
  threads.set_name("threads");
  threads.set_value(3);
  threads.set_least(1);
  threads.set_most(16);
  v1::TuneDecision& decision = *Decide(*worker.mutable_tuning(), "threads", 16, 3, 90);
  decision.set_rate_before(20);
  decision.set_rate_after(20.04);
  decision.set_outcome("kept");
  v1::ConsumerStatus& consumer = *status.add_consumers();
  consumer.set_job("train");
  consumer.set_rank(2);
  v1::WaitedSeconds& waited = *consumer.add_waited();
  waited.set_cause(v1::WAIT_BUILD);
  waited.set_seconds(1.25);
  v1::TuneSetting& ahead = *consumer.mutable_tuning()->add_settings();
  ahead.set_name("prefetch_bytes");
  ahead.set_value(2e6);
  ahead.set_most(2e6);
  ahead.set_pinned(true);
  Decide(*consumer.mutable_tuning(), "prefetch_bytes", 1e6, 2e6, 5)->set_waited_for("build");
  return status;
}

TEST_CASE("the story of a job has settings, limits, waits and decisions", "[top][tune]") {
  const auto story = TuneStory(AFleet(), "train");
  REQUIRE(story.ok());
  CHECK(*story ==
        "job train\n"
        "  rank 2\n"
        "    waited for: build 1.2 s\n"
        "    prefetch_bytes 2.0 MB, pinned\n"
        "    5 s ago  waited for build: prefetch_bytes 1e+06 -> 2e+06; 0.0 batches/s, 0.0 % "
        "waiting; being tried\n"
        "workers, for all jobs\n"
        "  host7:41\n"
        "    threads 3, from 1 to 16\n"
        "    1 min 30 s ago  nobody waited: threads 16 -> 3; 20.0 batches/s, 0.0 % waiting -> "
        "20.0 batches/s, 0.0 %: kept\n");
}

TEST_CASE("the story of a job that has ended is told from the dispatcher's events", "[top][tune]") {
  v1::ServiceStatus status = AFleet();
  status.clear_consumers();
  status.add_jobs()->set_name("train");
  for (const auto& [kind, job] :
       {std::pair("tuning", "train"), {"tuning", "other"}, {"job_ended", "train"}}) {
    v1::Event& event = *status.add_events();
    event.set_kind(kind);
    event.set_job(job);
    event.set_age_seconds(7);
    event.set_text(std::string(kind) + " of " + job);
  }
  const auto story = TuneStory(status, "train");
  REQUIRE(story.ok());
  CHECK(
      story->starts_with("job train\n"
                         "  nobody reads it now\n"
                         "    7 s ago  tuning of train\n"
                         "workers, for all jobs\n"
                         "  host7:41\n"));
  status.clear_events();
  CHECK_THAT(*TuneStory(status, "train"), Catch::Contains("no decision among the last events"));
}

TEST_CASE("the story of a job that is not known names those that are", "[top][tune]") {
  v1::ServiceStatus status;
  CHECK_THAT(TuneStory(status, "other").status().message(), Catch::Contains("which are none"));
  status.add_jobs()->set_name("train");
  status.add_jobs()->set_name("eval");
  const auto story = TuneStory(status, "other");
  CHECK(story.status().code() == StatusCode::kNotFound);
  CHECK_THAT(story.status().message(),
             Catch::Contains("'other'") && Catch::Contains("which are eval, train"));
}

TEST_CASE("status and top show the last decisions, the newest first", "[top][tune]") {
  const auto events = TuneEvents(AFleet());
  REQUIRE(events.size() == 2);
  CHECK(events[0].who == "rank 2 of train");
  CHECK(events[1].who == "host7:41");
  CHECK(StatusTable(AFleet()).find("tuning, the last decisions") != std::string::npos);
  CHECK(StatusTable({}).find("tuning") == std::string::npos);
  std::string frame;
  for (const TopLine& line : TopFrame(nullptr, AFleet(), {})) frame += line.text + "\n";
  CHECK(frame.find("5 s ago, rank 2 of train: waited for build") != std::string::npos);
}

}  // namespace
}  // namespace millrace::cli
