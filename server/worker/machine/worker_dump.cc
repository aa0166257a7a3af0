// Writes all that a worker's state machine and its queue know, as text for people who look for a
// fault.

#include <array>

#include <fmt/core.h>

#include "server/worker/machine/worker_machine.h"

namespace millrace {

std::string BuildQueue::Dump() const {
  std::string out = fmt::format("queue {} batches to build, {} bytes built and {} kept of {}\n",
                                pending_, built_bytes(), kept_bytes(), memory_budget());
  for (const auto& [name, job] : jobs_) {
    out += fmt::format("job {} weight {:.0f} time {:.6f} mean {:.6f} s active {}\n", name,
                       job.weight, job.time, job.mean_seconds, job.active);
  }
  for (const auto& [id, stream] : streams_) {
    std::array<std::size_t, 5> in_state{};
    for (const auto& [at, entry] : stream.entries)
      ++in_state[static_cast<std::size_t>(entry.state)];
    out += fmt::format(
        "wants of stream {} job {} plan {} rank {} of {} next {} until {} credit {} of {}{} "
        "refused "
        "{}: {} pending, {} being built, {} built with {} bytes, {} sent\n",
        id, stream.job, stream.plan, stream.place.rank, stream.place.world_size,
        stream.next.ToString(), stream.until ? stream.until->ToString() : "no end",
        stream.credit_used, stream.credit, stream.asks ? " asks" : "", stream.refused.size(),
        in_state[1], in_state[2], in_state[3], stream.built_bytes, in_state[4]);
  }
  return out;
}

std::string WorkerMachine::Dump() const {
  const auto ago = [this](Time t) { return ToSeconds(last_tick_ - t); };
  std::string out = fmt::format(
      "worker {} {} at {} term {}{}\n"
      "dispatcher {} attempt {} open {} registered {} writing {} heard {:.3f} s ago reported "
      "{:.3f} s ago\n",
      id_.ToString(), options_.name, options_.address, term_, draining() ? " draining" : "",
      dispatcher(), work_.attempt, work_.open, work_.registered, work_.writing, ago(work_.heard),
      ago(work_.reported));
  for (const auto& [fingerprint, plan] : plans_) {
    out += fmt::format("plan {} {} {}\n", fingerprint, v1::PlanPhase_Name(plan.phase),
                       plan.error.ToString());
  }
  constexpr std::array<const char*, 3> kWriting = {"nothing", "part", "batch"};
  for (const auto& [id, stream] : streams_) {
    out += fmt::format(
        "stream {} of {} session {} slots {} threads {:.3f} writes {} control parts {} wants "
        "{:.3f} "
        "s ago{}{}\n",
        id, stream.peer.address, stream.session.ToString(), stream.figures.slots,
        stream.figures.threads_milli / 1e3, kWriting[static_cast<std::size_t>(stream.writing)],
        stream.control.size(), ago(stream.wants_heard),
        stream.blocked_since ? fmt::format(" waits for credit {:.3f} s", ago(*stream.blocked_since))
                             : "",
        stream.going_away_said ? " going away" : "");
  }
  return out + queue_.Dump();
}

}  // namespace millrace
