#include "server/plugin/reply_assembly.h"

#include <numeric>
#include <utility>

namespace millrace {
namespace {

/// Why row `row` of an attempt failed.
PluginFailure ReasonOf(const BuildAttempt& attempt, std::size_t row) {
  for (const BuiltMessage::Failure& one : attempt.failures) {
    if (!one.row || *one.row == row) return one.failure;
  }
  PluginFailure unknown;
  unknown.kind = FailureKind::kException;
  unknown.message = "it failed, and the process ended before it could say why";
  return unknown;
}

}  // namespace

ReplyAssembly::ReplyAssembly(std::size_t rows, bool per_batch)
    : per_batch_(per_batch), next_(rows), tries_(rows) {
  std::iota(next_.begin(), next_.end(), std::size_t{0});
  reply_.rows_.resize(rows);
}

bool ReplyAssembly::Add(BuildAttempt attempt) {
  const std::vector<std::size_t> tried = std::exchange(next_, {});
  const std::size_t finished = attempt.table.outcomes.size();
  const std::size_t number = reply_.attempts_.size();
  bool has_built = false, has_failed = false;
  for (std::size_t i = 0; i < finished; ++i) {
    PluginReply::Row& row = reply_.rows_[tried[i]];
    const RowOutcome outcome = attempt.table.outcomes[i];
    if (outcome == RowOutcome::kFailed) {
      has_failed = true;
      Fail(tried[i], ReasonOf(attempt, i));
      continue;
    }
    row.outcome = outcome;
    if (outcome != RowOutcome::kDone) continue;
    row.attempt = number;
    row.number = i;
    has_built = true;
  }
  for (std::size_t i = finished; i < tried.size(); ++i) {
    const bool is_blamed =
        per_batch_ ? attempt.blamed.has_value() : attempt.blamed == i && !attempt.at_once;
    if (is_blamed && attempt.ended) {
      Fail(tried[i], *attempt.ended);
    } else {
      next_.push_back(tried[i]);
    }
  }
  // Rows that failed come last, so that they cannot take other rows with them.
  if (next_.empty()) next_ = std::exchange(again_, {});
  if (has_failed || attempt.ended) at_once_ = false;
  if (attempt.ended && ++ended_ > kMaxEnded) {
    next_.insert(next_.end(), again_.begin(), again_.end());
    again_.clear();
    for (const std::size_t row : std::exchange(next_, {})) {
      PluginFailure failure = *attempt.ended;
      failure.kind = FailureKind::kNotTried;
      failure.message =
          "not tried again, because too many processes ended; the last one: " + failure.message;
      tries_[row] = kMaxTries;
      Fail(row, std::move(failure));
    }
  }
  if (has_built) reply_.attempts_.push_back({std::move(attempt.memory), std::move(attempt.table)});
  return has_failed || attempt.ended;
}

void ReplyAssembly::Fail(std::size_t row, PluginFailure failure) {
  if (tries_[row] < kMaxTries && ++tries_[row] < kMaxTries) {
    again_.push_back(row);
    return;
  }
  failure.tries = tries_[row];
  reply_.rows_[row].outcome = RowOutcome::kFailed;
  reply_.rows_[row].number = reply_.failures_.size();
  reply_.failures_.push_back(std::move(failure));
}

PluginReply ReplyAssembly::Take(std::shared_ptr<const void> process) {
  reply_.process_ = std::move(process);
  return std::move(reply_);
}

}  // namespace millrace
