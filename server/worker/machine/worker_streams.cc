// What a worker does with the streams of its consumers: it checks want lists, and writes one thing
// at a time on each stream, signs of life and refusals before batches.

#include <algorithm>
#include <utility>

#include "common/access/rights.h"
#include "common/base/protocol_limits.h"
#include "common/base/protocol_version.h"
#include "common/transport/convert/compression.h"
#include "common/transport/convert/places.h"
#include "server/worker/machine/worker_machine.h"

namespace millrace {
namespace {

/// Refusals that wait to be written on a stream: one for each step that a want list can name.
constexpr std::size_t kMaxControlMessages = BuildQueue::kMaxSteps;

/// Checks the fields of a want list that BuildQueue does not check.
Status CheckWants(const v1::WantList& wants) {
  MILLRACE_RETURN_IF_ERROR(CheckProtocol("consumer", wants.protocol() == 0 ? 1 : wants.protocol()));
  if (wants.fingerprint().empty()) {
    return InvalidArgument("a want list without a fingerprint: expected that of the plan");
  }
  if (wants.fingerprint().size() > kMaxNameBytes || wants.job().size() > kMaxNameBytes) {
    return InvalidArgument("a want list with a fingerprint of " +
                           std::to_string(wants.fingerprint().size()) + " and a job of " +
                           std::to_string(wants.job().size()) + " bytes: expected at most " +
                           std::to_string(kMaxNameBytes));
  }
  if (wants.priority() > kMaxPriority) {
    return InvalidArgument("priority " + std::to_string(wants.priority()) +
                           " is out of range: expected 1 to " + std::to_string(kMaxPriority));
  }
  return OkStatus();
}

}  // namespace

void WorkerMachine::Drain(Time now) {
  if (std::exchange(leaving_, true) || drain_ordered_) return;
  log_->Info("draining", {{"streams", streams_.size()}});
  TellDrain(now);
  SendReport(now);
}

void WorkerMachine::TellDrain(Time now) {
  queue_.SetDraining(draining());
  for (auto& [id, stream] : streams_) {
    stream.alive_due = true;
    stream.going_away_said = false;
  }
  PumpAll(now);
  WakeBuilders();
}

bool WorkerMachine::Idle() const {
  return std::all_of(streams_.begin(), streams_.end(), [this](const auto& stream) {
    return !queue_.Owes(stream.first) && stream.second.writing != Writing::kBatch;
  });
}

SessionId WorkerMachine::SessionOf(StreamId stream) const {
  const auto found = streams_.find(stream);
  return found == streams_.end() ? SessionId{} : found->second.session;
}

Status WorkerMachine::OnStreamOpened(StreamId stream, const Peer& peer) {
  if (streams_.size() >= options_.max_streams) {
    return ResourceExhausted("worker " + options_.name + " has " +
                             std::to_string(options_.max_streams) +
                             " streams, its limit: consumers go to other workers");
  }
  streams_[stream].peer = peer;
  return OkStatus();
}

void WorkerMachine::OnWants(StreamId id, const v1::WantList& wants, Time now) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  StreamEntry& stream = found->second;
  stream.wants_heard = now;
  stream.deaf_said = false;
  if (const Status status = CheckWants(wants); !status.ok()) return Close(id, status);
  stream.session = SessionId(FromProto(wants.session()));
  // A consumer may know more of them than this worker. Nothing is saved in shared memory.
  stream.compression = stream.peer.shares_memory
                           ? Compression::kOff
                           : FromProto(wants.compression()).value_or(Compression::kOff);
  if (stream.fingerprint.empty()) {
    stream.fingerprint = wants.fingerprint();
    const std::string& job = wants.job().empty() ? wants.fingerprint() : wants.job();
    queue_.AddStream(id, stream.fingerprint, job, {wants.world_size(), wants.rank()});
    shares_.Add(id, job);
    stream.pending_seen = now;  // a consumer that comes is about to ask
    queue_.SetWeight(job, std::max(1u, wants.priority()));
    shares_.SetWeight(job, std::max(1u, wants.priority()));
  }
  if (stream.fingerprint != wants.fingerprint()) {
    return Close(id, InvalidArgument("a stream of fingerprint " + stream.fingerprint +
                                     " asks for batches of " + wants.fingerprint()));
  }
  const bool ready = FindReady(wants.fingerprint()) != nullptr;
  if (!ready) {
    if (wants.runs_size() > 0) Refuse(stream, WhyNotReady(wants.fingerprint()));
    // The list replaces the one before, also where the plan was ready for that one.
    v1::WantList nothing = wants;
    nothing.clear_runs();
    nothing.clear_asks();
    if (const Status status = queue_.SetWants(id, nothing, now); !status.ok()) return Close(id, status);
  } else if (const Status denied = CheckDatasets(wants.fingerprint(), stream.peer.identity);
             !denied.ok()) {
    return Close(id, denied);
  } else if (const Status status = queue_.SetWants(id, wants, now); !status.ok()) {
    return Close(id, status);
  }
  for (const auto& [at, why] : queue_.RefusedOf(id)) Refuse(stream, why, at);
  stream.asks = ready && wants.asks();
  ShareWith(id, stream, now);
  PumpReady(now);
  Pump(id, stream, now);
  WakeBuilders();
}

Status WorkerMachine::CheckDatasets(const std::string& fingerprint, const Identity& peer) const {
  for (const std::string& dataset : plans_.at(fingerprint).spec.datasets()) {
    MILLRACE_RETURN_IF_ERROR(CheckDataset(peer, dataset));
  }
  return OkStatus();
}

void WorkerMachine::Refuse(StreamEntry& stream, const Status& why, std::optional<Position> at) {
  if (stream.control.size() >= kMaxControlMessages) return;
  const bool said = std::any_of(stream.control.begin(), stream.control.end(), [&](const auto& p) {
    const v1::Refused& refused = p.refused();
    return refused.has_at() == at.has_value() && (!at || FromProto(refused.at()) == *at);
  });
  if (said) return;
  v1::BatchFragment message;
  v1::Refused& refused = *message.mutable_refused();
  refused.set_code(static_cast<std::uint32_t>(why.code()));
  refused.set_message(why.message());
  if (at) ToProto(*at, refused.mutable_at());
  stream.control.push_back(std::move(message));
}

void WorkerMachine::Forget(StreamId id) {
  streams_.erase(id);
  queue_.RemoveStream(id);
  shares_.Remove(id);
  WakeBuilders();
}

void WorkerMachine::Close(StreamId id, const Status& why) {
  log_->Warning("consumer's stream closed",
                {{"peer", streams_.at(id).peer.address}, {"error", why}});
  actions_.push_back(WorkerAction::CloseStream{id, why});
  Forget(id);
}

void WorkerMachine::WakeBuilders() {
  if (queue_.pending() == 0 && measuring_.pending() == 0) return;
  actions_.push_back(WorkerAction::WakeBuilders{});
}

void WorkerMachine::PumpAll(Time now) {
  for (auto& [id, stream] : streams_) Pump(id, stream, now);
}

void WorkerMachine::PumpReady(Time now) {
  for (const StreamId id : queue_.TakeReady()) {
    if (const auto stream = streams_.find(id); stream != streams_.end()) {
      Pump(id, stream->second, now);
    }
  }
}

void WorkerMachine::Pump(StreamId id, StreamEntry& stream, Time now) {
  // Before its first want list a stream is of no plan.
  if (stream.writing != Writing::kNothing || stream.fingerprint.empty()) return;
  if (AliveIsDue(id, stream, now)) return SendAlive(id, stream, now);
  if (draining() && !stream.going_away_said) {
    stream.going_away_said = true;
    v1::BatchFragment message;
    message.set_going_away(true);
    return Write(id, stream, std::move(message));
  }
  if (!stream.control.empty()) {
    v1::BatchFragment message = std::move(stream.control.front());
    stream.control.pop_front();
    return Write(id, stream, std::move(message));
  }
  if (auto outgoing = queue_.TakeToSend(id)) {
    if (stream.blocked_since) send_blocked_seconds_ += ToSeconds(now - *stream.blocked_since);
    stream.blocked_since.reset();
    ++sent_batches_;
    sent_bytes_ += outgoing->bytes;
    if (outgoing->shared) ++shared_batches_;
    stream.writing = Writing::kBatch;
    actions_.push_back(WorkerAction::SendBatch{id, *std::move(outgoing), stream.compression});
    // The sent batch has left memory, so that another may be built.
    return WakeBuilders();
  }
  if (!queue_.BlockedByCredit(id)) {
    stream.blocked_since.reset();
  } else if (!stream.blocked_since) {
    stream.blocked_since = now;
  }
}

void WorkerMachine::Write(StreamId id, StreamEntry& stream, v1::BatchFragment message,
                          std::vector<std::uint64_t> builds) {
  stream.writing = Writing::kControl;
  actions_.push_back(WorkerAction::SendControl{id, std::move(message), std::move(builds)});
}

void WorkerMachine::OnSent(StreamId id, Time now) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  found->second.writing = Writing::kNothing;
  found->second.last_write = now;
  Pump(id, found->second, now);
}

void WorkerMachine::OnStreamClosed(StreamId id, const Status& status, Time /*now*/) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  log_->Debug("consumer's stream ended",
              {{"peer", found->second.peer.address}, {"status", status.ToString()}});
  Forget(id);
}

double WorkerMachine::SendBlockedSeconds(Time now) const {
  double blocked = send_blocked_seconds_;
  for (const auto& [id, stream] : streams_) {
    if (stream.blocked_since) blocked += ToSeconds(now - *stream.blocked_since);
  }
  return blocked;
}

}  // namespace millrace
