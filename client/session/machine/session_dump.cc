// Prints what a session's state machine knows, as text for people who look for a fault.

#include <fmt/core.h>

#include "client/session/machine/session_machine.h"

namespace millrace::client {

std::string SessionMachine::Dump() const {
  const auto ago = [this](Time t) { return ToSeconds(now_ - t); };
  std::string out = fmt::format("status {}\n", status_.ToString()) + attach_.Dump(now_);
  if (!attach_.admission()) return out;
  const Admission& admission = *attach_.admission();
  out += fmt::format(
      "plan {} start {}\n"
      "next step {} at {} window {} leased ahead {} asked to step {} held {} bytes {} largest {} "
      "loop holds {}\n"
      "waits for {} since {:.3f} s self-leasing {}\n",
      admission.fingerprint.ToString(), admission.start.ToString(), next(),
      steps().At(next()).ToString(), window(), lease_window(), stock_.asked_until(), held_batches(),
      held_bytes(), largest_bytes(), stock_.loop_holds(), WaitCauseName(cause()),
      ago(waits_.cause_since()), self_leases_.self_leasing());
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
    for (const auto& [step, why] : link.tried) {
      out += fmt::format("  has tried step {}: {}\n", step, why);
    }
  }
  return out;
}

}  // namespace millrace::client
