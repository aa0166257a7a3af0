// What a session's state machine knows, as text for people who look for a fault.

#include <fmt/core.h>

#include "client/session/machine/session_machine.h"

namespace millrace::client {

std::string SessionMachine::Dump() const {
  const auto ago = [this](Time t) { return ToSeconds(now_ - t); };
  std::string out = fmt::format(
      "session {} job {} rank {} replica {} of {} status {}\n"
      "dispatcher {} stream {} heard {:.3f} s ago writing {} reported {:.3f} s ago to step {} "
      "failures {} term {} waiting '{}'\n",
      session_.ToString(), options_.hello.job(), options_.hello.rank(), options_.hello.replica(),
      options_.hello.world_size(), status_.ToString(), address(), attach_.stream,
      ago(attach_.heard), attach_.writing, ago(reported_), asked_until_, attach_.failures,
      highest_term_, waiting_why_);
  if (!admission_) return out;
  out += fmt::format(
      "plan {} start {}\n"
      "next step {} at {} window {} leased ahead {} held {} bytes {} largest {} loop holds {}\n"
      "waits for {} since {:.3f} s self-leasing {}\n",
      admission_->fingerprint.ToString(), admission_->start.ToString(), next_,
      steps_->At(next_).ToString(), window(), lease_window(), held_.size(), held_bytes_,
      largest_bytes_, loop_holds_, WaitCauseName(cause_), ago(cause_since_), self_leasing_);
  for (const auto& [id, held] : leases_.all()) {
    out += fmt::format("lease {} of worker {} steps {} to {} lacks from {} room {}{}\n",
                       id.ToString(), held.lease.worker.id.ToString(), held.shard_first, held.end,
                       held.first, held.room, held.lease.copy ? " copy" : "");
  }
  for (const auto& [id, link] : workers_.all()) {
    out += fmt::format("worker {} {} stream {} owes {} room {} credit left {} of {}{}{}\n",
                       id.ToString(), link.where.address, link.stream.id, link.stream.owed,
                       link.room, link.credit_left(), link.stream.credit,
                       link.stream.writing ? " writing" : "", link.drains ? " drains" : "");
    if (link.failing_until > now_) {
      out += fmt::format("  failing for {:.3f} s: {}\n", ToSeconds(link.failing_until - now_),
                         link.reason);
    }
    if (link.refusal) {
      out += fmt::format("  refuses before step {}: {} {}\n", link.refusal->until,
                         StatusCodeName(link.refusal->code), link.refusal->reason);
    }
  }
  return out;
}

}  // namespace millrace::client
