#include "server/plugin/reply_assembly.h"

#include <catch2/catch.hpp>

#include <vector>

namespace millrace {
namespace {

constexpr auto kDone = RowOutcome::kDone;
constexpr auto kFailed = RowOutcome::kFailed;
constexpr auto kDropped = RowOutcome::kDropped;

BuildAttempt Attempt(std::vector<RowOutcome> outcomes) {
  BuildAttempt attempt;
  attempt.table.outcomes = std::move(outcomes);
  for (std::size_t i = 0; i < attempt.table.outcomes.size(); ++i) {
    if (attempt.table.outcomes[i] != kFailed) continue;
    PluginFailure failure;
    failure.message = "row " + std::to_string(i);
    attempt.failures.push_back({i, failure});
  }
  return attempt;
}

BuildAttempt Ended(std::vector<RowOutcome> outcomes, bool is_blamed = true, bool at_once = false) {
  BuildAttempt attempt = Attempt(std::move(outcomes));
  attempt.ended = PluginFailure{FailureKind::kDeath, "", "it ended", "", "", 0};
  if (is_blamed) attempt.blamed = attempt.table.outcomes.size();
  attempt.at_once = at_once;
  return attempt;
}

std::vector<std::size_t> Next(const ReplyAssembly& assembly) {
  return {assembly.next().begin(), assembly.next().end()};
}

using Rows = std::vector<std::size_t>;

TEST_CASE("a reply of one attempt is complete", "[reply_assembly]") {
  ReplyAssembly assembly(3, false);
  CHECK(Next(assembly) == Rows{0, 1, 2});
  CHECK(assembly.at_once());
  CHECK_FALSE(assembly.Add(Attempt({kDone, kDropped, kDone})));
  CHECK(Next(assembly).empty());
  const PluginReply reply = assembly.Take(nullptr);
  CHECK(reply.outcome(1) == kDropped);
  CHECK(reply.dropped() == 1);
  CHECK(reply.failed() == 0);
}

TEST_CASE("rows that fail are tried once more", "[reply_assembly]") {
  ReplyAssembly assembly(4, false);
  CHECK(assembly.Add(Attempt({kDone, kFailed, kDone, kFailed})));
  CHECK(Next(assembly) == Rows{1, 3});
  CHECK_FALSE(assembly.at_once());
  CHECK(assembly.Add(Attempt({kFailed, kDone})));
  CHECK(Next(assembly).empty());
  const PluginReply reply = assembly.Take(nullptr);
  REQUIRE(reply.outcome(1) == kFailed);
  CHECK(reply.failure(1).message == "row 0");  // of the second attempt
  CHECK(reply.failure(1).tries == 2);
  CHECK(reply.outcome(3) == kDone);
}

TEST_CASE("the row in work is blamed for the end of its process", "[reply_assembly]") {
  ReplyAssembly assembly(4, false);
  CHECK(assembly.Add(Ended({kDone})));
  CHECK(Next(assembly) == Rows{2, 3});
  CHECK_FALSE(assembly.Add(Attempt({kDone, kDone})));
  CHECK(Next(assembly) == Rows{1});
  CHECK(assembly.Add(Ended({})));
  CHECK(Next(assembly).empty());
  const PluginReply reply = assembly.Take(nullptr);
  CHECK(reply.failure(1).message == "it ended");
  CHECK(reply.failed() == 1);
}

TEST_CASE("rows that were lost before the row in work are built again", "[reply_assembly]") {
  ReplyAssembly assembly(5, false);
  BuildAttempt attempt = Ended({kDone});
  attempt.blamed = 3;
  CHECK(assembly.Add(std::move(attempt)));
  CHECK(Next(assembly) == Rows{1, 2, 4});
}

TEST_CASE("no row is blamed for what is not its fault", "[reply_assembly]") {
  ReplyAssembly assembly(2, false);
  for (int turn = 0; turn < ReplyAssembly::kMaxEnded; ++turn) {
    CHECK(assembly.Add(Ended({}, false)));
    CHECK(Next(assembly) == Rows{0, 1});
  }
  SECTION("and it may be built after all") {
    assembly.Add(Attempt({kDone, kDone}));
    CHECK(assembly.Take(nullptr).failed() == 0);
  }
  SECTION("but not without end") {
    assembly.Add(Ended({}, false));
    CHECK(Next(assembly).empty());
    CHECK(assembly.Take(nullptr).failure(1).kind == FailureKind::kNotTried);
  }
}

TEST_CASE("a call for several rows blames none", "[reply_assembly]") {
  ReplyAssembly assembly(3, false);
  CHECK(assembly.Add(Ended({}, true, true)));
  CHECK(Next(assembly) == Rows{0, 1, 2});
  CHECK_FALSE(assembly.at_once());
  CHECK(assembly.Add(Ended({kDone})));
  CHECK(Next(assembly) == Rows{2});
}

TEST_CASE("a call for the whole batch is tried twice as a whole", "[reply_assembly]") {
  ReplyAssembly assembly(2, true);
  CHECK(assembly.Add(Ended({}, true, true)));
  CHECK(Next(assembly) == Rows{0, 1});
  CHECK(assembly.Add(Ended({}, true, true)));
  CHECK(Next(assembly).empty());
  CHECK(assembly.Take(nullptr).failed() == 2);
}

TEST_CASE("rows that failed before their process ended are tried again", "[reply_assembly]") {
  ReplyAssembly assembly(3, false);
  BuildAttempt attempt = Ended({kFailed});
  attempt.failures.clear();  // the process could not tell
  CHECK(assembly.Add(std::move(attempt)));
  CHECK(Next(assembly) == Rows{2});
  CHECK_FALSE(assembly.Add(Attempt({kDone})));
  CHECK(Next(assembly) == Rows{0, 1});
}

}  // namespace
}  // namespace millrace
