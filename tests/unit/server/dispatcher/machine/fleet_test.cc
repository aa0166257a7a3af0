// Workers: their numbers, the plans that they keep, and datasets that differ.
#include <catch2/catch.hpp>

#include "tests/unit/server/dispatcher/machine/harness.h"

namespace millrace::test {
namespace {

using Catch::Contains;

v1::FileEntry File(const std::string& name, std::uint64_t size, const std::string& digest) {
  v1::FileEntry file;
  file.set_name(name);
  file.set_size(size);
  file.set_digest(digest);
  return file;
}

TEST_CASE("a worker gets a number and keeps it over a reconnect", "[work]") {
  Harness h;
  const StreamId first = h.AddWorker("w1");
  const WorkerId id(FromProto(h.LastWork(first).id()));
  CHECK(id.is_set());
  v1::WorkRequest request = h.workers[first];
  ToProto(id, request.mutable_id());
  const StreamId second = h.Open(true);
  h.Work(second, request);
  CHECK(WorkerId(FromProto(h.LastWork(second).id())) == id);
  CHECK(h.ClosedWith(first).code() == StatusCode::kCancelled);
  CHECK(h.dispatcher->facts().workers().size() == 1);
}

TEST_CASE("a worker keeps its number over a restart of the dispatcher", "[work][restart]") {
  Harness h;
  const StreamId first = h.AddWorker("w1");
  v1::WorkRequest request = h.workers[first];
  *request.mutable_id() = h.LastWork(first).id();
  h.Restart();
  const StreamId second = h.Open(true);
  h.Work(second, request);
  CHECK(FromProto(h.LastWork(second).id()) == FromProto(h.LastWork(first).id()));
}

TEST_CASE("a worker's number of this term that was not issued here ends the term", "[work]") {
  Harness h;
  const StreamId first = h.AddWorker("w1");
  v1::WorkRequest request = h.workers[first];
  ToProto(WorkerId({100, 77}), request.mutable_id());
  const StreamId second = h.Open(true);
  h.Work(second, request);
  CHECK(h.ClosedWith(second).code() == StatusCode::kUnavailable);
  CHECK_FALSE(h.IsOpen(first));
  CHECK(h.dispatcher->seen_term() == 100);  // the next term is higher
}

TEST_CASE("a number of another worker is not given away", "[work][hostile]") {
  Harness h;
  const StreamId first = h.AddWorker("w1");
  v1::WorkRequest request = h.workers[first];
  *request.mutable_id() = h.LastWork(first).id();
  request.set_nonce(std::string(16, 'z'));
  const StreamId second = h.Open(true);
  h.Work(second, request);
  CHECK(FromProto(h.LastWork(second).id()) != FromProto(h.LastWork(first).id()));
  CHECK(h.IsOpen(first));
}

TEST_CASE("a worker with a wildcard address is refused", "[work][hostile]") {
  Harness h;
  v1::WorkRequest request = h.workers[h.AddWorker("w1")];
  for (const char* address : {"0.0.0.0:7701", "[::]:7701", "*:7701", "[0:0::0]:7701"}) {
    INFO(address);
    request.mutable_self()->set_address(address);
    const StreamId stream = h.Open(true);
    h.Work(stream, request);
    CHECK(h.ClosedWith(stream).code() == StatusCode::kInvalidArgument);
    CHECK_THAT(h.ClosedWith(stream).message(), Contains("advertise"));
  }
}

TEST_CASE("workers are told the plans that jobs need, once each", "[work][plans]") {
  Harness h;
  const StreamId worker = h.AddWorker("w1");
  CHECK(h.LastWork(worker).plans_size() == 0);
  h.Attach(HelloOptions{.job = "x", .nonce = 'a'});
  h.Attach(
      HelloOptions{.job = "y", .yaml = Yaml("\n"), .nonce = 'b'});  // the same plan, other text
  h.Attach(HelloOptions{.job = "z", .yaml = Yaml("seed=1\n"), .nonce = 'c'});
  REQUIRE(h.LastWork(worker).plans_size() == 2);
  CHECK(h.LastWork(worker).plans(0).datasets(0) == "stdlib");
}

TEST_CASE("a plan goes only to workers of its dataset's digest", "[work][plans]") {
  Harness h;
  const StreamId worker = h.AddWorker("w1");
  (*h.workers[worker].mutable_datasets())["stdlib"].set_digest(std::string(32, '0'));
  h.Work(worker, h.workers[worker]);
  h.Attach(HelloOptions{});
  CHECK(h.LastWork(worker).plans_size() == 0);
}

TEST_CASE("a plan is kept for a while after its last job", "[work][plans]") {
  Harness h;
  const StreamId worker = h.AddWorker("w1");
  h.Bye(h.Attach(HelloOptions{}));
  h.Advance(seconds(60));
  CHECK(h.LastWork(worker).plans_size() == 1);
  h.Advance(std::chrono::minutes(10));
  CHECK(h.LastWork(worker).plans_size() == 0);
}

TEST_CASE("a restarted dispatcher makes no worker drop the plan of a running job",
          "[work][plans][restart]") {
  Harness h;
  h.hold_compiles = GENERATE(true, false);
  h.AddWorker("w1");
  h.Attach(HelloOptions{});
  h.AnswerCompiles();
  h.Restart();
  const StreamId worker = h.AddWorker("w1");
  REQUIRE(h.LastWork(worker).plans_size() == 1);
  CHECK(h.LastWork(worker).plans(0).fingerprint() == h.workers[worker].plans(0).fingerprint());
}

TEST_CASE("the first file that differs is asked for, named and told", "[work][dataset]") {
  Harness h;
  const StreamId stream = h.Attach(HelloOptions{});
  v1::DatasetState here;
  here.set_digest(DatasetDigest());
  *here.add_file_list() = File("a.bin", 10, "1");
  *here.add_file_list() = File("b.bin", 20, "2");
  h.Do(h.dispatcher->OnDataset("stdlib", here, h.now));

  const StreamId worker = h.AddWorker("w1");
  v1::WorkRequest& request = h.workers[worker];
  request.clear_plans();
  v1::DatasetState& there = (*request.mutable_datasets())["stdlib"];
  there.set_digest(std::string(32, '0'));
  h.Work(worker, request);
  REQUIRE(h.LastWork(worker).list_files_size() == 1);
  CHECK(h.LastWork(worker).list_files(0) == "stdlib");

  *there.add_file_list() = File("a.bin", 10, "1");
  *there.add_file_list() = File("b.bin", 21, "2");
  h.Work(worker, request);
  there.clear_file_list();
  h.talking = {stream};
  h.Advance(seconds(1));
  const std::string difference = "file 'b.bin' has 21 bytes on the worker, 20 on the dispatcher";
  CHECK(h.LastWork(worker).dataset_differences().at("stdlib") == difference);
  CHECK(h.LastWork(worker).list_files_size() == 0);
  h.ReportAt(stream, {0, 0});
  CHECK_THAT(h.WhyOn(stream), Contains("no worker has the dataset stdlib") && Contains(difference));
}

TEST_CASE("a worker that does what it shall is sent bare heartbeats", "[work][plans]") {
  Harness h;
  const StreamId worker = h.AddWorker("w1");
  const StreamId stream = h.Attach(HelloOptions{});
  h.talking = {stream};
  *h.workers[worker].mutable_id() = h.LastWork(worker).id();
  h.Advance(seconds(2));
  const v1::WorkResponse heartbeat = h.work[worker].back();
  CHECK_FALSE(heartbeat.has_id());
  CHECK(heartbeat.plans_size() == 0);
  CHECK(heartbeat.term() == 100);
  // A worker that has lost the plan is told of it again.
  h.workers[worker].clear_plans();
  h.Advance(seconds(2));
  CHECK(h.work[worker].back().plans_size() == 1);
}

TEST_CASE("a worker that cannot list its files is not asked faster than heartbeats",
          "[work][dataset]") {
  Harness h;
  v1::DatasetState here;
  here.set_digest(DatasetDigest());
  *here.add_file_list() = File("a.bin", 10, "1");
  h.Do(h.dispatcher->OnDataset("stdlib", here, h.now));
  const StreamId worker = h.AddWorker("w1");
  (*h.workers[worker].mutable_datasets())["stdlib"].set_digest(std::string(32, '0'));
  h.Work(worker, h.workers[worker]);
  const std::size_t said = h.work[worker].size();
  for (int i = 0; i < 100; ++i) h.Work(worker, h.workers[worker]);
  CHECK(h.work[worker].size() == said);
}

TEST_CASE("a worker that says bye is in no list any more", "[work]") {
  Harness h;
  const StreamId worker = h.AddWorker("w1");
  v1::WorkRequest request = h.workers[worker];
  request.set_bye(true);
  const StreamId stream = h.Attach(HelloOptions{});
  h.talking = {stream};
  h.Advance(seconds(1));
  REQUIRE(h.ListOn(stream).size() == 1);
  h.Work(worker, request);
  CHECK(h.dispatcher->facts().workers().empty());
  CHECK(h.ListOn(stream).empty());
  CHECK(h.ClosedWith(worker).ok());
}

TEST_CASE("a worker that stays away is forgotten", "[work][time]") {
  Harness h;
  h.Break(h.AddWorker("w1"));
  h.Advance(seconds(30));
  CHECK(h.dispatcher->facts().workers().size() == 1);
  h.Advance(seconds(31));
  CHECK(h.dispatcher->facts().workers().empty());
}

}  // namespace
}  // namespace millrace::test
