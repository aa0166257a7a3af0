// Prints what a session's state machine knows, as text for people who look for a fault.

#include <string>

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
      "next step {} at {} window {} held {} bytes {} largest {} loop holds {} step {:.6f} s\n"
      "waits for {} since {:.3f} s wants more {} members {} used {}\n",
      admission.fingerprint.ToString(), admission.start.ToString(), next(),
      steps().At(next()).ToString(), window(), held_batches(), held_bytes(), largest_bytes(),
      stock_.loop_holds(), pace_.step_seconds(), WaitCauseName(cause()), ago(waits_.cause_since()),
      dealing_.wants_more(), workers_.members().size(), streams_.MembersUsed());
  for (const auto& [step, asks] : asks_.steps()) {
    for (const Ask& ask : asks.all()) {
      out += fmt::format("step {} asked of {} {:.3f} s ago, due {:.3f} s ago{}{}{}\n", step,
                         ask.worker.ToString(), ago(ask.asked), ago(ask.due),
                         ask.kind == AskKind::kCopy ? " copy" : "", ask.shared ? " shared" : "",
                         ask.built ? " built" : "");
    }
  }
  for (const auto& [id, link] : workers_.all()) {
    out += fmt::format("worker {} {} place {} stream {} asked {} credit left {} of {}{}{}\n",
                       id.ToString(), link.where.address,
                       link.place ? std::to_string(*link.place) : "none", link.stream.id,
                       asks_.Of(id).steps.size(), link.credit_left(), link.stream.credit,
                       link.stream.writing ? " writing" : "", link.drains ? " drains" : "");
    if (link.stream.spoke()) {
      const WorkerWord& word = *link.stream.word;
      out += fmt::format(
          "  slots {} batch {:.6f} s threads {:.3f} split {} building {} twins {} round trip "
          "{:.6f} "
          "s late {:.3f} s\n",
          word.slots, word.batch_seconds, word.threads, word.split, word.building.size(),
          word.twins.size(), link.stream.round_trip, ToSeconds(link.stream.lag));
    }
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
