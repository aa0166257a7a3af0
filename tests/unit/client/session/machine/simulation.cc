#include "tests/unit/client/session/machine/simulation.h"

#include <algorithm>

#include <fmt/core.h>

#include "common/transport/convert/steps.h"

namespace millrace::client {

Simulation::Simulation(const SimulationOptions& options)
    : options_(options), random_(options.seed), faults_over_(Time{kSecond} + options.faults_until) {
  steps_.emplace(StepArithmetic::Create(options.steps).value(), options.rank, options.start,
                 options.start.epoch + options.epochs);
  SessionMachineOptions state_options;
  state_options.address = "dispatcher:1";
  state_options.prefetch_bytes = options.prefetch_bytes;
  state_options.connect_timeout = 3600 * kSecond;
  state_options.hello.set_rank(options.rank);
  state_options.hello.set_world_size(options.steps.world_size);
  state_options.hello.set_epochs(options.epochs);
  ToProto(options.start, state_options.hello.mutable_start());
  state_.emplace(
      state_options, [this] { return std::uniform_real_distribution<double>()(random_); }, logger_);
  for (int i = 0; i < options.workers; ++i) AddWorker();
  state_->Start(now_);
  After(kSecond, [this] { SayAlive(); });
  After(Milliseconds(1, 1000), [this] { Fault(); });
  Loop();
}

std::string Simulation::Describe() const {
  return fmt::format("seed {}: at {:.2f} s, step {} of {}, {} held, {} leases", options_.seed,
                     ToSeconds(now_.since_boot), state_->admission() ? state_->next() : 0,
                     steps_->end(), state_->held_batches(), state_->leases().all().size());
}

Duration Simulation::Milliseconds(int from, int to) {
  return std::uniform_int_distribution<int>(from, to)(random_) * kMs;
}

Time Simulation::Arrives(StreamId stream, bool up) {
  Time& last = last_arrival_[{stream, up}];
  last = std::max(last, now_ + Milliseconds(0, Chance(0.02) ? 400 : 10));
  return last;
}

bool Simulation::Run(Duration limit) {
  const Time end = now_ + limit;
  Perform();
  while (state_->status().ok() &&
         !(state_->admission() && state_->next() == state_->steps().end())) {
    const Time tick = state_->NextTick();
    const Time event = events_.empty() ? tick : events_.begin()->first;
    now_ = std::max(now_, std::min(tick, event));
    if (now_ > end) return false;
    if (event <= tick) {
      const std::function<void()> what = std::move(events_.begin()->second);
      events_.erase(events_.begin());
      what();
    } else {
      state_->Tick(now_);
    }
    Perform();
    CheckBounds();
  }
  return state_->status().ok();
}

// --- the network ------------------------------------------------------------------------------

void Simulation::Perform() {
  for (const Action& action : state_->TakeActions()) PerformOne(action);
}

void Simulation::PerformOne(const Action& action) {
  if (const auto* open = std::get_if<OpenAttach>(&action)) {
    const StreamId stream = open->stream;
    open_.insert(stream);
    attach_ = stream;
    if (!dispatcher_up_) {
      At(Arrives(stream, false), [this, stream] {
        open_.erase(stream);
        state_->OnAttachClosed(stream, Unavailable("connection refused"), now_);
      });
    }
  } else if (const auto* send = std::get_if<SendAttach>(&action)) {
    const StreamId stream = send->stream;
    At(Arrives(stream, true), [this, stream, message = send->message] {
      if (open_.count(stream) == 0) return;
      state_->OnAttachWritten(stream, now_);
      if (dispatcher_up_ && stream == attach_) OnAttach(stream, message);
    });
  } else if (const auto* batches = std::get_if<OpenBatches>(&action)) {
    const StreamId stream = batches->stream;
    open_.insert(stream);
    for (auto& worker : workers_) {
      if (worker->where.id == batches->worker.id && worker->alive) {
        WorkerModel fresh;
        fresh.where = worker->where;
        fresh.hung = worker->hung;
        fresh.stream = stream;
        fresh.last_word = now_;
        *worker = fresh;
        return;
      }
    }
    At(Arrives(stream, false), [this, stream] {
      open_.erase(stream);
      state_->OnBatchesClosed(stream, Unavailable("connection refused"), now_);
    });
  } else if (const auto* wants = std::get_if<SendWants>(&action)) {
    const StreamId stream = wants->stream;
    if (WorkerModel* worker = WorkerOf(stream)) {
      worker->told_room = TotalRoom(wants->message);
    }
    At(Arrives(stream, true), [this, stream, message = wants->message] {
      if (open_.count(stream) == 0) return;
      // Nothing can be written to a worker that has stopped reading.
      if (const WorkerModel* to = WorkerOf(stream); to != nullptr && to->hung) return;
      state_->OnBatchesWritten(stream, now_);
      OnWants(stream, message);
    });
  } else if (const auto* close = std::get_if<CloseStream>(&action)) {
    open_.erase(close->stream);
    if (WorkerModel* worker = WorkerOf(close->stream)) worker->stream = 0;
  }
}

// --- workers ----------------------------------------------------------------------------------

void Simulation::AddWorker() {
  auto worker = std::make_unique<WorkerModel>();
  const Number id{term_, ++next_number_};
  worker->where = {id, "w" + std::to_string(id.n) + ":1", ""};
  workers_.push_back(std::move(worker));
}

Simulation::WorkerModel* Simulation::WorkerOf(StreamId stream) {
  for (auto& worker : workers_) {
    if (worker->stream == stream && stream != 0 && worker->alive) return worker.get();
  }
  return nullptr;
}

void Simulation::OnWants(StreamId stream, const v1::WantList& wants) {
  WorkerModel* worker = WorkerOf(stream);
  if (worker == nullptr || worker->hung) return;
  if (wants.credit_bytes() < worker->credit) broken.push_back("credit went back");
  worker->credit = wants.credit_bytes();
  worker->next = FromProto(wants.next());
  worker->wants.clear();
  for (const v1::Want& want : wants.wants()) {
    for (std::uint32_t k = 0; k < want.shard().batches(); ++k) {
      const Position at = PositionOf(want.shard(), k);
      worker->wants[{at, FromProto(want.lease())}] = k < want.room();
    }
  }
  for (auto it = worker->built.begin(); it != worker->built.end();) {
    it = worker->wants.count(*it) == 0 ? worker->built.erase(it) : std::next(it);
  }
  Send(*worker);
  Work(*worker);
}

void Simulation::Work(WorkerModel& worker) {
  if (worker.building || worker.hung || worker.stream == 0) return;
  for (const auto& [key, room] : worker.wants) {
    if (!room || worker.built.count(key) != 0 || worker.sent.count(key) != 0) continue;
    worker.building = true;
    const StreamId stream = worker.stream;
    After(Milliseconds(1, Chance(0.02) ? 1500 : 30), [this, stream, built = key] {
      WorkerModel* at = WorkerOf(stream);
      if (at == nullptr) return;
      at->building = false;
      if (at->wants.count(built) != 0) at->built.insert(built);
      Send(*at);
      Work(*at);
    });
    return;
  }
}

void Simulation::Send(WorkerModel& worker) {
  while (!worker.hung && worker.stream != 0 && !worker.built.empty()) {
    const auto key = *worker.built.begin();
    const std::uint64_t step = steps_->Index(key.first);
    const std::uint64_t bytes = BytesOf(step);
    if (key.first > worker.next) {
      if (worker.used + bytes > worker.credit) return;
      worker.used += bytes;
    }
    worker.built.erase(worker.built.begin());
    worker.sent.insert(key);
    worker.last_word = now_;
    const StreamId stream = worker.stream;
    At(Arrives(stream, false), [this, stream, key, step, bytes, used = worker.used] {
      if (open_.count(stream) == 0) return;
      v1::BatchPart part;
      ToProto(key.second, part.mutable_lease());
      ToProto(key.first, part.mutable_at());
      part.set_total_bytes(bytes);
      part.set_credit_used(used);
      state_->OnBatchesPart(stream, part, bytes, now_);
      if (WorkerModel* from = WorkerOf(stream); from != nullptr && from->told_room > 0) {
        --from->told_room;
      }
      state_->OnBatchesArrival(stream, ArrivalOf(*steps_, step, key.second, bytes), now_);
    });
  }
}

void Simulation::SayAlive() {
  for (auto& worker : workers_) {
    if (!worker->alive || worker->hung || worker->stream == 0) continue;
    const StreamId stream = worker->stream;
    At(Arrives(stream, false), [this, stream] {
      if (open_.count(stream) == 0) return;
      v1::BatchPart part;
      part.mutable_alive();
      state_->OnBatchesPart(stream, part, 0, now_);
    });
  }
  if (dispatcher_up_ && attach_ != 0) {
    v1::AttachResponse pulse;
    pulse.set_term(term_);
    SendAttachResponse(pulse);
  }
  After(kSecond, [this] { SayAlive(); });
}

void Simulation::BreakWorker(WorkerModel& worker, bool silently) {
  worker.alive = false;
  const StreamId stream = worker.stream;
  if (silently || stream == 0) return;
  At(Arrives(stream, false), [this, stream] {
    if (open_.erase(stream) == 0) return;
    state_->OnBatchesClosed(stream, Unavailable("connection reset"), now_);
  });
}

// --- the dispatcher ---------------------------------------------------------------------------

void Simulation::SendAttachResponse(const v1::AttachResponse& message) {
  const StreamId stream = attach_;
  At(Arrives(stream, false), [this, stream, message] {
    if (open_.count(stream) != 0) state_->OnAttachMessage(stream, message, now_);
  });
}

void Simulation::OnAttach(StreamId stream, const v1::AttachRequest& message) {
  if (message.has_hello()) {
    if (FromProto(message.hello().start()) != options_.start) broken.push_back("start changed");
    if (message.hello().highest_term() > term_) broken.push_back("term from nowhere");
    // Messages that were on their way on the stream before count as never sent.
    const Number last = FromProto(message.report().last_lease());
    std::erase_if(granted_, [&](const auto& granted) { return granted.first > last; });
    v1::AttachResponse response;
    response.set_term(term_);
    v1::Welcome& welcome = *response.mutable_welcome();
    ToProto(Number{10, 1}, welcome.mutable_session());
    welcome.set_fingerprint(kPlan.ToString());
    ToProto(options_.start, welcome.mutable_start());
    ToProto(options_.steps, welcome.mutable_spec()->mutable_steps());
    SendAttachResponse(response);
  }
  if (message.has_report() && stream == attach_) Fill(message.report());
}

void Simulation::Fill(const v1::Report& report) {
  const Number last = FromProto(report.last_lease());
  std::set<Number> held;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> covered;
  for (const v1::Lease& lease : report.held()) {
    held.insert(FromProto(lease.id()));
    const std::uint64_t first = steps_->Index(FromProto(lease).shard.at);
    covered.emplace_back(first, first + lease.shard().batches());
  }
  for (auto it = granted_.begin(); it != granted_.end();) {
    if (it->first <= last && held.count(it->first) == 0) {
      it = granted_.erase(it);
      continue;
    }
    if (it->first > last) covered.push_back(it->second);
    ++it;
  }
  std::vector<const WorkerModel*> usable;
  std::set<Number> failing;
  for (const v1::Failing& f : report.failing()) failing.insert(FromProto(f.worker()));
  for (const auto& worker : workers_) {
    if (worker->alive && failing.count(worker->where.id) == 0) usable.push_back(worker.get());
  }
  if (usable.empty()) {
    for (const auto& worker : workers_) {
      if (worker->alive) usable.push_back(worker.get());
    }
  }
  if (usable.empty()) return;

  v1::AttachResponse response;
  response.set_term(term_);
  const std::uint64_t next = steps_->Index(FromProto(report.next()));
  const std::uint64_t end = std::min(next + report.window(), steps_->end());
  for (std::uint64_t step = next; step < end;) {
    const auto inside = std::find_if(covered.begin(), covered.end(), [step](const auto& c) {
      return c.first <= step && step < c.second;
    });
    if (inside != covered.end()) {
      step = inside->second;
      continue;
    }
    const std::uint64_t epoch_left = steps_->arithmetic().StepsFrom(steps_->At(step).example);
    std::uint64_t batches = std::min<std::uint64_t>({1 + random_() % 4, epoch_left, end - step});
    for (const auto& [first, last_step] : covered) {
      if (first > step) batches = std::min(batches, first - step);
    }
    if (batches > 1 && steps_->arithmetic().IsTail(steps_->At(step + batches - 1))) --batches;
    const int copies = Chance(options_.copies) ? 2 : 1;
    for (int copy = 0; copy < copies; ++copy) {
      Lease lease;
      lease.id = {term_, ++next_number_};
      lease.worker = usable[random_() % usable.size()]->where;
      lease.copy = copy == 1;
      const ExampleRange range = steps_->Examples(step);
      lease.shard = {steps_->At(step), steps_->arithmetic().stride(), range.first, range.count,
                     static_cast<std::uint32_t>(batches)};
      ToProto(lease, response.add_leases());
      granted_[lease.id] = {step, step + batches};
      if (copy == 0) steps_leased += batches;
    }
    step += batches;
  }
  if (response.leases_size() == 0) return;
  SendAttachResponse(response);
  if (Chance(options_.repeats)) SendAttachResponse(response);
}

void Simulation::RestartDispatcher() {
  dispatcher_up_ = false;
  granted_.clear();
  const StreamId stream = attach_;
  At(Arrives(stream, false), [this, stream] {
    if (open_.erase(stream) == 0) return;
    state_->OnAttachClosed(stream, Unavailable("connection reset"), now_);
  });
  After(Milliseconds(10, 6000), [this] {
    ++term_;
    next_number_ = 0;
    dispatcher_up_ = true;
  });
}

// --- faults and the loop ----------------------------------------------------------------------

void Simulation::Fault() {
  if (now_ >= faults_over_) {
    // One working worker is enough for everything that follows.
    for (auto& worker : workers_) {
      if (worker->hung) BreakWorker(*worker, true);
    }
    AddWorker();
    return;
  }
  if (Chance(0.2)) {
    if (dispatcher_up_) RestartDispatcher();
  } else {
    WorkerModel& worker = *workers_[random_() % workers_.size()];
    const int kind = static_cast<int>(random_() % 3);
    if (kind == 0) worker.hung = true;
    if (kind != 0 && worker.alive) BreakWorker(worker, kind == 1);
    After(Milliseconds(10, 3000), [this] { AddWorker(); });
  }
  const double mean = 1000 / options_.faults_per_second;
  After(Milliseconds(1, static_cast<int>(2 * mean)), [this] { Fault(); });
}

void Simulation::Loop() {
  if (state_->admission() && state_->next() != state_->steps().end() &&
      state_->holds(state_->next())) {
    taken.push_back(state_->next());
    state_->SetWaiting(false, now_);
    state_->OnTaken(now_);
    loop_waits_ = false;
    state_->SetLoopHolds(Chance(0.05) ? random_() % 30 : 1, now_);
    After(Milliseconds(0, Chance(0.01) ? 3000 : 20), [this] { Loop(); });
    return;
  }
  if (!loop_waits_) {
    loop_waits_ = true;
    state_->SetWaiting(true, now_);
  }
  After(kMs, [this] { Loop(); });
}

void Simulation::CheckBounds() {
  if (!state_->admission()) return;
  // I5. Windows become smaller when batches turn out larger, but what was granted before may still
  // come.
  largest_window_ = std::max(largest_window_, state_->window());
  std::uint64_t granted = 0;
  for (const auto& worker : workers_) {
    if (worker->stream != 0 && worker->alive) granted += worker->told_room;
  }
  const std::uint64_t copies = state_->leases().all().empty() ? 0 : options_.copies > 0 ? 4 : 0;
  if (state_->held_batches() + granted > largest_window_ + 1 + copies) {
    broken.push_back(fmt::format("{} held and {} granted with a window of {}",
                                 state_->held_batches(), granted, largest_window_));
  }
  if (state_->held_bytes() > options_.prefetch_bytes + 2 * state_->largest_bytes()) {
    broken.push_back(fmt::format("{} bytes held, {} to prefetch", state_->held_bytes(),
                                 options_.prefetch_bytes));
  }
}

}  // namespace millrace::client
