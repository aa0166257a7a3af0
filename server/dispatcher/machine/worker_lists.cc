#include "server/dispatcher/machine/worker_lists.h"

#include <algorithm>
#include <span>
#include <utility>
#include <variant>

#include <fmt/core.h>

#include "common/base/hash.h"
#include "common/base/mutant.h"
#include "server/dispatcher/machine/event_texts.h"
#include "server/dispatcher/machine/usable_workers.h"

namespace millrace {
namespace {

/// So many more workers are kept in order than a list has members, so that a worker that leaves
/// seldom makes it necessary to look at all of them.
constexpr std::size_t kSpare = 8;

/// A worker that is idle for less may just be about to be asked.
constexpr Duration kIdleFor = std::chrono::milliseconds(250);
constexpr Duration kBasesEvery = std::chrono::milliseconds(250);

/// A list that the consumer's reports do not name is lost after so long.
constexpr Duration kSentAgain = std::chrono::seconds(1);

/// The workers that fail the consumer of a report for good.
std::set<WorkerId> FailingForGood(const SessionFacts& session) {
  std::set<WorkerId> workers;
  for (const auto& [id, failing] : session.failing) {
    if (FailsForGood(failing)) workers.insert(id);
  }
  return workers;
}

std::set<WorkerId> FailingForGood(const v1::Report& report) {
  std::set<WorkerId> workers;
  for (const v1::Failing& failing : report.failing()) {
    FailingWorker worker;
    worker.code = static_cast<StatusCode>(failing.code());
    if (failing.refused_size() > 0) worker.refused.emplace();
    if (FailsForGood(worker)) workers.insert(WorkerId(FromProto(failing.worker())));
  }
  return workers;
}

bool SameForLists(const Worker& worker, const v1::WorkRequest& report) {
  const v1::WorkerRef& before = worker.report.self();
  const v1::WorkerRef& now = report.self();
  return worker.report.draining() == report.draining() && before.address() == now.address() &&
         before.host_id() == now.host_id() && before.unix_socket() == now.unix_socket() &&
         worker.ready == ReadyPlans(report);
}

}  // namespace

void WorkerLists::AddTo(SessionId id, v1::AttachResponse& response) {
  const SessionFacts& session = *facts_.FindSession(id);
  Refresh();
  transition_.Apply(NeededBy(session));
  std::vector<WorkerId> members = MembersOf(session, *response.mutable_list());
  const std::string text = response.list().SerializeAsString();
  transition_.Apply(
      ListSent{id, std::move(members), Xxh3_64(std::as_bytes(std::span(text))), transition_.now()});
  response.mutable_list()->set_number(session.list.number);
  changed_sessions_.erase(id);
}

void WorkerLists::OnReport(SessionId id) {
  const SessionFacts& session = *facts_.FindSession(id);
  Refresh();
  const std::uint32_t before = session.list.size.members();
  transition_.Apply(NeededBy(session));
  GrowIfShort(session);
  if (session.list.size.members() != before) changed_sessions_.insert(id);
  const bool is_lost = session.report->list() < session.list.number &&
                       transition_.now() - session.list.sent >= kSentAgain;
  if (is_lost || changed_sessions_.contains(id)) Send(session, is_lost);
}

void WorkerLists::GrowIfShort(const SessionFacts& session) {
  if (IsMutant(Mutant::kListsNeverGrow)) return;
  const Time now = transition_.now();
  const ListSize& size = session.list.size;
  if (!session.report->asks() || !size.MayDouble(now)) return;
  if (session.waited == Time{} || now - session.waited > ListSize::kDoubleEvery) return;
  if (!IdleOutside(session)) return;
  const std::uint32_t before = size.members();
  transition_.Apply(ListDoubled{session.id, now});
  transition_.Note({.kind = EventKind::kListGrew,
                    .text = fmt::format("{} may ask {} workers, where it could ask {}: its loop "
                                        "waits, and workers outside its list are idle",
                                        ConsumerSubject(session.hello), size.members(), before),
                    .job = session.hello.job(),
                    .peer = session.hello.where()});
}

bool WorkerLists::IdleOutside(const SessionFacts& session) const {
  if (idle_.empty()) return false;
  const First& first = FirstOf(session, session.list.size.members());
  if (first.places.size() <= session.list.size.members() && first.all) return false;
  const ListPlace last = first.places[session.list.size.members() - 1];
  return std::any_of(idle_.begin(), idle_.end(), [&](const auto& idle) {
    const auto [id, since] = idle;
    const Worker* worker = facts_.FindWorker(id);
    return transition_.now() - since >= kIdleFor && worker != nullptr &&
           IsUsable(*worker, session, transition_.now(), options_) && !FailsForGood(session, id) &&
           last < first.order.Of(*worker);
  });
}

ListNeeded WorkerLists::NeededBy(const SessionFacts& session) {
  std::uint32_t used = 0;
  if (session.report) {
    used = session.report->used();
  } else if (session.early_report) {
    used = session.early_report->used();
  }
  const Plan& plan = PlanOf(session);
  return {session.id, std::max(used, plan.base), plan.most, transition_.now()};
}

const WorkerLists::Plan& WorkerLists::PlanOf(const SessionFacts& session) {
  const Plan& plan = plans_[session.plan->fingerprint];
  if (!plan.known || (bases_stale_ && transition_.now() - bases_computed_ >= kBasesEvery)) {
    ComputeBases();
  }
  return plan;
}

std::map<std::string_view, std::uint32_t> WorkerLists::ListSizes(
    const std::map<std::string_view, double>& consumers) const {
  struct Sum {
    std::uint64_t workers = 0;
    double consumers = 0;  // over its workers
  };
  std::map<std::string_view, Sum> sums;
  for (const auto& [id, worker] : facts_.workers()) {
    if (!IsHeard(worker, transition_.now(), options_) || worker.draining()) continue;
    // The plans of a worker share it.
    double all = 0;
    for (const std::string& plan : worker.ready) {
      if (const auto found = consumers.find(plan); found != consumers.end()) all += found->second;
    }
    for (const std::string& plan : worker.ready) {
      if (!consumers.contains(plan)) continue;
      Sum& sum = sums[plan];
      ++sum.workers;
      sum.consumers += all;
    }
  }
  std::map<std::string_view, std::uint32_t> sizes;
  for (const auto& [plan, count] : consumers) {
    const Sum& sum = sums[plan];
    const double each = sum.workers == 0 ? 1 : sum.consumers / static_cast<double>(sum.workers);
    sizes[plan] = BaseListSize(sum.workers, each);
  }
  return sizes;
}

void WorkerLists::ComputeBases() {
  bases_stale_ = false;
  bases_computed_ = transition_.now();
  // Consumers of plans, and of them those that take all they can get: one that uses half of a list
  // of the base size counts half.
  std::map<std::string_view, double> consumers;
  std::map<std::string_view, double> greedy;
  for (const auto& [id, session] : facts_.sessions()) {
    if (session.live) consumers[session.plan->fingerprint] += 1;
  }
  std::erase_if(plans_, [&](const auto& plan) { return !consumers.contains(plan.first); });
  for (const auto& [plan, size] : ListSizes(consumers)) {
    plans_[std::string(plan)] = {size, size, true};
  }
  for (const auto& [id, session] : facts_.sessions()) {
    if (!session.live) continue;
    const double base = plans_.find(session.plan->fingerprint)->second.base;
    greedy[session.plan->fingerprint] +=
        session.report ? std::min(1.0, session.report->used() / base) : 1;
  }
  for (const auto& [plan, size] : ListSizes(greedy)) {
    Plan& known = plans_.find(plan)->second;
    known.most = std::max(known.base, size);
  }
  for (const auto& [id, session] : facts_.sessions()) {
    if (!session.live) continue;
    const Plan& plan = plans_.find(session.plan->fingerprint)->second;
    if (session.list.number == 0 || plan.base <= session.list.size.members()) continue;
    transition_.Apply(ListNeeded{id, plan.base, plan.most, transition_.now()});
    changed_sessions_.insert(id);
    look_ = true;
  }
}

void WorkerLists::Fill(const SessionFacts& session, std::size_t members, First& first) const {
  std::vector<ListPlace> usable;
  std::vector<ListPlace> failing;  // for good
  for (const auto& [id, worker] : facts_.workers()) {
    if (!IsUsable(worker, session, transition_.now(), options_)) continue;
    (FailsForGood(session, id) ? failing : usable).push_back(first.order.Of(worker));
  }
  first.places = usable.empty() ? std::move(failing) : std::move(usable);
  const std::size_t kept = std::max<std::size_t>(2 * members, members + kSpare);
  first.all = first.places.size() <= kept;
  if (!first.all) {
    std::nth_element(first.places.begin(), first.places.begin() + static_cast<std::ptrdiff_t>(kept),
                     first.places.end());
    first.places.resize(kept);
  }
  std::sort(first.places.begin(), first.places.end());
}

const WorkerLists::First& WorkerLists::FirstOf(const SessionFacts& session,
                                               std::size_t members) const {
  const auto found = first_.find(session.id);
  if (found != first_.end()) {
    First& first = found->second;
    if (!first.all && first.places.size() < members) Fill(session, members, first);
    return first;
  }
  First& first = first_.emplace(session.id, First{ListOrder(session), {}, false}).first->second;
  Fill(session, members, first);
  return first;
}

bool WorkerLists::HasMembers(const SessionFacts& session) const {
  return session.plan && !FirstOf(session, 1).places.empty();
}

bool WorkerLists::Place(const SessionFacts& session, WorkerId id, First& first) const {
  auto& places = first.places;
  const auto known = std::find_if(places.begin(), places.end(),
                                  [id](const ListPlace& place) { return place.worker == id; });
  const bool was = known != places.end();
  if (was) places.erase(known);
  const Worker* worker = facts_.FindWorker(id);
  if (worker == nullptr || !IsUsable(*worker, session, transition_.now(), options_)) return was;
  const ListPlace place = first.order.Of(*worker);
  const auto at = std::lower_bound(places.begin(), places.end(), place);
  // Workers behind the last one that is kept are not known, unless all are.
  if (at == places.end() && !first.all) return was;
  places.insert(at, place);
  return true;
}

void WorkerLists::Refresh() {
  if (changed_workers_.empty()) return;
  const std::set<WorkerId> workers = std::exchange(changed_workers_, {});
  for (auto& [id, first] : first_) {
    const SessionFacts& session = *facts_.FindSession(id);
    if (!session.failing.empty() && !FailingForGood(session).empty()) {
      // The order depends on whether any other worker is left.
      Fill(session, session.list.size.members(), first);
      changed_sessions_.insert(id);
      continue;
    }
    for (const WorkerId worker : workers) {
      if (Place(session, worker, first)) changed_sessions_.insert(id);
    }
    if (first.places.size() < session.list.size.members() && !first.all) {
      Fill(session, session.list.size.members(), first);
    }
    const std::size_t most = 4 * (session.list.size.members() + kSpare);
    if (first.places.size() > most) {
      first.places.resize(most / 2);
      first.all = false;
    }
  }
  bases_stale_ = true;
}

std::vector<WorkerId> WorkerLists::MembersOf(const SessionFacts& session,
                                             v1::WorkerList& list) const {
  const std::size_t size = session.list.size.members();
  const First& first = FirstOf(session, size);
  std::vector<WorkerId> members;
  members.reserve(std::min(size, first.places.size()));
  for (const ListPlace& place : first.places) {
    if (members.size() >= size) break;
    members.push_back(place.worker);
    ToProto(*facts_.FindWorker(place.worker), list.add_workers());
  }
  return members;
}

void WorkerLists::Send(const SessionFacts& session, bool again) {
  if (room_ == 0 || transition_.now() - session.list.sent < options_.list_every) return;
  changed_sessions_.erase(session.id);
  v1::AttachResponse response;
  std::vector<WorkerId> members = MembersOf(session, *response.mutable_list());
  room_ -= std::min(room_, members.size() + 1);
  const std::string text = response.list().SerializeAsString();
  const std::uint64_t digest = Xxh3_64(std::as_bytes(std::span(text)));
  if (!again && members == session.list.members && digest == session.list.digest) return;
  const bool has_members = !members.empty();
  transition_.Apply(ListSent{session.id, std::move(members), digest, transition_.now()});
  response.mutable_list()->set_number(session.list.number);
  response.set_term(facts_.term());
  if (has_members && !session.why.empty()) transition_.Apply(SessionTold{session.id, ""});
  transition_.Do(SendAttach{session.stream, std::move(response)});
}

void WorkerLists::SendChanged() {
  if (!std::exchange(look_, false)) return;
  Refresh();
  if (bases_stale_ && transition_.now() - bases_computed_ >= kBasesEvery) ComputeBases();
  look_ = false;
  const auto turn = changed_sessions_.upper_bound(turn_);
  std::vector<SessionId> changed(turn, changed_sessions_.end());
  changed.insert(changed.end(), changed_sessions_.begin(), turn);
  for (const SessionId id : changed) {
    if (room_ == 0) break;
    turn_ = id;
    const SessionFacts* session = facts_.FindSession(id);
    // A Welcome brings the list to a session that is away or not live yet.
    if (session == nullptr || session->stream == 0 || session->list.number == 0) {
      changed_sessions_.erase(id);
    } else {
      Send(*session);
    }
  }
}

void WorkerLists::Tick() {
  for (const auto& [id, worker] : facts_.workers()) {
    const bool heard = IsHeard(worker, transition_.now(), options_);
    if (heard == heard_.contains(id)) continue;
    changed_workers_.insert(id);
    if (heard) {
      heard_.insert(id);
    } else {
      heard_.erase(id);
    }
  }
  look_ = true;
  room_ = kMembersATick;
}

void WorkerLists::WillApply(const Update& update) {
  const auto changed = [this](WorkerId worker) {
    changed_workers_.insert(worker);
    look_ = true;
  };
  if (const auto* reported = std::get_if<WorkerReported>(&update)) {
    const Worker& worker = *facts_.FindWorker(reported->id);
    const bool heard = IsHeard(worker, transition_.now(), options_);
    if (!heard || !SameForLists(worker, reported->report)) changed(reported->id);
    heard_.insert(reported->id);
    if (reported->report.idle_threads() > 0) {
      idle_.try_emplace(reported->id, transition_.now());
    } else {
      idle_.erase(reported->id);
    }
  } else if (const auto* left = std::get_if<WorkerLeft>(&update)) {
    heard_.erase(left->id);
    idle_.erase(left->id);
    changed(left->id);
  } else if (const auto* drained = std::get_if<WorkerDrained>(&update)) {
    changed(drained->id);
  } else if (const auto* undrained = std::get_if<WorkerUndrained>(&update)) {
    changed(undrained->id);
  } else if (const auto* forgotten = std::get_if<StreamForgotten>(&update)) {
    const StreamFacts* stream = facts_.FindStream(forgotten->id);
    const Worker* worker = stream == nullptr ? nullptr : facts_.FindWorker(stream->worker);
    if (worker != nullptr && worker->stream == forgotten->id) changed(worker->id);
  } else if (std::holds_alternative<TimeGranted>(update)) {
    for (const auto& [id, worker] : facts_.workers()) changed(id);
  } else if (const auto* said = std::get_if<SessionReported>(&update)) {
    const SessionFacts& session = *facts_.FindSession(said->id);
    if (!session.report || session.report->used() != said->report.used()) bases_stale_ = true;
    if (session.failing.empty() && said->report.failing().empty()) return;
    if (FailingForGood(session) == FailingForGood(said->report)) return;
    first_.erase(said->id);
    changed_sessions_.insert(said->id);
  } else if (std::holds_alternative<SessionAdmitted>(update)) {
    bases_stale_ = true;
  } else if (const auto* ended = std::get_if<SessionEnded>(&update)) {
    first_.erase(ended->id);
    changed_sessions_.erase(ended->id);
    bases_stale_ = true;
  }
}

}  // namespace millrace
