// Tests of which shards a consumer gets, and from which workers.
#include <catch2/catch.hpp>

#include <set>

#include "tests/unit/server/dispatcher/machine/harness.h"

namespace millrace::test {
namespace {

using Catch::Contains;

std::set<std::string> Addresses(const std::vector<v1::Lease>& leases) {
  std::set<std::string> addresses;
  for (const auto& lease : leases) addresses.insert(lease.worker().address());
  return addresses;
}

/// The number of batches in all leases.
std::size_t Batches(const std::vector<v1::Lease>& leases) {
  std::size_t batches = 0;
  for (const auto& lease : leases) batches += lease.shard().batches();
  return batches;
}

TEST_CASE("a window is leased once, in shards of half a worker's part", "[leasing]") {
  Harness h;
  h.AddWorker("w1");
  h.AddWorker("w2");
  const StreamId stream = h.Attach(HelloOptions{});
  h.Report(stream, {0, 0}, 8);
  const auto leases = h.LeasesOn(stream);
  REQUIRE(leases.size() == 4);  // 8 / (2 * 2) batches each
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(leases[i].shard().batches() == 2);
    CHECK(leases[i].shard().position() == i * 16);
    CHECK(leases[i].shard().first_example() == i * 16);
  }
  h.Report(stream, {0, 0}, 8);
  CHECK(h.LeasesOn(stream).size() == 4);
}

TEST_CASE("ranks get their own places of the same steps", "[leasing]") {
  Harness h;
  h.AddWorker("w1");
  const StreamId stream = h.Attach(HelloOptions{.rank = 1});
  h.Report(stream, {0, 8}, 1);
  REQUIRE(h.LeasesOn(stream).size() == 1);
  const v1::Shard shard = h.LeasesOn(stream)[0].shard();
  CHECK(shard.position() == 8);
  CHECK(shard.first_example() == 12);
  CHECK(shard.examples() == 4);
}

TEST_CASE("no shard crosses the end of an epoch, and the window rolls over it", "[leasing]") {
  Harness h;
  h.AddWorker("w1");
  const StreamId stream = h.Attach(HelloOptions{});
  h.Report(stream, {0, 64}, 8);  // 10 steps of 8
  std::uint64_t steps = 0;
  for (const auto& lease : h.LeasesOn(stream)) {
    const v1::Shard& shard = lease.shard();
    CHECK(shard.position() + shard.batches() * shard.stride() <= 80);
    steps += shard.batches();
  }
  CHECK(steps == 8);
  CHECK(h.LeasesOn(stream).back().shard().epoch() == 1);
}

TEST_CASE("nothing is leased beyond the epochs wanted, counted from the start", "[leasing]") {
  Harness h;
  h.AddWorker("w1");
  const StreamId stream = h.Attach(HelloOptions{.start = {3, 0}, .epochs = 2});
  h.Report(stream, {4, 72}, 50);
  CHECK(Batches(h.LeasesOn(stream)) == 1);
  h.Report(stream, {5, 0}, 50);
  CHECK(Batches(h.LeasesOn(stream)) == 1);
}

TEST_CASE("leases that a consumer gave itself are left to it", "[leasing]") {
  Harness h;
  h.AddWorker("w1");
  const StreamId stream = h.Attach(HelloOptions{});
  v1::Report report;
  ToProto(Position{0, 0}, report.mutable_next());
  report.set_window(3);
  v1::Lease& own = *report.add_held();
  ToProto(Number{0, 5}, own.mutable_id());
  own.mutable_shard()->set_stride(8);
  own.mutable_shard()->set_batches(2);
  h.Report(stream, report);
  REQUIRE(Batches(h.LeasesOn(stream)) == 1);
  CHECK(h.LeasesOn(stream)[0].shard().position() == 16);
}

TEST_CASE("what was on its way on a broken stream is leased again", "[leasing]") {
  Harness h;
  h.AddWorker("w1");
  const StreamId first = h.Attach(HelloOptions{});
  h.Report(first, {0, 0}, 4);
  v1::AttachRequest request;
  *request.mutable_hello() = MakeHello({});
  ToProto(h.SessionOn(first), request.mutable_hello()->mutable_session());
  request.mutable_hello()->set_admitted(true);
  ToProto(Position{0, 0}, request.mutable_report()->mutable_next());
  request.mutable_report()->set_window(4);
  h.Break(first);
  const StreamId second = h.Open();
  h.Send(second, request);
  CHECK(Batches(h.LeasesOn(second)) == 4);
}

TEST_CASE("a consumer without a ready worker is told why, and leased to as soon as there is one",
          "[leasing]") {
  Harness h;
  const StreamId stream = h.Attach(HelloOptions{});
  REQUIRE(h.WelcomeOn(stream) != nullptr);
  h.Report(stream, {0, 0}, 4);
  CHECK_THAT(h.WhyOn(stream), Contains("no worker has the dataset stdlib: no worker is connected"));
  h.AddWorker("w1");
  CHECK(Batches(h.LeasesOn(stream)) == 4);
}

TEST_CASE("a worker that is silent for 3 s gets no new leases", "[leasing][workers]") {
  Harness h;
  const StreamId silent = h.AddWorker("w1");
  h.AddWorker("w2");
  h.StopWorker(silent);
  h.Advance(seconds(3));
  const StreamId stream = h.Attach(HelloOptions{});
  h.Report(stream, {0, 0}, 64);
  CHECK(Addresses(h.LeasesOn(stream)) == std::set<std::string>{"w2:7701"});
}

TEST_CASE("a pause of the dispatcher silences no worker", "[leasing][workers][time]") {
  Harness h;
  h.AddWorker("w1");
  const StreamId stream = h.Attach(HelloOptions{});
  h.Pause(seconds(5));
  h.Report(stream, {0, 0}, 4);
  CHECK(Batches(h.LeasesOn(stream)) == 4);
}

TEST_CASE("a worker whose stream broke gets no new leases at once", "[leasing][workers]") {
  Harness h;
  const StreamId gone = h.AddWorker("w1");
  h.AddWorker("w2");
  h.Break(gone);
  const StreamId stream = h.Attach(HelloOptions{});
  h.Report(stream, {0, 0}, 64);
  CHECK(Addresses(h.LeasesOn(stream)) == std::set<std::string>{"w2:7701"});
}

TEST_CASE("a worker that fails a consumer is not given to it while others can",
          "[leasing][failing]") {
  Harness h;
  h.AddWorker("w1");
  h.AddWorker("w2");
  const StreamId stream = h.Attach(HelloOptions{.rank = 0, .nonce = 'a'});
  const StreamId other = h.Attach(HelloOptions{.rank = 1, .nonce = 'b'});
  v1::Report report;
  ToProto(Position{0, 0}, report.mutable_next());
  report.set_window(64);
  v1::Failing& failing = *report.add_failing();
  ToProto(h.dispatcher->facts().FindWorkerByNonce("w1..............")->id,
          failing.mutable_worker());
  failing.set_remaining_seconds(3);
  h.Report(stream, report);
  CHECK(Addresses(h.LeasesOn(stream)) == std::set<std::string>{"w2:7701"});
  h.Report(other, {0, 0}, 640);
  CHECK(Addresses(h.LeasesOn(other)).size() == 2);
}

TEST_CASE("of workers that all fail, the one that failed longest ago is tried",
          "[leasing][failing]") {
  Harness h;
  h.AddWorker("w1");
  h.AddWorker("w2");
  const StreamId stream = h.Attach(HelloOptions{});
  h.talking = {stream};
  const auto fail = [&](v1::Report& report, const std::string& name, double remaining) {
    v1::Failing& failing = *report.add_failing();
    ToProto(h.dispatcher->facts().FindWorkerByNonce(name + "..............")->id,
            failing.mutable_worker());
    failing.set_remaining_seconds(remaining);
  };
  v1::Report report;
  ToProto(Position{0, 0}, report.mutable_next());
  fail(report, "w2", 12);
  h.Report(stream, report);
  h.Advance(seconds(2));
  report.clear_failing();
  fail(report, "w2", 10);
  fail(report, "w1", 3);
  report.set_window(8);
  h.Report(stream, report);
  CHECK(Addresses(h.LeasesOn(stream)) == std::set<std::string>{"w2:7701"});
}

TEST_CASE("a consumer's own host comes first", "[leasing][choice]") {
  Harness h;
  h.AddWorker("w1", "elsewhere");
  h.AddWorker("w2", "h7");
  h.AddWorker("w3", "elsewhere");
  const StreamId stream = h.Attach(HelloOptions{.host_id = "h7"});
  h.Report(stream, {0, 0}, 64);
  CHECK(Addresses(h.LeasesOn(stream)) == std::set<std::string>{"w2:7701"});
}

TEST_CASE("of two workers the one with less before it is given more", "[leasing][choice]") {
  Harness h;
  const StreamId busy = h.AddWorker("w1");
  h.AddWorker("w2");
  h.workers[busy].set_queue_seconds(1000);
  h.Work(busy, h.workers[busy]);
  const StreamId stream = h.Attach(HelloOptions{});
  h.Report(stream, {0, 0}, 64);
  CHECK(Addresses(h.LeasesOn(stream)) == std::set<std::string>{"w2:7701"});
}

TEST_CASE("grants count as work before the worker reports them", "[leasing][choice]") {
  Harness h;
  h.AddWorker("w1");
  h.AddWorker("w2");
  const StreamId stream = h.Attach(HelloOptions{});
  h.Report(stream, {0, 0}, 256);
  std::map<std::string, std::size_t> batches;
  for (const auto& lease : h.LeasesOn(stream)) {
    batches[lease.worker().address()] += lease.shard().batches();
  }
  CHECK(batches["w1:7701"] + batches["w2:7701"] == 256);
  CHECK(batches["w1:7701"] >= 118);  // the two differ by one shard at most
  CHECK(batches["w2:7701"] >= 118);
}

TEST_CASE("a consumer has at most 8 workers and keeps them", "[leasing][choice]") {
  Harness h;
  for (int i = 10; i < 30; ++i) h.AddWorker("w" + std::to_string(i));
  const StreamId stream = h.Attach(HelloOptions{});
  h.Report(stream, {0, 0}, 1000);
  const auto first = Addresses(h.LeasesOn(stream));
  CHECK(first.size() == 8);
  h.attach.clear();
  h.Report(stream, {50, 0}, 1000);
  CHECK(Addresses(h.LeasesOn(stream)) == first);
}

/// A consumer with two workers. It holds all its leases, and waits for the batch of the first one.
struct Late {
  Harness h;
  StreamId busy = h.AddWorker("w1");
  StreamId idle = h.AddWorker("w2");
  StreamId stream = h.Attach(HelloOptions{});

  v1::Report Report() {
    v1::Report report;
    ToProto(Position{0, 0}, report.mutable_next());
    report.set_window(4);
    for (const auto& lease : h.LeasesOn(stream)) {
      *report.add_held() = lease;
      ToProto(std::max(FromProto(report.last_lease()), FromProto(lease.id())),
              report.mutable_last_lease());
      if (lease.shard().position() == 0 && !lease.copy()) *report.mutable_late() = lease.id();
    }
    return report;
  }
  std::vector<v1::Lease> Copies() {
    std::vector<v1::Lease> copies = h.LeasesOn(stream);
    std::erase_if(copies, [](const v1::Lease& lease) { return !lease.copy(); });
    return copies;
  }
  /// All workers send their reports, which by default say that they have nothing to do.
  void WorkersReport() {
    for (auto& [id, report] : h.workers) h.Work(id, report);
  }
};

TEST_CASE("a late shard is copied to a worker with nothing to do, once at a time",
          "[leasing][copy]") {
  Late late;
  late.h.Report(late.stream, {0, 0}, 4);
  const v1::Lease first = late.h.LeasesOn(late.stream).front();
  late.WorkersReport();
  late.h.Report(late.stream, late.Report());
  REQUIRE(late.Copies().size() == 1);
  const v1::Lease copy = late.Copies().front();
  CHECK(copy.worker().address() != first.worker().address());
  CHECK(copy.shard().SerializeAsString() == first.shard().SerializeAsString());
  late.WorkersReport();
  late.h.Report(late.stream, late.Report());
  CHECK(late.Copies().size() == 1);
}

TEST_CASE("a late shard is not copied to a worker that has work", "[leasing][copy]") {
  Late late;
  late.h.Report(late.stream, {0, 0}, 4);
  for (auto& [id, report] : late.h.workers) report.set_queue_seconds(1);
  late.WorkersReport();
  late.h.Report(late.stream, late.Report());
  CHECK(late.Copies().empty());
}

TEST_CASE("no more than one lease in twenty is a copy, after the first", "[leasing][copy]") {
  Late late;
  std::size_t leases = 0;
  for (int job = 0; job < 8; ++job) {
    const HelloOptions hello{.job = "j" + std::to_string(job),
                             .where = "host7:" + std::to_string(job),
                             .nonce = static_cast<char>('b' + job)};
    late.stream = late.h.Attach(hello);
    late.h.Report(late.stream, {0, 0}, 4);
    leases += late.h.LeasesOn(late.stream).size();
    late.WorkersReport();
    late.h.Report(late.stream, late.Report());
  }
  CHECK(late.h.dispatcher->facts().leases_granted() == leases);
  CHECK(late.h.dispatcher->facts().copies_granted() == 1 + (leases - 1) / 20);
}

TEST_CASE("a loopback address goes only to consumers of its host", "[leasing][address]") {
  Harness h;
  const StreamId worker = h.AddWorker("w1", "h7");
  h.workers[worker].mutable_self()->set_address("127.0.0.1:7701");
  h.Work(worker, h.workers[worker]);
  const StreamId near = h.Attach(HelloOptions{.rank = 0, .host_id = "h7", .nonce = 'a'});
  const StreamId far = h.Attach(HelloOptions{.rank = 1, .host_id = "h8", .nonce = 'b'});
  const StreamId unknown = h.Attach(HelloOptions{.job = "y", .host_id = "", .nonce = 'c'});
  for (const StreamId s : {near, far, unknown}) h.Report(s, {0, 0}, 4);
  CHECK(Batches(h.LeasesOn(near)) == 4);
  CHECK(h.LeasesOn(far).empty());
  CHECK(h.LeasesOn(unknown).empty());
  CHECK(h.WelcomeOn(far)->workers_size() == 0);
  CHECK_THAT(h.WhyOn(far), Contains("127.0.0.1:7701 is reachable from its own host only"));
}

}  // namespace
}  // namespace millrace::test
