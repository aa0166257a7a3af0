#include "server/dispatcher/service/server_stream.h"

#include <algorithm>

namespace millrace {
namespace {

constexpr int kMostMeasuredWaiting = 1024;  // ranges

/// How a process tunes itself is told only when it has changed, so a later report keeps it.
template <class Report>
void KeepTuning(Report& waiting, Report& later) {
  if (!waiting.has_tuning() || later.has_tuning()) return;
  later.mutable_tuning()->Swap(waiting.mutable_tuning());
}

}  // namespace

bool Coalesce(v1::AttachRequest& waiting, v1::AttachRequest& later) {
  if (waiting.has_hello() || waiting.bye() || later.has_hello() || later.bye()) return false;
  if (waiting.has_report() && later.has_report()) {
    KeepTuning(*waiting.mutable_report(), *later.mutable_report());
  }
  waiting = std::move(later);
  return true;
}

bool Coalesce(v1::WorkRequest& waiting, v1::WorkRequest& later) {
  // A worker sends a file list only once for each request, so no later message may replace it.
  const auto& datasets = waiting.datasets();
  const bool lists = std::any_of(datasets.begin(), datasets.end(), [](const auto& dataset) {
    return dataset.second.file_list_size() > 0;
  });
  // Nor what it has measured, which it sends again only after a while.
  if (waiting.bye() || lists || waiting.measured_size() > kMostMeasuredWaiting) return false;
  KeepTuning(waiting, later);
  auto measured = std::move(*waiting.mutable_measured());
  for (v1::Measured& some : *later.mutable_measured()) *measured.Add() = std::move(some);
  waiting = std::move(later);
  *waiting.mutable_measured() = std::move(measured);
  return true;
}

void CoalesceOut(v1::AttachResponse& waiting, v1::AttachResponse&& later) {
  if (later.has_trace()) waiting.clear_trace();
  MergeInto(waiting, std::move(later));
}

void CoalesceOut(v1::WorkResponse& waiting, v1::WorkResponse&& later) {
  // Plans and asks for traces are two subjects. Neither of them replaces the other.
  if (later.has_trace() && !later.has_id()) {
    *waiting.mutable_trace() = std::move(*later.mutable_trace());
    return;
  }
  if (waiting.has_trace()) *later.mutable_trace() = std::move(*waiting.mutable_trace());
  waiting = std::move(later);
}

}  // namespace millrace
