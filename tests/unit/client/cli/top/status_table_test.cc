// Tests of the table that `millrace status` prints.
#include "client/cli/top/status_table.h"

#include "client/cli/text_table.h"

#include <catch2/catch.hpp>

#include <ctime>
#include <string>

namespace millrace::cli {
namespace {

using Catch::Contains;

TEST_CASE("a period is told by its two largest units", "[status_table]") {
  CHECK(Period(-1) == "0 s");
  CHECK(Period(59.9) == "59 s");
  CHECK(Period(60) == "1 min 0 s");
  CHECK(Period(7384) == "2 h 3 min");
}

TEST_CASE("status lists what a dataset leaves out, and counts what it does not list",
          "[status_table]") {
  v1::ServiceStatus status;
  v1::DatasetState& good = (*status.mutable_datasets())["good"];
  good.set_digest(std::string(32, 'a'));
  v1::DatasetState& rest = (*status.mutable_datasets())["rest"];
  rest.set_digest(std::string(32, 'b'));
  rest.set_left_out_files(102);
  for (int i = 0; i < 100; ++i) {
    v1::LeftOutFile& file = *rest.add_left_out();
    file.set_name("f" + std::to_string(i) + ".bin");
    file.set_reason("is empty");
  }
  const std::string table = StatusTable(status);
  CHECK_THAT(table, Contains("ready, 102 files left out"));
  CHECK_THAT(table, Contains("files left out\n"));
  CHECK_THAT(table, Contains("f99.bin") && Contains("is empty") && Contains("and 2 more"));
  rest.Clear();
  CHECK_THAT(StatusTable(status), !Contains("left out"));
}

TEST_CASE("status says how much of a dataset's contents is unverified, until all of it is",
          "[status_table]") {
  v1::ServiceStatus status;
  v1::DatasetState& dataset = (*status.mutable_datasets())["g"];
  dataset.set_digest(std::string(32, 'a'));
  dataset.set_unverified(0.001);
  CHECK_THAT(StatusTable(status), Contains("ready, 1 % unverified"));
  dataset.set_unverified(0);
  CHECK_THAT(StatusTable(status), !Contains("unverified"));
}

TEST_CASE("status shows no figures of a worker that it may not tell about", "[status_table]") {
  v1::ServiceStatus status;
  v1::WorkerStatus& worker = *status.add_workers();
  worker.set_state("ready");
  worker.set_threads(4);
  const std::string table = StatusTable(status);
  CHECK_THAT(table, Contains("-       -        ready  4        -"));
  CHECK_THAT(table, !Contains("0.00 s") && !Contains("0.0 MB"));
}

TEST_CASE("status says how consumers use their lists, and why workers idle", "[status_table]") {
  v1::ServiceStatus status;
  v1::WorkerStatus& worker = *status.add_workers();
  worker.set_name("w1");
  worker.set_state("ready");
  worker.set_threads(4);
  worker.set_slots(12);
  worker.set_idle("list full");
  v1::ConsumerStatus& consumer = *status.add_consumers();
  consumer.set_job("train");
  consumer.set_list(16);
  consumer.set_list_used(5);
  consumer.set_asked(40);
  consumer.set_built(7);
  consumer.set_due_seconds(1.25);
  const std::string table = StatusTable(status);
  CHECK_THAT(table, Catch::Matches("(.|\n)*THREADS +SLOTS +IDLE +QUEUE(.|\n)*"));
  CHECK_THAT(table, Catch::Matches("(.|\n)*ready +4 +12 +list full +0.00 s(.|\n)*"));
  CHECK_THAT(table, Catch::Matches("(.|\n)*LIST +ASKED +BUILT +DUE +WAITED(.|\n)*"));
  CHECK_THAT(table, Catch::Matches("(.|\n)* 5/16 +40 +7 +1.2 s +0.0 s(.|\n)*"));
  worker.clear_idle();
  consumer.set_due_seconds(0);
  CHECK_THAT(StatusTable(status), Catch::Matches("(.|\n)*ready +4 +12 +- +0.00 s(.|\n)*"));
  CHECK_THAT(StatusTable(status), Catch::Matches("(.|\n)* 5/16 +40 +7 +- +0.0 s(.|\n)*"));
}

TEST_CASE("status says until when certificates hold, and what ports refused", "[status_table]") {
  v1::ServiceStatus status;
  status.mutable_security();
  CHECK_THAT(StatusTable(status), !Contains("ports\n"));
  v1::WorkerStatus& worker = *status.add_workers();
  worker.set_name("w1");
  worker.mutable_security()->set_tls(true);
  worker.mutable_security()->set_certificate_ends_unix_seconds(std::time(nullptr) +
                                                               86'400 * 21 / 2);
  (*worker.mutable_security()->mutable_refused_connections())["silent"] = 3;
  (*worker.mutable_security()->mutable_refused_calls())["unauthenticated"] = 2;
  CHECK_THAT(StatusTable(status), Contains("batches of w1") && Contains("until 2") &&
                                      Contains(", 10 days") && Contains("3 silent") &&
                                      Contains("2 unauthenticated"));
  worker.mutable_security()->set_certificate_ends_unix_seconds(1'600'000'000);
  CHECK_THAT(StatusTable(status), Contains("ended 2020-09-13"));
}

TEST_CASE("status says how much of a dataset is in memory", "[status_table]") {
  v1::ServiceStatus status;
  v1::DatasetState& dataset = (*status.mutable_datasets())["g"];
  dataset.set_digest(std::string(32, 'a'));
  CHECK_THAT(StatusTable(status), !Contains("in memory"));
  dataset.set_in_memory_bytes(5'888'000'904);
  CHECK_THAT(StatusTable(status), Contains("ready, 5.9 GB in memory"));
}

TEST_CASE("status shows the kind of each dataset, once it is known", "[status_table]") {
  v1::ServiceStatus status;
  (*status.mutable_datasets())["a"].set_kind("coq");
  static_cast<void>((*status.mutable_datasets())["b"]);
  const std::string table = StatusTable(status);
  CHECK_THAT(table,
             Contains("DATASET  KIND") && Contains("a        coq") && Contains("b        -"));
}

TEST_CASE("status says what workers keep of examples, once a pipeline has a cache",
          "[status_table]") {
  v1::ServiceStatus status;
  v1::WorkerStatus& worker = *status.add_workers();
  worker.set_name("alpha");
  v1::CacheUse& cache = *worker.mutable_cache();
  cache.set_memory_limit_bytes(64'000'000);
  CHECK_THAT(StatusTable(status), !Contains("caches of examples"));
  cache.set_memory_hits(812);
  cache.set_builds(40);
  cache.set_memory_bytes(1'200'000);
  cache.set_memory_evictions(3);
  CHECK_THAT(StatusTable(status),
             Contains("caches of examples") &&
                 Contains("alpha   memory  812   40      1.2 MB of 64.0 MB  3          -") &&
                 !Contains("disk"));
  cache.set_disk_hits(7);
  cache.set_disk_bytes(5'000'000);
  cache.set_disk_limit_bytes(9'000'000);
  cache.set_disk_evictions(2);
  cache.set_disk_failures(1);
  CHECK_THAT(StatusTable(status),
             Contains("alpha   disk    7     -       5.0 MB of 9.0 MB   2          1"));
}

TEST_CASE("status has a row for each process of a plugin, and no table without plugins",
          "[status_table]") {
  v1::ServiceStatus status;
  v1::WorkerStatus& worker = *status.add_workers();
  worker.set_name("alpha");
  CHECK_THAT(StatusTable(status), !Contains("processes of plugins"));
  v1::PluginUse& use = *worker.add_plugins();
  use.set_object("speech:Corpus");
  v1::PluginProcess& process = *use.add_processes();
  process.set_process(4711);
  process.set_restarts(2);
  process.set_memory_bytes(120'000'000);
  process.set_busy_seconds(3.25);
  process.set_examples(500);
  process.set_dropped(6);
  process.set_failed(7);
  use.add_processes();
  CHECK_THAT(
      StatusTable(status),
      Contains("processes of plugins\n"
               "  WORKER  PLUGIN         NUMBER  PROCESS  RESTARTS  MEMORY    BUSY   EXAMPLES  "
               "DROPPED  FAILED\n"
               "  alpha   speech:Corpus  0       4711     2         120.0 MB  3.2 s  500       "
               "6        7\n"
               "  alpha   speech:Corpus  1       -        0         0.0 MB    0.0 s  0         "
               "0        0\n"));
}

TEST_CASE("status names what was dropped as the dispatcher does, or by its number",
          "[status_table]") {
  v1::ServiceStatus status;
  v1::JobStatus& job = *status.add_jobs();
  const auto add = [&](int reason, const char* name) {
    v1::DroppedCount& count = *job.add_dropped();
    count.set_reason(static_cast<v1::DropReason>(reason));
    count.set_examples(3);
    count.set_name(name);
  };
  add(v1::TOO_LARGE, "");  // from a dispatcher that sends no names
  add(17, "too_old");
  add(18, "");
  CHECK_THAT(JobsTable(status), Contains("3 too_large, 3 too_old, 3 reason 18"));
}

TEST_CASE("status shows tokens and lost pieces only if a job has any", "[status_table]") {
  v1::ServiceStatus status;
  v1::JobStatus& plain = *status.add_jobs();
  plain.set_name("plain");
  CHECK_THAT(JobsTable(status), !Contains("TOKENS") && !Contains("LOST PIECES"));
  v1::JobStatus& text = *status.add_jobs();
  text.set_name("text");
  text.set_tokens(1'000'000);
  text.set_tokens_per_second(81'920.4);
  CHECK_THAT(JobsTable(status), Contains("EXAMPLES/S  TOKENS/S  MB/S") && Contains("  81920  ") &&
                                    !Contains("LOST PIECES"));
  v1::LostPieces& lost = *text.add_pieces_lost();
  lost.set_reason(v1::EXCLUDED);
  lost.set_pieces(3);
  v1::LostPieces& other = *text.add_pieces_lost();
  other.set_reason(static_cast<v1::DropReason>(17));
  other.set_name("torn");
  other.set_pieces(12);
  CHECK_THAT(JobsTable(status),
             Contains("DROPPED  LOST PIECES  ") && Contains("0        3 excluded, 12 torn"));
}

TEST_CASE("status shows how many workers each job needs, with the arithmetic", "[status_table]") {
  v1::ServiceStatus status;
  v1::JobStatus& job = *status.add_jobs();
  job.set_name("train");
  status.mutable_desired_workers()->set_workers(1);
  CHECK_THAT(StatusTable(status), !Contains("desired workers"));
  v1::DesiredWorkers& desired = *job.mutable_desired_workers();
  desired.set_workers(6);
  desired.set_present(4);
  desired.set_arithmetic("1 batches/s x 1.2 / 0.2 a worker = 6: 6 workers; 4 are there");
  *status.mutable_desired_workers() = desired;
  for (const std::string& table : {StatusTable(status), JobsTable(status)}) {
    CHECK_THAT(table, Contains("desired workers\n  JOB         WORKERS  ARITHMETIC\n"
                               "  train       4/6      " +
                               desired.arithmetic() + "\n  (all jobs)  4/6      " +
                               desired.arithmetic() + "\n"));
  }
}

TEST_CASE("the state of a job that ended is how it ended", "[status_table]") {
  v1::JobStatus job;
  job.set_state("live");
  CHECK(JobStateText(job) == "live");
  job.set_state("ended");
  CHECK(JobStateText(job) == "ended");  // as an older dispatcher says
  job.set_outcome("completed");
  CHECK(JobStateText(job) == "completed");
  job.set_outcome("stopped");
  job.set_ended_by("olga");
  CHECK(JobStateText(job) == "ended by olga");
}

TEST_CASE("a job that ended with an epoch shows that epoch", "[status_table]") {
  v1::ServiceStatus status;
  v1::JobStatus& job = *status.add_jobs();
  job.set_name("train");
  job.set_state("ended");
  job.set_outcome("completed");
  job.mutable_next()->set_epoch(3);
  job.set_step(25);
  job.set_steps_per_epoch(25);
  job.set_progress(1);
  CHECK(EpochOf(job) == 2);
  CHECK_THAT(JobsTable(status), Contains("2      25/25  100.0 %"));
  job.set_progress(0.5);
  CHECK(EpochOf(job) == 3);
}

TEST_CASE("status shows how far each branch of a mix is read, and no table without mixes",
          "[status_table]") {
  v1::ServiceStatus status;
  v1::JobStatus& job = *status.add_jobs();
  job.set_name("both");
  CHECK_THAT(StatusTable(status), !Contains("branches"));
  v1::BranchStatus& branch = *job.add_branches();
  branch.set_name("words");
  branch.set_dataset("text");
  branch.set_examples(4900);
  branch.set_passes(5.25);
  for (const std::string& table : {StatusTable(status), JobsTable(status)}) {
    CHECK_THAT(table, Contains("branches\n  JOB   BRANCH  DATASET  EXAMPLES  PASSES\n"
                               "  both  words   text     4900      5.250\n"));
  }
}

TEST_CASE("status shows the last ten events, the newest first", "[status_table]") {
  v1::ServiceStatus status;
  CHECK_THAT(StatusTable(status), !Contains("events"));
  for (int i = 0; i < 12; ++i) {
    v1::Event& event = *status.add_events();
    event.set_age_seconds(100 - i);
    event.set_text("Event " + std::to_string(i) + "\x1B.");
  }
  const std::string table = StatusTable(status);
  CHECK_THAT(table, Contains("events, the last ones\n"
                             "  AGO         EVENT\n"
                             "  1 min 29 s  Event 11?.\n"
                             "  1 min 30 s  Event 10?.\n"));
  CHECK_THAT(table, Contains("Event 2?.") && !Contains("Event 1?."));
}

TEST_CASE("the details of a status are what consumers grant and which workers they avoid",
          "[status_table]") {
  v1::ServiceStatus status;
  v1::WorkerStatus& worker = *status.add_workers();
  worker.set_name("builder-7");
  worker.mutable_id()->set_n(7);
  v1::ConsumerStatus& consumer = *status.add_consumers();
  consumer.set_job("train");
  consumer.set_rank(3);
  consumer.mutable_grants()->set_window(41);
  consumer.mutable_grants()->set_credit_bytes(7'300'000);
  const auto avoid = [&](std::uint64_t n, std::uint32_t code, const char* why) {
    v1::Failing& failing = *consumer.add_failing();
    failing.mutable_worker()->set_n(n);
    failing.set_remaining_seconds(2.5);
    failing.set_code(code);
    failing.set_reason(why);
  };
  avoid(7, 0, "connection refused");
  avoid(8, 15, "b.bin is damaged");
  status.add_consumers()->set_job("of an older version");
  const std::string table = DetailedStatusTable(status);
  CHECK_THAT(table, Catch::Matches("(.|\n)*train +3 +41 +7.3 MB *\n(.|\n)*"));
  CHECK_THAT(table, Catch::Matches("(.|\n)*of an older version +0 +- +-(.|\n)*"));
  CHECK_THAT(table, Catch::Matches("(.|\n)*builder-7 +2.5 s +connection refused(.|\n)*"));
  CHECK_THAT(table, Catch::Matches("(.|\n)*0\\.8 +refused steps +b.bin is damaged(.|\n)*"));
  CHECK_THAT(StatusTable(status), !Contains("what consumers grant"));
}

}  // namespace
}  // namespace millrace::cli
