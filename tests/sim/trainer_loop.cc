// The training loops of a simulated history. Each loop takes batches in lockstep with the job's
// other ranks, and checks what it was given.

#include <algorithm>

#include <fmt/core.h>

#include "common/base/hash.h"
#include "common/base/refusal.h"
#include "tests/sim/world.h"

namespace millrace::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// I9 of docs/internals/protocol.md allows 3 s and the time of a build. Messages and reports take
// time too.
constexpr Duration kLongestWait = milliseconds(4500);
// If a worker drains and there is no other fault, nothing is lost. So a wait is only as long as
// messages and builds take.
constexpr Duration kLongestWaitInDrain = milliseconds(700);

}  // namespace

Digest128 World::DigestOf(const std::string& fingerprint, std::uint64_t epoch,
                          const ExampleRange& range) {
  return Xxh3(fmt::format("{}/{}/{}/{}", fingerprint, epoch, range.first, range.count));
}

void World::OnBatch(std::size_t index, client::StreamId stream, const v1::BatchFragment& fragment,
                    const BuildQueue::Task& task, const Digest128& digest) {
  TrainerNode& trainer = *trainers_[index];
  const Time now = net_.now();
  if (trainer.state->OnBatchesFragment(stream, fragment, fragment.total_bytes(), now)) {
    client::Arrival arrival;
    arrival.at = task.at;
    arrival.digest = digest;
    arrival.bytes = fragment.total_bytes();
    arrival.fingerprint = *Fingerprint::FromString(task.plan);
    arrival.epoch = task.at.epoch;
    arrival.first_example = task.range.first;
    // How many examples a whole batch has, only its builder knows.
    const std::uint32_t unit_rows = trainer.state->steps().arithmetic().options().unit_rows;
    arrival.counts.examples = arrival.planned_examples =
        unit_rows == 0 ? task.range.count
                       : task.range.count * static_cast<std::uint32_t>(1 + digest.low % unit_rows);
    const client::Verdict verdict = trainer.state->OnBatchesArrival(stream, arrival, now);
    trainer.largest_bytes = std::max(trainer.largest_bytes, arrival.bytes);
    if (verdict == client::Verdict::kWrong) Fail("I2: a batch was not that of its step");
    if (verdict == client::Verdict::kTaken || verdict == client::Verdict::kDuplicate) {
      const std::uint64_t step = trainer.state->steps().Index(task.at);
      if (verdict == client::Verdict::kTaken) {
        trainer.kept[step] = {task.range, digest};
        trainer.first_digest[step] = digest;
      } else {
        ++counts_.duplicates;
        const auto first = trainer.first_digest.find(step);
        const bool differs = first != trainer.first_digest.end() && first->second != digest;
        // A session remembers no digests of batches that the loop took long ago.
        if (differs && step + 32 > trainer.state->next()) ++trainer.differing_copies;
      }
    }
    const std::uint64_t alarms = trainer.state->stats(now).duplicate_mismatches;
    if (alarms < trainer.differing_copies) Fail("I2: copies that differ raised no alarm");
  }
  AfterTrainer(index);
}

bool World::MayTake(const TrainerNode& trainer) const {
  // A rank takes its next step only when all ranks of its replica have made the last one.
  const Job& job = jobs_[trainer.job];
  const auto& ranks = job.trainers;
  const bool of_present_launch = std::any_of(
      ranks.begin(), ranks.end(), [&](std::size_t t) { return trainers_[t].get() == &trainer; });
  if (!of_present_launch) return false;  // its peers are gone
  if (ranks.size() < job.seats()) return false;
  return std::all_of(ranks.begin(), ranks.end(), [&](std::size_t t) {
    return trainers_[t]->replica != trainer.replica || trainers_[t]->taken >= trainer.taken;
  });
}

void World::Loop(std::size_t index) {
  TrainerNode& trainer = *trainers_[index];
  const Time now = net_.now();
  client::SessionMachine& state = *trainer.state;
  if (!state.admission() || trainer.finished) return;
  if (!trainer.expected) {
    trainer.expected = trainer.places.Begin(trainer.start);
    if (state.admission()->start != *trainer.expected) {
      Fail(fmt::format("I1: {} begins at {}, expected {}", trainer.where,
                       state.admission()->start.ToString(), trainer.expected->ToString()));
    }
  }
  if (*trainer.expected >= trainer.end) {
    trainer.finished = true;
    counts_.copies += state.stats(now).asks_copy;
    counts_.moved += state.stats(now).asks_moved;
    counts_.taken_back += state.stats(now).moved_failed;
    counts_.mismatches += state.stats(now).duplicate_mismatches;
    return state.Leave(OkStatus(), now);
  }
  if (now < trainer.busy_until || !MayTake(trainer)) {
    trainer.waits_since.reset();
    return state.SetWaiting(false, now);
  }
  if (!state.holds(state.next())) {
    if (!trainer.waits_since) trainer.waits_since = now;
    return state.SetWaiting(true, now);
  }
  if (trainer.waits_since) {
    counts_.longest_wait = std::max(counts_.longest_wait, ToSeconds(now - *trainer.waits_since));
    trainer.waits_since.reset();
    state.SetWaiting(false, now);
  }
  Take(index);
}

void World::Take(std::size_t index) {
  TrainerNode& trainer = *trainers_[index];
  client::SessionMachine& state = *trainer.state;
  const std::uint64_t step = state.next();
  const Position at = *trainer.expected;
  const ExampleRange range = trainer.places.Of(at, trainer.rank);
  const auto kept = trainer.kept.find(step);
  if (state.steps().At(step) != at || kept == trainer.kept.end() || kept->second.range != range) {
    return Fail(fmt::format("I1: {} takes {} with places {}+{}, expected {} with {}+{}",
                            trainer.where, state.steps().At(step).ToString(),
                            kept == trainer.kept.end() ? 0 : kept->second.range.first,
                            kept == trainer.kept.end() ? 0 : kept->second.range.count,
                            at.ToString(), range.first, range.count));
  }
  const Digest128 expected = DigestOf(state.admission()->fingerprint.ToString(), at.epoch, range);
  if (kept->second.digest != expected && !IsWrongCopy(kept->second.digest, expected)) {
    Fail(fmt::format("I2: the batch at {} is not the plan's", at.ToString()));
  }
  state.OnTaken(net_.now());
  trainer.kept.erase(kept);
  ++trainer.taken;
  ++counts_.batches;
  if (trainer.replica == 0) {
    jobs_[trainer.job].delivered.push_back({at, range, trainer.places.step()});
  }
  trainer.expected = trainer.places.After(at);
  // Without faults, loops are quick: they take all leased batches before the next regular report
  // asks for more.
  const Duration quick = history_.faults.empty() ? milliseconds(4) : milliseconds(40);
  const Duration works =
      trainer.slow_until > net_.now() ? seconds(1) + net_.UpTo(seconds(2)) : net_.UpTo(quick);
  trainer.busy_until = net_.now() + works;
  net_.In(trainer.process, works, [this, index] { AfterTrainer(index); });
  // Others may have waited for this rank's step.
  for (const std::size_t t : jobs_[trainer.job].trainers) {
    if (t != index) net_.In(trainers_[t]->process, milliseconds(1), [this, t] { AfterTrainer(t); });
  }
}

// --- Checks

void World::CheckTrainer(TrainerNode& trainer) {
  const client::SessionMachine& state = *trainer.state;
  if (!state.admission() || trainer.finished) return;
  std::uint64_t bytes = state.held_bytes();
  for (const auto& [id, link] : state.workers().all()) {
    if (link.stream.id != 0) bytes += link.credit_left() + link.stream.receiving_bytes;
  }
  const std::uint64_t limit = jobs_[trainer.job].setup.prefetch_bytes;
  if (bytes > limit + 2 * std::max<std::uint64_t>(trainer.largest_bytes, 2000)) {
    Fail(fmt::format("I5: {} bytes held or under way, {} to prefetch", bytes, limit));
  }
  CheckWait(trainer);
  CheckAsked(trainer);
  CheckDataWait(trainer);
}

void World::CheckAsked(const TrainerNode& trainer) {
  const client::SessionMachine& state = *trainer.state;
  for (const auto& [step, asks] : state.asks().steps()) {
    if (asks.all().size() > (step == state.next() ? 3u : 2u)) {
      Fail(fmt::format("J1: {} asks {} workers for a step", trainer.where, asks.all().size()));
    }
  }
  if (!trainer.waits_since || state.holds(state.next()) ||
      state.asks().Find(state.next()) != nullptr ||
      state.workers().TriedBy(state.next()) >= kWorkersTryCode) {
    return;
  }
  // A worker that has failed is found to be usable again at the next look.
  const Time looked = net_.now() + -client::Dealing::kLookEvery;
  for (const client::WorkerLink* member : state.workers().members()) {
    if (!trainer.spoken.contains(member->stream.id) || !member->usable(looked) ||
        !member->stream.spoke() || member->stream.word->slots == 0 ||
        member->tried.contains(state.next())) {
      continue;
    }
    Note(state.Dump());
    Fail(fmt::format("J2: {} waits for {} and asks nobody for it, though {} has spoken",
                     trainer.where, trainer.expected->ToString(), member->where.address));
  }
}

void World::CheckWait(TrainerNode& trainer) {
  if (!CouldBeServed(trainer)) return trainer.servable_since.reset();
  if (!trainer.servable_since) trainer.servable_since = net_.now();
  if (!trainer.waits_since) return;
  const Time since = std::max({*trainer.waits_since, *trainer.servable_since, disturbed_until_});
  const Duration longest = net_.now() < drains_until_ ? kLongestWaitInDrain : kLongestWait;
  if (net_.now() - since <= longest) return;
  const SessionStats stats = trainer.state->stats(net_.now());
  Note(trainer.state->Dump());
  Fail(fmt::format("I9: {} has waited {:.1f} s for {} while a worker could serve it: {} {}",
                   trainer.where, ToSeconds(net_.now() - *trainer.waits_since),
                   trainer.expected->ToString(), WaitCauseName(stats.now), stats.now_worker));
}

/// Whether the digest is one that SendBatch changed, because of the fault kWrongCopies.
bool World::IsWrongCopy(const Digest128& digest, const Digest128& plan) const {
  return digest.low == plan.low &&
         std::any_of(history_.faults.begin(), history_.faults.end(), [&](const Fault& fault) {
           return fault.kind == FaultKind::kWrongCopies &&
                  digest.high == (plan.high ^ (1 + fault.target % workers_.size()));
         });
}

bool World::Reaches(ProcessId a, ProcessId b) const {
  return !net_.IsBlocked(a, b) && !net_.IsBlocked(b, a);
}

bool World::CouldBeServed(const TrainerNode& trainer) const {
  const std::string fingerprint = trainer.state->admission()->fingerprint.ToString();
  return std::any_of(workers_.begin(), workers_.end(), [&](const auto& worker) {
    return net_.IsUp(worker->process) && !net_.StandsStill(worker->process) &&
           Reaches(trainer.process, worker->process) && worker->slow_until <= net_.now() &&
           worker->machine->FindReady(fingerprint) != nullptr && !worker->machine->draining() &&
           !FailsNext(trainer, *worker) &&
           trainer.state->workers().Find(worker->machine->id()) != nullptr;
  });
}

/// Checks E: the batches that the job's checkpoints count cover each epoch once, from the job's
/// start.
void World::CheckCovered(const Job& job) {
  std::map<std::uint64_t, std::vector<std::pair<std::uint64_t, std::uint64_t>>> epochs;
  std::map<std::uint64_t, std::uint64_t> step;  // by epoch: examples in a step of the last launch
  for (const Delivered& d : job.delivered) {
    if (d.range.count > 0) {
      epochs[d.at.epoch].emplace_back(d.range.first, d.range.first + d.range.count);
    }
    step[d.at.epoch] = d.step;
  }
  const Position first = job.setup.start;
  for (std::uint64_t epoch = first.epoch; epoch < job.setup.end_epoch; ++epoch) {
    auto& ranges = epochs[epoch];
    std::sort(ranges.begin(), ranges.end());
    std::uint64_t at = epoch == first.epoch ? first.example : 0;
    for (const auto& [from, to] : ranges) {
      if (from != at) {
        return Fail(
            fmt::format("E: {}, epoch {}: place {} follows place {}", job.name, epoch, from, at));
      }
      at = to;
    }
    // `drop` leaves out less than one step of the last launch that took part in the epoch.
    const std::uint64_t left = job.setup.examples - at;
    const std::uint64_t least = job.setup.keep ? 1 : step.contains(epoch) ? step[epoch] : left + 1;
    if (left >= least) {
      return Fail(fmt::format("E: {}, epoch {}: {} examples never came", job.name, epoch, left));
    }
  }
}

}  // namespace millrace::sim
