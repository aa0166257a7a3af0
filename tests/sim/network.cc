#include "tests/sim/network.h"

#include <algorithm>
#include <utility>

namespace millrace::sim {
namespace {

constexpr Duration kLongestDelay = std::chrono::milliseconds(20);
constexpr Duration kLatestRepeat = std::chrono::milliseconds(500);
constexpr Duration kLearnsOfBreak = std::chrono::milliseconds(200);

}  // namespace

void Network::In(ProcessId who, Duration after, Task what) {
  At(now_ + after, [this, who, what = std::move(what)]() mutable {
    const Process& process = processes_[who];
    if (!process.up) return;
    if (process.still_until > now_) {
      return In(who, process.still_until - now_, std::move(what));
    }
    what();
  });
}

bool Network::Step(Time end) {
  if (events_.empty() || events_.begin()->first > end) return false;
  auto node = events_.extract(events_.begin());
  now_ = std::max(now_, node.key());
  node.mapped()();
  return true;
}

ProcessId Network::AddProcess(std::string name) {
  processes_.push_back({.name = std::move(name)});
  return static_cast<ProcessId>(processes_.size() - 1);
}

void Network::Kill(ProcessId who) {
  processes_[who].up = false;
  BreakStreamsOf(who);
}

void Network::Pause(ProcessId who, Duration d) {
  processes_[who].still_until = std::max(processes_[who].still_until, now_ + d);
}

void Network::BreakStreamsOf(ProcessId who) {
  const std::vector<LinkId> links = std::exchange(processes_[who].links, {});
  for (const LinkId id : links) Break(id);
}

void Network::Block(ProcessId from, ProcessId to, Duration d) {
  Time& until = blocked_[{from, to}];
  until = std::max(until, now_ + d);
}

bool Network::IsBlocked(ProcessId from, ProcessId to) const {
  const auto found = blocked_.find({from, to});
  return found != blocked_.end() && found->second > now_;
}

bool Network::Calm() const {
  return std::all_of(processes_.begin(), processes_.end(),
                     [this](const Process& p) {
                       return !p.up || (p.still_until <= now_ && p.loses_until <= now_ &&
                                        p.repeats_until <= now_);
                     }) &&
         std::all_of(blocked_.begin(), blocked_.end(),
                     [this](const auto& b) { return b.second <= now_; });
}

// --- Links

LinkId Network::Open(ProcessId a, ProcessId b, std::function<void(const Status&)> closed_a,
                     std::function<void(const Status&)> closed_b) {
  const LinkId id = ++last_link_;
  Link& link = links_[id];
  link.directions[0].from = link.directions[1].to = a;
  link.directions[0].to = link.directions[1].from = b;
  link.closed[0] = std::move(closed_a);
  link.closed[1] = std::move(closed_b);
  processes_[a].links.push_back(id);
  processes_[b].links.push_back(id);
  return id;
}

void Network::Send(LinkId id, ProcessId from, Task arrive, Task written, bool control) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  const int which = found->second.directions[0].from == from ? 0 : 1;
  Direction& direction = found->second.directions[which];
  if (direction.closed) return;
  const Process& a = processes_[direction.from];
  const Process& b = processes_[direction.to];
  const bool loses = control && (a.loses_until > now_ || b.loses_until > now_);
  const bool repeats = control && (a.repeats_until > now_ || b.repeats_until > now_);
  if (loses && Chance(1.0 / 3)) arrive = nullptr;
  direction.queue.push_back({.due = now_ + UpTo(kLongestDelay),
                             .arrive = std::move(arrive),
                             .written = std::move(written),
                             .repeats = repeats && Chance(1.0 / 3)});
  if (direction.queue.size() <= buffered_) TellWritten(id, which);
  Pump(id, which);
}

void Network::Close(LinkId id, ProcessId from, const Status& why) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  const int which = found->second.directions[0].from == from ? 0 : 1;
  Direction& direction = found->second.directions[which];
  if (direction.closed) return;
  direction.closed = true;
  found->second.closed[which] = nullptr;  // an end is not told of its own close
  direction.queue.push_back({.due = now_ + UpTo(kLongestDelay), .last = true, .why = why});
  Pump(id, which);
}

void Network::TellWritten(LinkId id, int which) {
  Direction& direction = links_.at(id).directions[which];
  for (Message& message : direction.queue) {
    if (!message.written) continue;
    Task written = std::exchange(message.written, nullptr);
    return In(direction.from, UpTo(std::chrono::milliseconds(2)),
              [this, id, written = std::move(written)] {
                if (links_.contains(id)) written();
              });
  }
}

void Network::Pump(LinkId id, int which) {
  Direction& direction = links_.at(id).directions[which];
  if (direction.pumping || direction.queue.empty()) return;
  direction.pumping = true;
  const Time due = std::max(direction.queue.front().due, BlockedUntil(direction));
  At(due, [this, id, which] { Deliver(id, which); });
}

Time Network::BlockedUntil(const Direction& direction) const {
  Time until = processes_[direction.to].still_until;
  if (const auto b = blocked_.find({direction.from, direction.to}); b != blocked_.end()) {
    until = std::max(until, b->second);
  }
  return until;
}

void Network::Deliver(LinkId id, int which) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  Direction& direction = found->second.directions[which];
  direction.pumping = false;
  if (direction.queue.empty()) return;
  if (BlockedUntil(direction) > now_) return Pump(id, which);
  Message message = std::move(direction.queue.front());
  direction.queue.pop_front();
  if (message.last) {
    const auto closed = std::move(found->second.closed[1 - which]);
    for (const ProcessId end : {direction.from, direction.to})
      std::erase(processes_[end].links, id);
    links_.erase(found);
    if (closed) closed(message.why);
    return;
  }
  if (direction.queue.size() >= buffered_ || (message.written != nullptr)) {
    if (message.written) {
      In(direction.from, Duration{0}, [this, id, written = std::move(message.written)] {
        if (links_.contains(id)) written();
      });
    } else {
      TellWritten(id, which);
    }
  }
  Pump(id, which);
  if (!message.arrive) return;
  if (message.repeats) {
    const ProcessId to = direction.to;
    In(to, Chance(0.5) ? Duration{0} : UpTo(kLatestRepeat), [this, id, again = message.arrive] {
      if (links_.contains(id)) again();
    });
  }
  message.arrive();
}

void Network::Break(LinkId id) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  Link link = std::move(found->second);
  links_.erase(found);
  for (int end = 0; end < 2; ++end) {
    const ProcessId who = link.directions[end].from;
    std::erase(processes_[who].links, id);
    if (!link.closed[end]) continue;
    // An end that is cut off by a partition is not told, and finds out by the silence.
    const auto b = blocked_.find({link.directions[end].to, who});
    if (b != blocked_.end() && b->second > now_) continue;
    In(who, UpTo(kLearnsOfBreak),
       [closed = std::move(link.closed[end])] { closed(Unavailable("the connection broke")); });
  }
}

}  // namespace millrace::sim
