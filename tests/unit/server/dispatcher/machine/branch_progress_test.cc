// What a status says of the branches of a mix.
#include "server/dispatcher/machine/branch_progress.h"

#include <catch2/catch.hpp>

#include "server/dispatcher/machine/status.h"
#include "tests/unit/server/dispatcher/machine/harness.h"

namespace millrace::test {
namespace {

// A block has 70 places: 49 and 21. An epoch of 140 has 98 and 42.
const std::string kBranches =
    "examples=140\nsize=5\ndataset=text,code\nbranches=words:text:7:49,programs:code:3:100\n";

v1::JobStatus JobAt(Position next) {
  Harness h;
  h.AddWorker("w1", "w", kBranches);
  const StreamId stream = h.Attach(HelloOptions{.yaml = kBranches, .start = next});
  h.ReportAt(stream, next);
  return BuildStatus(*h.dispatcher, h.options, h.now.time).jobs(0);
}

TEST_CASE("a status says of each branch how much was read in the epoch, and how often at all",
          "[branch_progress]") {
  const v1::JobStatus job = JobAt({2, 70});
  REQUIRE(job.branches_size() == 2);
  CHECK(job.branches(0).name() == "words");
  CHECK(job.branches(0).dataset() == "text");
  CHECK(job.branches(0).examples() == 49);
  CHECK(job.branches(0).passes() == Approx((2 * 98 + 49) / 49.0));
  CHECK(job.branches(1).name() == "programs");
  CHECK(job.branches(1).dataset() == "code");
  CHECK(job.branches(1).examples() == 21);
  CHECK(job.branches(1).passes() == Approx((2 * 42 + 21) / 100.0));
}

TEST_CASE("an epoch begins with no examples of any branch, but with its earlier passes",
          "[branch_progress]") {
  const v1::JobStatus job = JobAt({1, 0});
  CHECK(job.branches(0).examples() == 0);
  CHECK(job.branches(0).passes() == 2);
  CHECK(job.branches(1).examples() == 0);
  CHECK(job.branches(1).passes() == Approx(0.42));
}

TEST_CASE("within a block the examples of branches add up, and are off by less than a block",
          "[branch_progress]") {
  for (const std::uint64_t example : {10u, 30u, 60u, 100u}) {
    const v1::JobStatus job = JobAt({0, example});
    CHECK(job.branches(0).examples() + job.branches(1).examples() == example);
    CHECK(job.branches(0).examples() == Approx(0.7 * static_cast<double>(example)).margin(1));
  }
}

TEST_CASE("a job that is no mix, or has no plan yet, has no branches", "[branch_progress]") {
  Harness h;
  h.Attach(HelloOptions{.job = "plain", .nonce = 'a'});
  h.hold_compiles = true;
  h.Attach(HelloOptions{.job = "mix", .yaml = kBranches, .nonce = 'b'});
  const v1::ServiceStatus status = BuildStatus(*h.dispatcher, h.options, h.now.time);
  REQUIRE(status.jobs_size() == 2);
  for (const v1::JobStatus& job : status.jobs()) CHECK(job.branches().empty());
}

TEST_CASE("passes of the farthest epochs do not overflow", "[branch_progress]") {
  v1::Spec spec;
  v1::Branch& branch = *spec.add_branches();
  branch.set_examples(1);
  branch.set_weight(1);
  branch.set_rows_per_epoch(std::uint64_t{1} << 62);
  v1::JobStatus job;
  AddBranches(spec, {std::uint64_t{1} << 40, 0}, job);
  CHECK(job.branches(0).passes() == Approx(0x1p102));
}

}  // namespace
}  // namespace millrace::test
