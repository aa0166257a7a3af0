#include "client/cli/top/top_frame.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <catch2/catch.hpp>

#include "client/cli/text_table.h"

namespace millrace::cli {
namespace {

v1::WorkerStatus& AddWorker(v1::ServiceStatus& status, std::uint64_t n, const std::string& name) {
  v1::WorkerStatus& worker = *status.add_workers();
  worker.mutable_id()->set_term(7);
  worker.mutable_id()->set_n(n);
  worker.set_name(name);
  worker.set_address(fmt::format("10.0.0.{}:7701", n));
  worker.set_state("ready");
  worker.set_counted_seconds(status.uptime_seconds());
  return worker;
}

v1::ConsumerStatus& AddConsumer(v1::ServiceStatus& status, std::uint64_t n, const std::string& job,
                                std::uint32_t rank) {
  v1::ConsumerStatus& consumer = *status.add_consumers();
  consumer.mutable_session()->set_term(7);
  consumer.mutable_session()->set_n(n);
  consumer.set_job(job);
  consumer.set_rank(rank);
  consumer.set_state("live");
  consumer.set_counted_seconds(status.uptime_seconds());
  return consumer;
}

v1::JobStatus& AddJob(v1::ServiceStatus& status, const std::string& name) {
  v1::JobStatus& job = *status.add_jobs();
  job.set_name(name);
  job.set_state("live");
  return job;
}

v1::ServiceStatus At(double uptime) {
  v1::ServiceStatus status;
  status.set_version("0");
  status.set_address("here:1");
  status.set_term(7);
  status.set_uptime_seconds(uptime);
  return status;
}

void WaitFor(v1::ConsumerStatus& consumer, v1::WaitCause cause, std::uint64_t worker,
             double seconds, const std::string& stage = {}) {
  consumer.mutable_now()->set_cause(cause);
  consumer.mutable_now()->set_since_seconds(seconds);
  consumer.mutable_now()->set_stage(stage);
  if (worker == 0) return;
  consumer.mutable_now()->mutable_worker()->set_term(7);
  consumer.mutable_now()->mutable_worker()->set_n(worker);
}

/// The cells of the first line that begins with the cells of `first`. Two or more blanks separate
/// cells.
std::vector<std::string> Row(const std::vector<TopLine>& frame, const std::string& first) {
  for (const TopLine& line : frame) {
    std::vector<std::string> cells;
    for (std::size_t at = 0; at < line.text.size();) {
      const std::size_t end = std::min(line.text.find("  ", at), line.text.size());
      cells.push_back(line.text.substr(at, end - at));
      at = std::min(line.text.find_first_not_of(' ', end), line.text.size());
    }
    if (fmt::format("{}", fmt::join(cells, "  ")).rfind(first, 0) == 0) return cells;
  }
  return {};
}

std::string Cell(const std::vector<TopLine>& frame, const std::string& list, const std::string& row,
                 const std::string& column) {
  const auto heading = Row(frame, list);
  const auto cells = Row(frame, row);
  for (std::size_t i = 0; i < heading.size(); ++i) {
    if (heading[i] == column) return i < cells.size() ? cells[i] : "";
  }
  return "no column " + column;
}

std::size_t CountOf(const std::vector<TopLine>& frame, const std::string& text) {
  std::size_t count = 0;
  for (const TopLine& line : frame) count += line.text.find(text) != std::string::npos ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("rates are differences of counters over the time between the reports they came in",
          "[top]") {
  v1::ServiceStatus before = At(100);
  v1::WorkerStatus& w1 = AddWorker(before, 1, "alpha");
  w1.set_sent_batches(1000);
  w1.set_shared_batches(100);
  w1.set_sent_bytes(50'000'000);
  w1.set_send_blocked_seconds(1);
  w1.mutable_cache()->set_memory_hits(1000);
  w1.mutable_cache()->set_builds(500);
  w1.set_counted_seconds(99.5);
  auto* closure = w1.add_build();
  closure->set_stage("closure");
  closure->set_seconds(10);
  v1::ConsumerStatus& c1 = AddConsumer(before, 2, "train", 0);
  c1.mutable_counters()->set_batches(10);
  c1.mutable_counters()->set_examples(100);
  c1.set_waited_seconds(3);

  v1::ServiceStatus now = At(102);
  v1::WorkerStatus& w2 = AddWorker(now, 1, "alpha");
  w2.set_sent_batches(1300);
  w2.set_shared_batches(175);
  w2.set_sent_bytes(65'000'000);
  w2.set_send_blocked_seconds(1.75);
  w2.mutable_cache()->set_memory_hits(1500);
  w2.mutable_cache()->set_disk_hits(250);
  w2.mutable_cache()->set_builds(750);
  w2.mutable_cache()->set_memory_bytes(12'300'000);
  w2.mutable_cache()->set_disk_bytes(45'600'000);
  w2.mutable_cache()->set_disk_limit_bytes(100'000'000);
  w2.set_counted_seconds(101);  // 1.5 s after the one before
  closure = w2.add_build();
  closure->set_stage("closure");
  closure->set_seconds(10.6);
  v1::ConsumerStatus& c2 = AddConsumer(now, 2, "train", 0);
  c2.mutable_counters()->set_batches(30);
  c2.mutable_counters()->set_examples(20'100);
  c2.set_waited_seconds(3.5);
  c2.set_list(16);
  c2.set_list_used(5);
  c2.set_asked(40);
  c2.set_built(7);
  c2.set_due_seconds(1.5);
  w2.set_slots(12);
  w2.set_idle("list full");
  AddJob(now, "train").set_world_size(1);

  const auto frame = TopFrame(&before, now, {});
  CHECK(Cell(frame, "WORKER", "alpha", "BATCHES/S") == "200.0");
  CHECK(Cell(frame, "WORKER", "alpha", "SHARED") == "25 %");
  CHECK(Cell(frame, "WORKER", "alpha", "MB/S") == "10.0");
  CHECK(Cell(frame, "WORKER", "alpha", "CACHED") == "75 %");
  CHECK(Cell(frame, "WORKER", "alpha", "CACHE MB") == "12.3+45.6");
  CHECK(Cell(frame, "WORKER", "alpha", "BLOCKED") == "50 %");
  CHECK(Cell(frame, "WORKER", "alpha", "BUILD (S/S)") == "closure 0.40");
  CHECK(Cell(frame, "WORKER", "alpha", "HOST") == "10.0.0.1");
  CHECK(Cell(frame, "WORKER", "alpha", "SLOTS") == "12");
  CHECK(Cell(frame, "WORKER", "alpha", "IDLE") == "list full");
  CHECK(Cell(frame, "CONSUMER", "train  0", "LIST") == "5/16");
  CHECK(Cell(frame, "CONSUMER", "train  0", "ASKED") == "40");
  CHECK(Cell(frame, "CONSUMER", "train  0", "BUILT") == "7");
  CHECK(Cell(frame, "CONSUMER", "train  0", "DUE") == "1.5 s");
  CHECK(Cell(frame, "CONSUMER", "train  0", "BATCHES/S") == "10.0");
  CHECK(Cell(frame, "CONSUMER", "train  0", "EXAMPLES/S") == "10.0 k");
  CHECK(Cell(frame, "CONSUMER", "train  0", "WAITED") == "25 %");
  CHECK(Cell(frame, "JOB", "train  live", "BATCHES/S") == "10.0");
}

TEST_CASE("the tokens of a job are those of its ranks, and other jobs have none", "[top]") {
  const auto at = [](double uptime, std::uint64_t tokens) {
    v1::ServiceStatus status = At(uptime);
    AddJob(status, "plain");
    v1::JobStatus& job = AddJob(status, "text");
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      AddConsumer(status, rank + 1, "text", rank).mutable_counters()->set_tokens(tokens);
    }
    AddConsumer(status, 3, "plain", 0);
    job.set_tokens(2 * tokens);
    return status;
  };
  const v1::ServiceStatus before = at(100, 1000);
  const auto frame = TopFrame(&before, at(102, 9000), {});
  CHECK(Cell(frame, "JOB", "text  live", "TOKENS/S") == "8000.0");
  CHECK(Cell(frame, "JOB", "plain  live", "TOKENS/S") == "-");
  const v1::ServiceStatus none = at(100, 0);
  CHECK(CountOf(TopFrame(&none, at(102, 0), {}), "TOKENS/S") == 0);
}

TEST_CASE("operations are stages of a build, of which the smaller ones are added up", "[top]") {
  const auto with = [](double uptime, int stages) {
    v1::ServiceStatus status = At(uptime);
    v1::WorkerStatus& worker = AddWorker(status, 1, "alpha");
    worker.set_counted_seconds(uptime);
    for (int i = 0; i < stages; ++i) {
      v1::StageSeconds& stage = *worker.add_build();
      stage.set_stage("tensors: " + std::string(1, static_cast<char>('a' + i)));
      stage.set_seconds(i * (uptime - 100) / 10);
    }
    return status;
  };
  const auto build = [&](int stages) {
    const v1::ServiceStatus before = with(100, stages);
    return Cell(TopFrame(&before, with(101, stages), {}), "WORKER", "alpha", "BUILD (S/S)");
  };
  CHECK(build(2) == "tensors: a 0.00, tensors: b 0.10");
  CHECK(build(6).find("others") == std::string::npos);
  CHECK(build(8) ==
        "tensors: d 0.30, tensors: e 0.40, tensors: f 0.50, tensors: g 0.60, tensors: h 0.70, "
        "3 others 0.30");
}

TEST_CASE("the processes of a plugin's object at a worker are one line", "[top]") {
  const auto with = [](double uptime, double busy, std::uint64_t examples) {
    v1::ServiceStatus status = At(uptime);
    v1::WorkerStatus& worker = AddWorker(status, 1, "alpha");
    worker.set_counted_seconds(uptime);
    for (int pool = 0; pool < 2; ++pool) {  // with different arguments
      v1::PluginUse& use = *worker.add_plugins();
      use.set_object("speech:Corpus");
      use.set_memory_bytes(50'000'000);
      for (int i = 0; i < 2; ++i) {
        v1::PluginProcess& process = *use.add_processes();
        process.set_process(i == 0 ? 4711 : 0);
        process.set_busy_seconds(busy);
        process.set_examples(examples);
        process.set_restarts(1);
        process.set_dropped(2);
        process.set_failed(3);
      }
    }
    return status;
  };
  const v1::ServiceStatus before = with(100, 1, 100);
  const auto frame = TopFrame(&before, with(102, 2.5, 200), {});
  const auto cell = [&](const char* column) {
    return Cell(frame, "PLUGIN", "speech:Corpus", column);
  };
  CHECK(cell("WORKER") == "alpha");
  CHECK(cell("PROCESSES") == "2 of 4");
  CHECK(cell("BUSY") == "75 %");
  CHECK(cell("EXAMPLES/S") == "200.0");
  CHECK(cell("RESTARTS") == "4");
  CHECK(cell("DROPPED") == "8");
  CHECK(cell("FAILED") == "12");
  CHECK(cell("MEMORY MB") == "100.0");
  v1::ServiceStatus none = At(100);
  AddWorker(none, 1, "alpha");
  CHECK(CountOf(TopFrame(nullptr, none, {}), "PLUGIN") == 0);
}

TEST_CASE("a rate that is not known yet is a dash", "[top]") {
  v1::ServiceStatus now = At(102);
  AddWorker(now, 1, "alpha").set_sent_batches(5);
  CHECK(Cell(TopFrame(nullptr, now, {}), "WORKER", "alpha", "BATCHES/S") == "-");

  v1::ServiceStatus before = At(100);
  AddWorker(before, 2, "alpha").set_sent_batches(1);  // another process with the same name
  CHECK(Cell(TopFrame(&before, now, {}), "WORKER", "alpha", "BATCHES/S") == "-");

  before = At(100);
  AddWorker(before, 1, "alpha").set_sent_batches(9);  // the process counts from 0 again
  CHECK(Cell(TopFrame(&before, now, {}), "WORKER", "alpha", "BATCHES/S") == "-");

  before = At(100);
  AddWorker(before, 1, "alpha").set_counted_seconds(102);  // the same report
  CHECK(Cell(TopFrame(&before, now, {}), "WORKER", "alpha", "BATCHES/S") == "-");
}

TEST_CASE("what may not be told of a worker is a dash", "[top]") {
  v1::ServiceStatus now = At(102);
  AddWorker(now, 1, "").set_state("ready");
  const std::vector<TopLine> frame = TopFrame(nullptr, now, {});
  CHECK(Row(frame, "-  -  ready") == std::vector<std::string>{"-", "-", "ready", "-", "-", "-", "-",
                                                              "-", "-", "-", "-", "-", "-", "0",
                                                              "-", "-"});
}

TEST_CASE("a job's total is that of replica 0 of its ranks", "[top]") {
  v1::ServiceStatus before = At(100);
  v1::ServiceStatus now = At(101);
  for (std::uint32_t i = 0; i < 4; ++i) {
    AddConsumer(before, i + 1, "train", i / 2).set_replica(i % 2);
    v1::ConsumerStatus& consumer = AddConsumer(now, i + 1, "train", i / 2);
    consumer.set_replica(i % 2);
    consumer.mutable_counters()->set_batches(5);
    consumer.mutable_counters()->set_bytes(2'000'000);
  }
  AddJob(now, "train");
  const auto frame = TopFrame(&before, now, {});
  CHECK(Cell(frame, "JOB", "train  live", "BATCHES/S") == "10.0");
  CHECK(Cell(frame, "JOB", "train  live", "MB/S") == "4.0");
}

TEST_CASE("the jobs that ended last stand below those that run, with how they ended", "[top]") {
  v1::ServiceStatus now = At(100);
  AddJob(now, "train");
  v1::JobStatus& failed = AddJob(now, "broken");
  failed.set_state("ended");
  failed.set_outcome("failed");
  failed.set_error("IndexError: index 3");
  for (int i = 0; i < 8; ++i) AddJob(now, fmt::format("old{}", i)).set_state("ended");
  const auto frame = TopFrame(nullptr, now, {});
  CHECK(Cell(frame, "JOB", "broken", "STATE") == "failed");
  CHECK(Cell(frame, "JOB", "broken", "WHY") == "IndexError: index 3");
  CHECK(CountOf(frame, "old6") == 1);
  CHECK(CountOf(frame, "old7") == 0);  // the eight newest are shown
}

TEST_CASE("the frame says how many workers are there, and how many are wanted", "[top]") {
  v1::ServiceStatus now = At(100);
  AddJob(now, "new");
  v1::DesiredWorkers& desired = *AddJob(now, "train").mutable_desired_workers();
  desired.set_present(4);
  desired.set_workers(6);
  CHECK(TopFrame(nullptr, now, {})[0].text.find("workers") == std::string::npos);
  *now.mutable_desired_workers() = desired;
  now.mutable_desired_workers()->set_workers(9);
  const auto frame = TopFrame(nullptr, now, {});
  CHECK(Cell(frame, "JOB", "train  live", "WORKERS") == "4/6");
  CHECK(Cell(frame, "JOB", "new  live", "WORKERS") == "-");
  CHECK_THAT(frame[0].text, Catch::Contains("term 7, workers 4/9, by "));
}

TEST_CASE("who waits for whom is told a group a line", "[top]") {
  v1::ServiceStatus now = At(100);
  AddWorker(now, 50, "alpha");
  AddWorker(now, 51, "beta");
  for (std::uint32_t rank : {0u, 2u, 3u, 4u}) {
    WaitFor(AddConsumer(now, 1 + rank, "train", rank), v1::WAIT_BUILD, 51, 0.5 + rank, "closure");
  }
  AddConsumer(now, 20, "train", 1);  // does not wait
  WaitFor(AddConsumer(now, 23, "train", 6), v1::WAIT_PYTHON, 50, 2, "python");
  WaitFor(AddConsumer(now, 21, "train", 5), v1::WAIT_LEASE, 0, 2);
  v1::ConsumerStatus& newcomer = AddConsumer(now, 22, "other", 0);
  newcomer.set_state("waiting");
  newcomer.set_why("plan compiling");
  AddJob(now, "train");

  const auto frame = TopFrame(nullptr, now, {});
  CHECK(CountOf(frame, "WHO WAITS FOR WHOM") == 1);
  CHECK(CountOf(frame,
                "train ranks 0, 2-4: for worker beta to build the next batch: closure, "
                "4.5 s") == 1);
  CHECK(CountOf(frame, "train rank 5: for a worker that may build the next batch, 2.0 s") == 1);
  CHECK(CountOf(frame, "other rank 0: for the dispatcher to let them in: plan compiling") == 1);
  CHECK(Cell(frame, "WORKER", "beta", "WAITED FOR BY") == "4");
  CHECK(CountOf(frame,
                "train rank 6: for a plugin at worker alpha to build the next batch, 2.0 s") == 1);
  CHECK(Cell(frame, "WORKER", "alpha", "WAITED FOR BY") == "1");
  CHECK(Cell(frame, "JOB", "train  live", "WAITING") == "6");
  CHECK(Cell(frame, "CONSUMER", "train  2", "WAITS NOW FOR") == "build closure at beta, 2.5 s");
  CHECK(Cell(frame, "CONSUMER", "train  1", "WAITS NOW FOR") == "-");
}

TEST_CASE("the last events stand below, and those that tell of harm stand out", "[top]") {
  v1::ServiceStatus now = At(100);
  CHECK(CountOf(TopFrame(nullptr, now, {}), "LAST EVENTS") == 0);
  const auto add = [&now](const std::string& kind, const std::string& text, double age) {
    v1::Event& event = *now.add_events();
    event.set_kind(kind);
    event.set_text(text);
    event.set_age_seconds(age);
  };
  add("worker_joined", "Worker w1 joined.", 90);
  add("worker_lost", "Worker w1\033 is lost.", 3);
  const auto frame = TopFrame(nullptr, now, {});
  const auto heading = std::find_if(frame.begin(), frame.end(),
                                    [](const TopLine& line) { return line.text == "LAST EVENTS"; });
  REQUIRE(frame.end() - heading >= 3);
  CHECK(heading[1].text == "3 s ago: Worker w1? is lost.");
  CHECK(heading[1].style == TopLine::Style::kAlarm);
  CHECK(heading[2].text == "1 min 30 s ago: Worker w1 joined.");
  CHECK(heading[2].style == TopLine::Style::kPlain);
}

TEST_CASE("nobody waits: there is no such list", "[top]") {
  v1::ServiceStatus now = At(100);
  AddConsumer(now, 1, "train", 0);
  CHECK(CountOf(TopFrame(nullptr, now, {}), "WHO WAITS") == 0);
}

TEST_CASE("long lists share the height and say how much was cut", "[top]") {
  v1::ServiceStatus now = At(100);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    AddWorker(now, 1 + i, fmt::format("w{:04}", i));
    AddConsumer(now, 2000 + i, "train", static_cast<std::uint32_t>(i));
  }
  AddJob(now, "train");
  TopView view;
  for (view.height = 1; view.height <= 60; ++view.height) {
    const auto frame = TopFrame(nullptr, now, view);
    CHECK(frame.size() <= view.height);
    if (view.height >= 24) CHECK(frame.size() == view.height);
  }
  view.height = 40;
  const auto frame = TopFrame(nullptr, now, view);
  const std::size_t workers = CountOf(frame, "10.0.0.");
  CHECK(workers >= 10);
  CHECK(CountOf(frame, fmt::format("… {} more", 1000 - workers)) >= 1);
  CHECK(CountOf(frame, " more") == 2);

  view.height = 0;
  CHECK(CountOf(TopFrame(nullptr, now, view), " more") == 0);
  CHECK(CountOf(TopFrame(nullptr, now, view), "10.0.0.") == 1000);
}

TEST_CASE("no line is wider than the screen", "[top]") {
  v1::ServiceStatus now = At(100);
  AddWorker(now, 1, "höhe-µ").set_why("for a reason that takes a great many words to tell");
  WaitFor(AddConsumer(now, 2, "train", 0), v1::WAIT_BUILD, 1, 1);
  AddJob(now, "train");
  TopView view;
  for (view.width = 1; view.width <= 200; ++view.width) {
    for (const TopLine& line : TopFrame(nullptr, now, view)) {
      CHECK(ColumnsOf(line.text) <= view.width);
    }
  }
}

TEST_CASE("what comes from others cannot move the cursor", "[top]") {
  v1::ServiceStatus now = At(100);
  AddWorker(now, 1, "a\033[2Jb\nc")
      .set_why(
          "\xC2\x9B"
          "31m");
  AddConsumer(now, 2, "train\r", 0);
  for (const TopLine& line : TopFrame(nullptr, now, {})) {
    CHECK(line.text.find_first_of("\033\n\r") == std::string::npos);
    CHECK(line.text.find("\xC2\x9B") == std::string::npos);
  }
}

TEST_CASE("lists are sorted as asked", "[top]") {
  v1::ServiceStatus before = At(100);
  v1::ServiceStatus now = At(101);
  const std::uint64_t sent[] = {5, 50, 20};
  for (std::uint64_t i = 0; i < 3; ++i) {
    AddWorker(before, 1 + i, fmt::format("w{}", i));
    AddWorker(now, 1 + i, fmt::format("w{}", i)).set_sent_batches(sent[i]);
  }
  WaitFor(AddConsumer(now, 9, "train", 0), v1::WAIT_QUEUE, 3, 1);
  const auto order = [&](TopSort sort) {
    TopView view;
    view.sort = sort;
    std::string names;
    for (const TopLine& line : TopFrame(&before, now, view)) {
      if (line.text.size() > 2 && line.text[0] == 'w') names += line.text.substr(0, 2) + " ";
    }
    return names;
  };
  CHECK(order(TopSort::kName) == "w0 w1 w2 ");
  CHECK(order(TopSort::kRate) == "w1 w2 w0 ");
  CHECK(order(TopSort::kWaited) == "w2 w0 w1 ");
  CHECK(NextSort(NextSort(NextSort(TopSort::kName))) == TopSort::kName);
}

TEST_CASE("the view's own troubles stand at the top", "[top]") {
  TopView view;
  view.notice = "no answer for 9 s";
  v1::ServiceStatus now = At(100);
  now.set_store_error("disk full");
  const auto frame = TopFrame(nullptr, now, view);
  CHECK(frame[1].text == "no answer for 9 s");
  CHECK(frame[1].style == TopLine::Style::kAlarm);
  CHECK(CountOf(frame, "disk full") == 1);
}

TEST_CASE("a history keeps what a rate needs, and begins anew with the dispatcher", "[top]") {
  TopHistory history;
  CHECK(history.empty());
  history.Add(At(10));
  CHECK(history.before() == nullptr);
  for (int i = 1; i <= 20; ++i) history.Add(At(10 + 0.5 * i));
  CHECK(history.now().uptime_seconds() == 20);
  CHECK(history.before()->uptime_seconds() == 18.5);
  history.Add(At(25));  // one status this much later is far enough
  CHECK(history.before()->uptime_seconds() == 20);

  v1::ServiceStatus restarted = At(30);
  restarted.set_term(8);
  history.Add(restarted);
  CHECK(history.before() == nullptr);
  CHECK(!history.MayShow(false));
  restarted.set_uptime_seconds(31);
  history.Add(restarted);
  CHECK(history.MayShow(false));
  CHECK(!history.MayShow(true));
  restarted.set_uptime_seconds(31.5);
  history.Add(restarted);
  CHECK(history.MayShow(true));
  CHECK(history.now().term() == 8);
}

TEST_CASE("the frame lists the branches of mixes of jobs that have not ended", "[top]") {
  v1::ServiceStatus now = At(10);
  const auto shown = [&now](const std::string& text) {
    const std::vector<TopLine> frame = TopFrame(nullptr, now, {});
    return std::any_of(frame.begin(), frame.end(), [&](const TopLine& line) {
      return line.text.find(text) != std::string::npos;
    });
  };
  v1::JobStatus& job = *now.add_jobs();
  job.set_name("both");
  CHECK_FALSE(shown("BRANCH"));
  v1::BranchStatus& branch = *job.add_branches();
  branch.set_name("words");
  branch.set_dataset("text");
  branch.set_examples(4900);
  branch.set_passes(5.25);
  CHECK(shown("BRANCH  JOB   DATASET  EXAMPLES  PASSES"));
  CHECK(shown("words   both  text     4900      5.250"));
  job.set_state("ended");
  CHECK_FALSE(shown("words"));
}

TEST_CASE("the frame lists datasets with kind and state, and marks those with errors", "[top]") {
  v1::ServiceStatus now = At(10);
  v1::DatasetState& graph = (*now.mutable_datasets())["g"];
  graph.set_kind("graph");
  graph.set_digest(std::string(32, 'a'));
  graph.set_unverified(0.25);
  (*now.mutable_datasets())["h"].set_error("x is damaged");
  const std::vector<TopLine> frame = TopFrame(nullptr, now, {});
  std::vector<TopLine> found;
  for (const TopLine& line : frame) {
    if (line.text.find("25 % unverified") != std::string::npos) found.push_back(line);
    if (line.text.find("x is damaged") != std::string::npos) found.push_back(line);
  }
  REQUIRE(found.size() == 2);
  CHECK(found[0].text.find("graph") != std::string::npos);
  CHECK(found[0].style == TopLine::Style::kPlain);
  CHECK(found[1].style == TopLine::Style::kAlarm);
}

}  // namespace millrace::cli
