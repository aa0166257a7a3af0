// Measures how a builder thread spends its time, and knows its current stage.
//
// Not thread-safe, except stage(); each builder thread needs its own.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/operations/program.h"
#include "server/plan/plan.h"

namespace millrace {

/// The stages of a plan that take a worker's time. A single closure is too short to be timed alone,
/// so kReading includes the fields; it has the name that the source gives it. Between it and batch,
/// each phase of the program that computes tensors is a stage of its own.
enum class TimedStage : std::uint8_t { kShuffle, kReading, kBatch };

/// Sums of seconds, one for each stage. A batch reads the clock once per stage, and once more.
class StageClock final : public ProgramObserver {
 public:
  /// `phases`: the phases of the program that computes tensors (Program::phases); empty without a
  /// program. `reading`: the source's own stage (SourceFacts::reading_stage).
  explicit StageClock(std::span<const std::string> phases = {},
                      std::string_view reading = "closure") {
    names_ = {"shuffle", std::string(reading)};
    for (const std::string& phase : phases)
      names_.push_back(std::string(Program::kStagePrefix) + phase);
    names_.emplace_back("batch");
    seconds_.resize(names_.size());
  }

  /// Starts the clock with this stage. The time before this call counts for no stage.
  void Begin(TimedStage stage) {
    last_ = std::chrono::steady_clock::now();
    stage_.store(NumberOf(stage), std::memory_order_relaxed);
  }
  /// Counts the time since the present stage began for it, and goes to `stage`.
  void Next(TimedStage stage) { GoTo(NumberOf(stage)); }
  /// Counts the time of the last stage.
  void End() { GoTo(names_.size()); }

  void OnPhase(std::size_t phase) override { GoTo(kFirstPhase + phase); }
  void OnEnd() override { Next(TimedStage::kBatch); }

  /// The stage that runs now; empty between batches. Any thread may ask.
  std::string_view stage() const {
    const std::size_t stage = stage_.load(std::memory_order_relaxed);
    return stage < names_.size() ? names_[stage] : std::string_view();
  }
  /// In the order in which the stages run. Names may repeat. They live as long as the clock.
  std::vector<BatchScratch::StageTime> times() const {
    std::vector<BatchScratch::StageTime> times;
    times.reserve(names_.size());
    for (std::size_t i = 0; i < names_.size(); ++i) times.push_back({names_[i], seconds_[i]});
    return times;
  }

 private:
  static constexpr std::size_t kFirstPhase = 2;

  std::size_t NumberOf(TimedStage stage) const {
    return stage == TimedStage::kBatch ? names_.size() - 1 : static_cast<std::size_t>(stage);
  }
  void GoTo(std::size_t stage) {
    const auto now = std::chrono::steady_clock::now();
    const std::size_t present = stage_.load(std::memory_order_relaxed);
    if (present < names_.size()) {
      seconds_[present] += std::chrono::duration<double>(now - last_).count();
    }
    last_ = now;
    stage_.store(stage, std::memory_order_relaxed);
  }

  std::vector<std::string> names_;
  std::vector<double> seconds_;
  std::chrono::steady_clock::time_point last_;
  std::atomic<std::size_t> stage_{~std::size_t{0}};  // no stage before the first batch
};

}  // namespace millrace
