#include "server/dispatcher/machine/transition.h"

#include <algorithm>

#include <fmt/format.h>

namespace millrace {
namespace {

/// The status with the code that a consumer acts on. A consumer ends at ABORTED and
/// FAILED_PRECONDITION, and one that is not admitted yet at PERMISSION_DENIED too. It tries again
/// after all other codes. So an error that no second try can cure becomes FAILED_PRECONDITION.
Status ForConsumer(const Status& status) {
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kOutOfRange:
    case StatusCode::kNotFound:
    case StatusCode::kAlreadyExists:
    case StatusCode::kUnimplemented:
    case StatusCode::kInternal:
    case StatusCode::kUnknown:
      return FailedPrecondition(status.message());
    default:
      return status;
  }
}

}  // namespace

Transition::Transition(const DispatcherOptions& options, Moment now,
                       std::function<void(const Update&)> watch)
    : options_(options), watch_(std::move(watch)), now_(now) {}

void Transition::Apply(const Update& update) {
  watch_(update);
  facts_.Apply(update);
}

Number Transition::NewNumber() {
  Apply(NumberIssued{});
  return facts_.last_number();
}

void Transition::Log(LogLevel level, std::string event,
                     std::vector<std::pair<std::string, std::string>> fields) {
  Do(LogEvent{level, std::move(event), std::move(fields)});
}

void Transition::Close(StreamId stream, const Status& status) {
  const StreamFacts* open = facts_.FindStream(stream);
  if (open == nullptr) return;
  Do(CloseStream{stream, open->of_worker ? status : ForConsumer(status)});
  Apply(StreamForgotten{stream});
}

void Transition::Begin(Moment now) {
  // A long gap between events is a pause of this process. It could hear nobody meanwhile.
  const Duration late = now.time - now_.time - options_.tick;
  const bool paused = late > options_.late_tick;
  if (paused) {
    Log(LogLevel::kWarning, "paused", {{"seconds", fmt::format("{:.1f}", ToSeconds(late))}});
    Apply(TimeGranted{late});
  }
  now_.unix_seconds = now.unix_seconds;
  now_.time = std::max(now_.time, now.time);
  if (paused) {
    Note({.kind = EventKind::kPaused,
          .text = fmt::format("This dispatcher stood still for {:.1f} s", ToSeconds(late))});
  }
}

std::optional<std::string> Transition::TakeMarked() {
  if (marked_.empty()) return std::nullopt;
  return std::move(marked_.extract(marked_.begin()).value());
}

}  // namespace millrace
