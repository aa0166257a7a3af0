#include "client/session/machine/session_tuning.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>

#include "common/base/wait_cause.h"
#include "common/transport/convert/tuning.h"

namespace millrace::client {
namespace {

/// The stock keeps in its worst moment as many batches as the loop takes in this time, so that the
/// loop does not wait if a worker is lost: that is noticed after 3 s. But no more than these bytes,
/// and no fewer than these batches.
constexpr double kCoverSeconds = 4;
constexpr double kCoverBytes = 16 << 20;
constexpr double kLeastCover = 2;
/// A session begins with kCoverBytes or, if these are more, the bytes of so many batches, so that
/// several workers build for it.
constexpr double kFirstBatches = 32;
/// Fewer bytes are worth a change if they are at most such a share of the present ones.
constexpr double kWorthIt = 0.75;

/// Whether more bytes ahead could prevent waits for this cause. They cannot while the session is
/// not admitted, and where the loop itself holds the batches.
bool AheadHelps(WaitCause cause) {
  return cause != WaitCause::kNone && cause != WaitCause::kAttach && cause != WaitCause::kSlot;
}

}  // namespace

SessionTuning::SessionTuning(SessionContext& context)
    : context_(context),
      settings_{{.name = "prefetch_bytes",
                 .value = static_cast<double>(context.options.prefetch_bytes),
                 .least = 0,
                 .most = static_cast<double>(context.options.prefetch_bytes),
                 .pinned = !context.options.tune}} {}

void SessionTuning::Start(const SessionStats& counted, Time now) {
  if (settings_[kAhead].pinned) return;
  started_ = true;
  began_ = now;
  before_ = counted;
  second_ = {.fewest = std::numeric_limits<std::uint64_t>::max()};
}

void SessionTuning::OnTaken(const Stock& stock) {
  if (!sized_) return BeginWith(std::max(kCoverBytes, kFirstBatches * stock.MeanBytes()));
  ++second_.taken;
  // Batches that still come from a larger window are not kept.
  const std::uint64_t left = std::min(stock.held_batches(), stock.window());
  second_.fewest = std::min(second_.fewest, left);
  second_.most = std::max(second_.most, left);
  second_.fell = std::max(second_.fell, second_.most - left);
}

void SessionTuning::BeginWith(double bytes) {
  sized_ = true;
  tune::Setting& ahead = settings_[kAhead];
  if (ahead.pinned || bytes >= ahead.most) return;
  ahead.value = bytes;
  Apply();
}

void SessionTuning::Apply() {
  ++changes_;
  context_.ahead_bytes = static_cast<std::uint64_t>(settings_[kAhead].value);
  context_.stale.MarkGrantsDue();
}

std::uint64_t SessionTuning::Fell() const {
  std::uint64_t fell = 0;
  std::uint64_t most = 0;
  for (const Second& second : seconds_) {
    fell = std::max({fell, second.fell, most - std::min(most, second.fewest)});
    most = std::max(most, second.most);
  }
  return fell;
}

double SessionTuning::Enough(double cover, const Stock& stock, std::size_t workers) const {
  // A stock that still grows has few batches only because it began with none. With several workers
  // it shows nothing: what is not held is under way, and so many batches have to be built at once.
  const bool grows = seconds_.back().fewest > seconds_.front().most;
  if (grows && workers <= 1) return static_cast<double>(Fell()) + cover;
  std::uint64_t fewest = std::numeric_limits<std::uint64_t>::max();
  for (const Second& second : seconds_) fewest = std::min(fewest, second.fewest);
  // A window is one batch more than fits in the bytes.
  const double held = std::min(settings_[kAhead].value / stock.MeanBytes(),
                               static_cast<double>(stock.window()) - 1);
  return held - std::max(0.0, static_cast<double>(fewest) - cover);
}

void SessionTuning::Propose(const Stock& stock, Supplied supplied) {
  seconds_.push_back(second_);
  if (seconds_.size() > tune::Tuner::kCalm) seconds_.pop_front();
  tune::Setting& ahead = settings_[kAhead];
  double taken = 0;
  double longest_wait = 0;
  for (const Second& second : seconds_) {
    taken += static_cast<double>(second.taken);
    longest_wait = std::max(longest_wait, second.waited);
  }
  const double mean = stock.MeanBytes();
  const double rate = taken / static_cast<double>(seconds_.size());
  // The batches that the loop would have taken while it waited, and half as many again. A stock
  // that is never full may need them too: the few batches that it has room for are then built by
  // one or two workers at a time, and the loop waits for each of them.
  const double missing = 1.5 * (longest_wait * rate + 1) * mean;
  ahead.up = std::max(2 * ahead.value, ahead.value + missing);
  const double cover = std::max(kLeastCover, std::min(kCoverSeconds * rate, kCoverBytes / mean));
  const double enough = std::max(Enough(cover, stock, supplied.workers) * mean, mean);
  const bool worth_it = seconds_.size() == tune::Tuner::kCalm && enough <= kWorthIt * ahead.value;
  ahead.down = worth_it ? enough : ahead.value;
  if (supplied.wants_more) ahead.up = ahead.down = ahead.value;
}

void SessionTuning::Look(const SessionStats& counted, const Stock& stock, Supplied supplied,
                         Time now) {
  const double seconds = ToSeconds(now - began_);
  tune::Sample sample;
  sample.rate = static_cast<double>(counted.batches - before_.batches) / seconds;
  // A batch that was here when the step before it began had the whole step to be expanded: others
  // had the CPU, and more bytes ahead would change nothing.
  const bool expanded_late = second_.taken > 0 && second_.fewest > 0;
  double most = 0;
  double waited = 0;
  for (std::size_t i = 0; i < kWaitCauses; ++i) {
    const auto cause = static_cast<WaitCause>(i);
    const double apart = counted.waited_seconds[i] - before_.waited_seconds[i];
    if (!AheadHelps(cause) || (cause == WaitCause::kExpand && expanded_late)) continue;
    waited += apart;
    if (apart > most) {
      most = apart;
      sample.waited_for = WaitCauseName(cause);
    }
  }
  sample.waiting = std::clamp(waited / seconds, 0.0, 1.0);
  // A loop that does nothing says nothing about what it needs; nor does one that still takes what
  // came before less was received ahead.
  const bool drains = stock.held_batches() > stock.window();
  if ((second_.taken > 0 || sample.waiting > 0) && !drains) {
    if (second_.taken == 0) second_.fewest = 0;
    second_.waited = std::min(waited, seconds);
    Propose(stock, supplied);
    if (tuner_.Step(sample, settings_, now)) {
      context_.logger->Info("tuning", {{"decision", tune::ToLine(tuner_.decisions().back())}});
      if (settings_[kAhead].value < static_cast<double>(context_.ahead_bytes)) {
        context_.actions.Put(TrimMemory{});
      }
      Apply();
      seconds_.clear();
    }
  }
  Start(counted, now);
}

void SessionTuning::AddTimes(NextDue& next) const {
  if (started_) next.At(began_ + kSecond);
}

void SessionTuning::AddTo(v1::Tuning& tuning, Time now) const {
  ToProto(settings_, tuner_, now, tuning);
}

}  // namespace millrace::client
