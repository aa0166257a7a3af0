#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "server/worker/machine/measure_queue.h"

namespace millrace::test {
namespace {

using std::chrono::seconds;

constexpr Time kStart{seconds(100)};

v1::WorkResponse Ask(std::vector<std::uint64_t> firsts) {
  v1::WorkResponse response;
  v1::MeasureTask& task = *response.add_measure();
  task.mutable_set()->set_operations("o");
  task.mutable_set()->set_examples(1000);
  for (const std::uint64_t first : firsts) {
    v1::ExampleRun& run = *task.add_runs();
    run.set_first(first);
    run.set_count(256);
  }
  return response;
}

std::vector<v1::MeasuredColumn> Values() {
  v1::MeasuredColumn column;
  column.set_width(1);
  column.set_values("5");
  return {column};
}

std::size_t Sent(MeasureQueue& queue, Time now) {
  v1::WorkRequest report;
  queue.AddTo(report, now);
  return static_cast<std::size_t>(report.measured_size());
}

TEST_CASE("a run is measured range by range, and no range twice", "[columns]") {
  MeasureQueue queue;
  v1::WorkResponse response = Ask({0});
  response.mutable_measure(0)->mutable_runs(0)->set_count(1000);
  queue.Want(response);
  CHECK(queue.pending() == 4);
  std::uint64_t examples = 0;
  while (const auto job = queue.Next()) {
    CHECK(job->run.first() == examples);
    examples += job->run.count();
    queue.Want(response);
  }
  CHECK(examples == 1000);
}

TEST_CASE("a result is sent once, and again if it is still asked for", "[columns]") {
  MeasureQueue queue;
  queue.Want(Ask({0, 256}));
  queue.OnMeasured(*queue.Next(), Values());
  CHECK(queue.HasNews());
  CHECK(Sent(queue, kStart) == 1);
  CHECK_FALSE(queue.HasNews());
  CHECK(Sent(queue, kStart + seconds(1)) == 0);
  CHECK(Sent(queue, kStart + seconds(2)) == 1);
  queue.SendAgain();
  CHECK(queue.HasNews());
  CHECK(Sent(queue, kStart + seconds(3)) == 1);
  queue.Want(Ask({256}));
  CHECK(Sent(queue, kStart + seconds(9)) == 0);
  CHECK(queue.pending() == 1);
  CHECK(queue.measured_examples() == 256);
}

TEST_CASE("what nobody wants any more is not measured, or forgotten", "[columns]") {
  MeasureQueue queue;
  queue.Want(Ask({0, 256}));
  const auto job = queue.Next();
  queue.Want(v1::WorkResponse());
  CHECK_FALSE(queue.Next());
  queue.OnMeasured(*job, Values());
  CHECK_FALSE(queue.HasNews());
  CHECK(queue.pending() == 0);
}

TEST_CASE("why a range cannot be measured is sent in its place", "[columns]") {
  MeasureQueue queue;
  queue.Want(Ask({0}));
  queue.OnMeasured(*queue.Next(), DataLoss("b.bin"));
  v1::WorkRequest report;
  queue.AddTo(report, kStart);
  REQUIRE(report.measured_size() == 1);
  CHECK(report.measured(0).error() == "b.bin");
  CHECK(report.measured(0).error_code() == static_cast<std::uint32_t>(StatusCode::kDataLoss));
  CHECK(queue.measured_examples() == 0);
  // The dispatcher takes the range back, and may ask for it once more.
  queue.Want(v1::WorkResponse());
  queue.Want(Ask({0}));
  CHECK(queue.Next());
}

TEST_CASE("a report has a bounded number of bytes of results", "[columns]") {
  MeasureQueue queue;
  queue.Want(Ask({0, 256, 512}));
  auto values = Values();
  values[0].set_values(std::string(MeasureQueue::kMostBytes, 'x'));
  while (const auto job = queue.Next()) queue.OnMeasured(*job, values);
  CHECK(Sent(queue, kStart) == 1);
  CHECK(queue.HasNews());
  CHECK(Sent(queue, kStart) == 1);
  CHECK(Sent(queue, kStart) == 1);
  CHECK_FALSE(queue.HasNews());
}

}  // namespace
}  // namespace millrace::test
