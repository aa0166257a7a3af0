#include "server/dispatcher/machine/dispatcher_facts.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include <fmt/format.h>

#include "common/base/addresses.h"
#include "common/base/hash.h"
#include "common/base/wait_cause.h"
#include "common/transport/convert/wait_causes.h"

namespace millrace {
namespace {

constexpr std::size_t kTurnedOutKept = 1024;
constexpr Duration kSampleEvery = std::chrono::seconds(5);
constexpr Duration kSampleSpan = std::chrono::seconds(60);

template <class Map, class Key>
auto* Find(Map& map, const Key& key) {
  const auto it = map.find(key);
  return it == map.end() ? nullptr : &it->second;
}

template <class Map, class Key>
auto& Get(Map& map, const Key& key) {
  const auto it = map.find(key);
  assert(it != map.end());
  return it->second;
}

/// Adds the newest sample. The older samples are kept 5 s apart and reach back for a minute.
void AddSample(std::deque<CounterSample>& samples, const v1::Counters& counters, Time at) {
  CounterSample sample{
      at, counters.batches(), counters.examples(), counters.tokens(), counters.bytes(), 0};
  for (const auto& waited : counters.waited()) sample.waited_seconds += waited.seconds();
  if (!samples.empty() && sample.batches < samples.back().batches) samples.clear();
  if (samples.size() >= 2 && samples.back().at - samples[samples.size() - 2].at < kSampleEvery) {
    samples.pop_back();
  }
  samples.push_back(sample);
  while (samples.size() > 2 && at - samples[1].at >= kSampleSpan) samples.pop_front();
}

using SessionIndex = std::map<std::string, std::set<SessionId>>;

const std::set<SessionId>& FindSessions(const SessionIndex& index, const std::string& key) {
  static const std::set<SessionId> none;
  const auto* numbers = Find(index, key);
  return numbers == nullptr ? none : *numbers;
}

void EraseSession(SessionIndex& index, const std::string& key, SessionId number) {
  const auto it = index.find(key);
  if (it == index.end()) return;
  it->second.erase(number);
  if (it->second.empty()) index.erase(it);
}

double WaitedForWorkers(const v1::Counters& counters) {
  double seconds = 0;
  for (const auto& waited : counters.waited()) {
    if (IsForWorkers(FromProto(waited.cause()))) seconds += waited.seconds();
  }
  return seconds;
}

/// Whether the loop waits for workers now, or has waited for them since its last report.
bool HasWaited(const SessionFacts& session, const v1::Report& report) {
  if (IsForWorkers(FromProto(report.now().cause()))) return true;
  return session.report &&
         WaitedForWorkers(report.counters()) > WaitedForWorkers(session.report->counters());
}

/// A worker has failed again if it is new in the list, or if its remaining time has grown.
void UpdateFailing(SessionFacts& session, const v1::Report& report, Time at) {
  std::map<WorkerId, FailingWorker> failing;
  for (const auto& f : report.failing()) {
    const WorkerId id(FromProto(f.worker()));
    const auto* before = Find(session.failing, id);
    const bool again = before == nullptr || f.remaining_seconds() > before->remaining_seconds;
    failing[id] = {again ? at : before->since,
                   f.remaining_seconds(),
                   static_cast<StatusCode>(f.code()),
                   f.reason(),
                   {}};
    for (const v1::RefusedBatch& batch : f.refused()) {
      failing[id].refused.emplace(FromProto(batch.at()), batch.reason());
    }
  }
  session.failing = std::move(failing);
}

}  // namespace

std::string PlanKey(const v1::PipelineText& pipeline) {
  std::string text = fmt::format("{}:{}{}:{}", pipeline.yaml().size(), pipeline.yaml(),
                                 pipeline.variant().size(), pipeline.variant());
  for (const auto& o : pipeline.overrides()) text += fmt::format("{}:{}", o.size(), o);
  return Xxh3(text).ToHex();
}

std::set<std::string> ReadyPlans(const v1::WorkRequest& report) {
  std::set<std::string> ready;
  for (const auto& plan : report.plans()) {
    if (plan.phase() == v1::READY) ready.insert(plan.fingerprint());
  }
  return ready;
}

std::string RankOfJob(const v1::Hello& hello) {
  if (hello.replica() == 0) return fmt::format("rank {} of job {}", hello.rank(), hello.job());
  return fmt::format("rank {}, replica {} of job {}", hello.rank(), hello.replica(), hello.job());
}

void DispatcherFacts::Apply(const Update& update) {
  std::visit([this](const auto& u) { On(u); }, update);
}

const StreamFacts* DispatcherFacts::FindStream(StreamId id) const { return Find(streams_, id); }
const RequestedPlan* DispatcherFacts::FindPlan(const std::string& key) const {
  return Find(plans_, key);
}
const ColumnFacts* DispatcherFacts::FindColumns(const std::string& key) const {
  return Find(columns_, key);
}
const SessionFacts* DispatcherFacts::FindSession(SessionId id) const { return Find(sessions_, id); }
const SessionFacts* DispatcherFacts::FindSessionByNonce(const std::string& nonce) const {
  const auto* id = Find(session_by_nonce_, nonce);
  return id == nullptr ? nullptr : FindSession(*id);
}
const std::map<std::string, v1::JobEnd>& DispatcherFacts::EndsOf(const std::string& job) const {
  static const std::map<std::string, v1::JobEnd> none;
  const auto found = ends_.find(job);
  return found == ends_.end() ? none : found->second;
}

SessionId DispatcherFacts::EndedNumber(const std::string& nonce) const {
  const auto found = ended_by_nonce_.find(nonce);
  return found == ended_by_nonce_.end() ? SessionId{} : found->second;
}

const Worker* DispatcherFacts::FindWorker(WorkerId id) const { return Find(workers_, id); }
const Worker* DispatcherFacts::FindWorkerByNonce(const std::string& nonce) const {
  const auto* id = Find(worker_by_nonce_, nonce);
  return id == nullptr ? nullptr : FindWorker(*id);
}
const v1::JobRecord* DispatcherFacts::FindRecord(const std::string& job) const {
  return Find(records_, job);
}
std::string DispatcherFacts::OwnerOf(const std::string& job) const {
  const v1::JobRecord* record = FindRecord(job);
  if (record != nullptr && !record->ended() && !record->owner().empty()) return record->owner();
  for (const SessionId id : SessionsOf(job)) {
    if (const std::string& owner = FindSession(id)->owner; !owner.empty()) return owner;
  }
  return {};
}
bool DispatcherFacts::IsInherited(const std::string& job) const {
  const v1::JobRecord* record = FindRecord(job);
  return record != nullptr && !record->ended() && inherited_.contains(job);
}
const std::set<SessionId>& DispatcherFacts::SessionsOf(const std::string& job) const {
  return FindSessions(job_sessions_, job);
}
const std::set<SessionId>& DispatcherFacts::LiveSessionsOf(const std::string& job) const {
  return FindSessions(live_sessions_, job);
}
const std::set<SessionId>& DispatcherFacts::SessionsOfRank(const v1::Hello& hello) const {
  return FindSessions(rank_sessions_, RankOfJob(hello));
}
Number DispatcherFacts::TurnedOut(const std::string& job) const {
  const auto* n = Find(turned_out_, job);
  return n == nullptr ? Number{} : *n;
}
Status DispatcherFacts::StoreError() const {
  for (const auto& [job, write] : writes_) {
    if (!write.error.ok()) return write.error;
  }
  return OkStatus();
}

void DispatcherFacts::Own(StreamId stream, SessionId owner) {
  if (auto* facts = Find(streams_, stream)) facts->session = owner;
}
void DispatcherFacts::Own(StreamId stream, WorkerId owner) {
  if (auto* facts = Find(streams_, stream)) facts->worker = owner;
}

void DispatcherFacts::On(const TermBegun& u) {
  term_ = u.term;
  booted_ = u.at;
  for (const auto& record : u.records) {
    records_[record.name()] = record;
    inherited_.insert(record.name());
  }
}
void DispatcherFacts::On(const NumberIssued&) { ++issued_; }

void DispatcherFacts::On(const TimeGranted& u) {
  booted_ = booted_ + u.by;
  for (auto& [id, stream] : streams_) stream.opened = stream.opened + u.by;
  for (auto& [id, worker] : workers_) worker.heard = worker.heard + u.by;
  for (auto& [key, columns] : columns_) columns.began = columns.began + u.by;
  for (auto& [id, session] : sessions_) {
    session.heard = session.heard + u.by;
    if (session.held_up) session.held_up = *session.held_up + u.by;
    session.list.size.ShiftTimes(u.by);
  }
}

void DispatcherFacts::On(const DatasetOpened& u) { datasets_[u.id] = u.dataset; }
void DispatcherFacts::On(const StreamOpened& u) {
  streams_[u.id] = {u.of_worker, u.at, {}, {}, u.peer};
}

void DispatcherFacts::On(const StreamForgotten& u) {
  const auto it = streams_.find(u.id);
  if (it == streams_.end()) return;
  if (auto* session = Find(sessions_, it->second.session); session && session->stream == u.id) {
    session->stream = 0;
  }
  if (auto* worker = Find(workers_, it->second.worker); worker && worker->stream == u.id) {
    worker->stream = 0;
  }
  streams_.erase(it);
}

void DispatcherFacts::On(const PlanRequested& u) {
  const auto [it, is_new] = plans_.try_emplace(u.key);
  RequestedPlan& plan = it->second;
  plan.key = u.key;
  plan.pipeline = u.pipeline;
  plan.phase = RequestedPlan::Phase::kCompiling;
  if (is_new) plan.used = u.at;
}
void DispatcherFacts::On(const PlanReady& u) {
  RequestedPlan& plan = Get(plans_, u.key);
  plan.phase = RequestedPlan::Phase::kReady;
  plan.facts = u.facts;
  plan.fingerprint = u.facts->fingerprint().ToString();
  plan.error = OkStatus();
  plan.used = u.at;
  plan.lacks.clear();
}
void DispatcherFacts::On(const PlanPutOff& u) {
  RequestedPlan& plan = Get(plans_, u.key);
  plan.phase = RequestedPlan::Phase::kRetrying;
  plan.error = u.error;
  plan.retry_at = u.retry_at;
}
void DispatcherFacts::On(const PlanForgotten& u) { plans_.erase(u.key); }

void DispatcherFacts::On(const PlanLacks& u) {
  RequestedPlan& plan = Get(plans_, u.key);
  plan.phase = RequestedPlan::Phase::kLacksColumns;
  plan.lacks = u.columns;
}

void DispatcherFacts::On(const PlanAsked& u) {
  RequestedPlan& plan = Get(plans_, u.key);
  plan.phase = RequestedPlan::Phase::kAsking;
  plan.question = u.question;
  plan.plugins = u.plugins;
  plan.damage = u.damage;
  plan.asked = u.at;
}

void DispatcherFacts::On(const ColumnsWanted& u) {
  ColumnFacts& columns = columns_[u.key];
  columns.key = u.key;
  columns.set = u.set;
  columns.pipeline = u.pipeline;
  columns.ranges = RangeTable(u.set.examples());
  for (const std::uint64_t range : u.measured) columns.ranges.Done(range);
  columns.began = columns.told = u.at;
}
void DispatcherFacts::On(const RangesGiven& u) {
  RangeTable& ranges = Get(columns_, u.key).ranges;
  for (const std::uint64_t range : u.ranges) ranges.Give(range, u.worker);
}
void DispatcherFacts::On(const RangesTakenBack& u) {
  Get(columns_, u.key).ranges.TakeBack(u.worker);
}
void DispatcherFacts::On(const RangeMeasured& u) { Get(columns_, u.key).ranges.Done(u.range); }
void DispatcherFacts::On(const MeasurerPaced& u) { Get(columns_, u.key).share[u.worker] = u.share; }
void DispatcherFacts::On(const MeasurerFailed& u) {
  Get(columns_, u.key).failing[u.worker] = u.failing;
}
void DispatcherFacts::On(const ColumnsTold& u) { Get(columns_, u.key).told = u.at; }
void DispatcherFacts::On(const ColumnsWhole& u) { Get(columns_, u.key).whole = true; }
void DispatcherFacts::On(const ColumnsForgotten& u) { columns_.erase(u.key); }

void DispatcherFacts::On(const SessionOpened& u) {
  SessionFacts& session = sessions_[u.id];
  session.id = u.id;
  session.hello = u.hello;
  session.plan_key = u.plan_key;
  session.live_before = u.hello.admitted();
  if (const StreamFacts* stream = FindStream(u.stream)) session.owner = stream->peer;
  session.stream = u.stream;
  session.opened = u.at;
  session.heard = u.at;
  session_by_nonce_[u.hello.nonce()] = u.id;
  job_sessions_[u.hello.job()].insert(u.id);
  rank_sessions_[RankOfJob(u.hello)].insert(u.id);
  Own(u.stream, u.id);
}

void DispatcherFacts::On(const SessionAttached& u) {
  SessionFacts& session = Get(sessions_, u.id);
  session.stream = u.stream;
  session.heard = u.at;
  session.why.clear();
  session.hello.set_where(u.hello.where());
  Own(u.stream, u.id);
}

void DispatcherFacts::On(const SessionHeard& u) { Get(sessions_, u.id).heard = u.at; }
void DispatcherFacts::On(const SessionPlanned& u) { Get(sessions_, u.id).plan = u.plan; }
void DispatcherFacts::On(const SessionHeldUp& u) { Get(sessions_, u.id).held_up = u.since; }
void DispatcherFacts::On(const SessionTold& u) { Get(sessions_, u.id).why = u.why; }

void DispatcherFacts::On(const SessionAdmitted& u) {
  SessionFacts& session = Get(sessions_, u.id);
  session.live = true;
  live_sessions_[session.hello.job()].insert(u.id);
  const auto ends = ends_.find(session.hello.job());
  if (ends != ends_.end()) ends->second.erase(RankOfJob(session.hello));
  session.live_before = true;
  session.admitted = u.at;
  session.held_up.reset();
  session.why.clear();
}

void DispatcherFacts::On(const SessionReported& u) {
  SessionFacts& session = Get(sessions_, u.id);
  UpdateFailing(session, u.report, u.at);
  if (HasWaited(session, u.report)) session.waited = u.at;
  AddSample(session.samples, u.report.counters(), u.at);
  session.early_report.reset();
  session.report = u.report;
  if (u.report.has_tuning()) {
    session.tuning = u.report.tuning();
    session.tuning_told = u.at;
    session.report->clear_tuning();
  }
}

void DispatcherFacts::On(const SessionReportedEarly& u) {
  Get(sessions_, u.id).early_report = u.report;
}

void DispatcherFacts::On(const ListNeeded& u) {
  Get(sessions_, u.id).list.size.Need(u.members, u.limit, u.at);
}
void DispatcherFacts::On(const ListDoubled& u) { Get(sessions_, u.id).list.size.Double(u.at); }
void DispatcherFacts::On(const ListSent& u) {
  ListFacts& list = Get(sessions_, u.id).list;
  ++list.number;
  list.members = u.members;
  list.digest = u.digest;
  list.sent = u.at;
}

void DispatcherFacts::On(const SessionEnded& u) {
  const SessionFacts& session = Get(sessions_, u.id);
  const v1::JobRecord* record = FindRecord(session.hello.job());
  // A session that waits says nothing of its job, unless somebody has ended the job with it.
  if (record != nullptr && !record->ended() &&
      (session.live || u.end.outcome() == v1::JOB_STOPPED)) {
    ends_[session.hello.job()][RankOfJob(session.hello)] = u.end;
  }
  if (auto* plan = Find(plans_, session.plan_key)) plan->used = std::max(plan->used, session.heard);
  if (ended_by_nonce_.insert_or_assign(session.hello.nonce(), u.id).second) {
    ended_nonces_.push_back(session.hello.nonce());
  }
  if (ended_nonces_.size() > kEndedKept) {
    ended_by_nonce_.erase(ended_nonces_.front());
    ended_nonces_.pop_front();
  }
  const auto nonce = session_by_nonce_.find(session.hello.nonce());
  if (nonce != session_by_nonce_.end() && nonce->second == u.id) session_by_nonce_.erase(nonce);
  EraseSession(job_sessions_, session.hello.job(), u.id);
  EraseSession(live_sessions_, session.hello.job(), u.id);
  EraseSession(rank_sessions_, RankOfJob(session.hello), u.id);
  Own(session.stream, SessionId{});
  sessions_.erase(u.id);
}

void DispatcherFacts::On(const JobTurnedOut& u) {
  turned_out_[u.job] = u.up_to;
  if (turned_out_.size() <= kTurnedOutKept) return;
  turned_out_.erase(
      std::min_element(turned_out_.begin(), turned_out_.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; }));
}

void DispatcherFacts::On(const WorkerJoined& u) {
  Worker& worker = workers_[u.id];
  worker.id = u.id;
  worker_by_nonce_[u.nonce] = u.id;
}

void DispatcherFacts::On(const WorkerReported& u) {
  Worker& worker = Get(workers_, u.id);
  worker.report = u.report;
  worker.ready = ReadyPlans(u.report);
  worker.loopback = IsLoopback(u.report.self().address());
  for (auto& [id, dataset] : *worker.report.mutable_datasets()) dataset.clear_file_list();
  if (u.report.has_tuning()) {
    worker.tuning = u.report.tuning();
    worker.tuning_told = u.at;
    worker.report.clear_tuning();
  }
  worker.stream = u.stream;
  worker.heard = u.at;
  if (!u.report.draining()) worker.undrained = false;
  Own(u.stream, u.id);
}

void DispatcherFacts::On(const WorkerDiffers& u) {
  Get(workers_, u.id).differences[u.dataset] = u.difference;
}
void DispatcherFacts::On(const WorkerDrained& u) {
  Worker& worker = Get(workers_, u.id);
  worker.drained = true;
  worker.undrained = false;
}
void DispatcherFacts::On(const WorkerUndrained& u) {
  Worker& worker = Get(workers_, u.id);
  worker.drained = false;
  worker.undrained = true;
}

void DispatcherFacts::On(const WorkerLeft& u) {
  const Worker& worker = Get(workers_, u.id);
  const auto nonce = worker_by_nonce_.find(worker.report.nonce());
  if (nonce != worker_by_nonce_.end() && nonce->second == u.id) worker_by_nonce_.erase(nonce);
  Own(worker.stream, WorkerId{});
  workers_.erase(u.id);
  for (auto& [key, columns] : columns_) {
    columns.share.erase(u.id);
    columns.failing.erase(u.id);
  }
}

void DispatcherFacts::On(const RecordSent& u) { writes_[u.job].outstanding = true; }

void DispatcherFacts::On(const RecordKept& u) {
  writes_.erase(u.record.name());
  inherited_.erase(u.record.name());
  ends_.erase(u.record.name());
  records_[u.record.name()] = u.record;
  std::vector<std::pair<std::int64_t, std::string>> ended;
  if (records_.size() <= u.keep_ended) return;
  for (const auto& [name, record] : records_) {
    if (record.ended()) ended.emplace_back(record.ended_unix_seconds(), name);
  }
  if (ended.size() <= u.keep_ended) return;
  std::sort(ended.begin(), ended.end());
  ended.resize(ended.size() - u.keep_ended);
  for (const auto& [when, name] : ended) records_.erase(name);
}

void DispatcherFacts::On(const RecordFailed& u) {
  RecordWrite& write = writes_[u.record.name()];
  const bool unknown = write.unknown || u.error.code() == StatusCode::kUnavailable;
  write = {false, u.error, u.retry_at, u.record, unknown};
}
void DispatcherFacts::On(const WriteForgotten& u) { writes_.erase(u.job); }

std::string DispatcherFacts::Dump() const {
  std::string out =
      fmt::format("term {} issued {} booted {}\n", term_, issued_, booted_.since_boot.count());
  for (const auto& [id, s] : streams_) {
    out += fmt::format("stream {} worker {} opened {} owner {}\n", id, s.of_worker,
                       s.opened.since_boot.count(), s.owner().ToString());
  }
  for (const auto& [key, p] : plans_) {
    out += fmt::format("plan {} phase {} fingerprint {} used {} error {}\n", key,
                       static_cast<int>(p.phase), p.fingerprint, p.used.since_boot.count(),
                       p.error.ToString());
  }
  for (const auto& [key, c] : columns_) {
    out += fmt::format("columns {} measured {} whole {}\n", key, c.ranges.measured(), c.whole);
    for (const auto& [worker, ranges] : c.ranges.given()) {
      out += fmt::format("  given to {}: {}\n", worker.ToString(), fmt::join(ranges, ","));
    }
  }
  for (const auto& [id, s] : sessions_) {
    out +=
        fmt::format("session {} {} of {} stream {} heard {} live {} {} why '{}' plan {} start {}\n",
                    id.ToString(), RankOfJob(s.hello), s.hello.world_size(), s.stream,
                    s.heard.since_boot.count(), s.live, s.live_before, s.why, s.plan_key,
                    s.plan ? s.plan->start.ToString() : "-");
    out += fmt::format("  list {} size {} sent {} digest {} waited {}:", s.list.number,
                       s.list.size.members(), s.list.sent.since_boot.count(), s.list.digest,
                       s.waited.since_boot.count());
    for (const WorkerId member : s.list.members) out += " " + member.ToString();
    out += "\n";
    for (const auto& [worker, f] : s.failing) {
      out += fmt::format("  failing {} since {}\n", worker.ToString(), f.since.since_boot.count());
    }
    out += fmt::format("  samples {} report {}\n", s.samples.size(),
                       s.report ? s.report->ShortDebugString() : "-");
  }
  for (const auto& [id, w] : workers_) {
    out += fmt::format("worker {} stream {} heard {} drained {} {} ready {} {}\n", id.ToString(),
                       w.stream, w.heard.since_boot.count(), w.drained, w.undrained,
                       fmt::join(w.ready, ","), w.report.name());
  }
  for (const auto& [job, r] : records_) {
    out += fmt::format("record {} inherited {} {}\n", job, inherited_.contains(job),
                       r.ShortDebugString());
  }
  for (const auto& [job, w] : writes_) {
    out +=
        fmt::format("write {} outstanding {} error {}\n", job, w.outstanding, w.error.ToString());
  }
  for (const auto& [job, ranks] : ends_) {
    for (const auto& [rank, end] : ranks) {
      out += fmt::format("end of {} {}\n", rank, end.ShortDebugString());
    }
  }
  for (const auto& [job, n] : turned_out_) {
    out += fmt::format("turned out {} up to {}\n", job, n.ToString());
  }
  return out;
}

}  // namespace millrace
