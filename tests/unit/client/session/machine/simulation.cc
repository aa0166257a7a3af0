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
  After(kSecond, [this] { SayAll(); });
  After(Milliseconds(1, 1000), [this] { Fault(); });
  Loop();
}

std::string Simulation::Describe() const {
  return fmt::format("seed {}: at {:.2f} s, step {} of {}, {} held, {} asked", options_.seed,
                     ToSeconds(now_.since_boot), state_->admission() ? state_->next() : 0,
                     steps_->end(), state_->held_batches(), state_->asks().steps().size());
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
    CheckAsks();
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
      if (dispatcher_up_ && stream == attach_) OnAttach(message);
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
        fresh.told = now_;
        *worker = fresh;
        SayAlive(*worker);
        return;
      }
    }
    At(Arrives(stream, false), [this, stream] {
      open_.erase(stream);
      state_->OnBatchesClosed(stream, Unavailable("connection refused"), now_);
    });
  } else if (const auto* wants = std::get_if<SendWants>(&action)) {
    const StreamId stream = wants->stream;
    if (wants->message.runs_size() > 256) broken.push_back("a list has over 256 runs");
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
  const Number number{term_, ++next_number_};
  worker->where = {WorkerId(number), "w" + std::to_string(number.n) + ":1", "", ""};
  workers_.push_back(std::move(worker));
  SendList();
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
  worker->until = FromProto(wants.until());
  worker->told = now_;
  worker->wants.clear();
  for (const v1::Run& run : wants.runs()) {
    steps_->ForEach(run, 0, steps_->end(),
                    [&](std::uint64_t step) { worker->wants.insert(steps_->At(step)); });
  }
  const auto unwanted = [&](const Position& at) { return !worker->wants.contains(at); };
  std::erase_if(worker->built, unwanted);
  std::erase_if(worker->sent, unwanted);
  Send(*worker);
  Work(*worker);
}

void Simulation::Work(WorkerModel& worker) {
  if (worker.building || worker.hung || worker.stream == 0) return;
  for (const Position& at : worker.wants) {
    if (worker.built.contains(at) || worker.sent.contains(at)) continue;
    worker.building = at;
    ++builds;
    const StreamId stream = worker.stream;
    After(Milliseconds(1, Chance(options_.slow) ? 1500 : 30), [this, stream, at] {
      WorkerModel* builder = WorkerOf(stream);
      if (builder == nullptr) return;
      builder->building.reset();
      if (builder->wants.contains(at)) builder->built.insert(at);
      Send(*builder);
      Work(*builder);
      SayAlive(*builder);
    });
    return;
  }
}

void Simulation::Send(WorkerModel& worker) {
  while (!worker.hung && worker.stream != 0 && !worker.built.empty()) {
    const Position at = *worker.built.begin();
    const std::uint64_t step = steps_->Index(at);
    const std::uint64_t bytes = BytesOf(step);
    if (at > worker.next) {
      if (at >= worker.until || worker.used + bytes > worker.credit) return;
      worker.used += bytes;
    }
    worker.built.erase(worker.built.begin());
    worker.sent.insert(at);
    const StreamId stream = worker.stream;
    At(Arrives(stream, false), [this, stream, at, step, bytes, used = worker.used] {
      if (open_.count(stream) == 0) return;
      v1::BatchFragment fragment;
      ToProto(at, fragment.mutable_at());
      fragment.set_total_bytes(bytes);
      fragment.set_credit_used(used);
      state_->OnBatchesFragment(stream, fragment, bytes, now_);
      state_->OnBatchesArrival(stream, ArrivalOf(*steps_, step, bytes), now_);
    });
  }
}

void Simulation::SayAlive(const WorkerModel& worker) {
  if (!worker.alive || worker.hung || worker.stream == 0) return;
  v1::BatchFragment fragment;
  v1::Alive& alive = *fragment.mutable_alive();
  alive.set_slots(4);
  alive.set_batch_ms(16);
  alive.set_threads_milli(1000);
  alive.set_wants_age_ms(static_cast<std::uint32_t>((now_ - worker.told) / kMs));
  for (const Position& at : worker.built) *alive.add_built() = steps_->RunAt(steps_->Index(at), 1);
  if (worker.building) ToProto(*worker.building, alive.add_building()->mutable_at());
  const StreamId stream = worker.stream;
  At(Arrives(stream, false), [this, stream, fragment] {
    if (open_.count(stream) != 0) state_->OnBatchesFragment(stream, fragment, 0, now_);
  });
}

void Simulation::SayAll() {
  for (const auto& worker : workers_) SayAlive(*worker);
  if (dispatcher_up_ && attach_ != 0) {
    v1::AttachResponse heartbeat;
    heartbeat.set_term(term_);
    SendAttachResponse(heartbeat);
  }
  After(kSecond, [this] { SayAll(); });
}

void Simulation::BreakWorker(WorkerModel& worker, bool silently) {
  worker.alive = false;
  SendList();
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

void Simulation::OnAttach(const v1::AttachRequest& message) {
  if (message.has_hello()) {
    if (FromProto(message.hello().start()) != options_.start) broken.push_back("start changed");
    if (message.hello().highest_term() > term_) broken.push_back("term from nowhere");
    v1::AttachResponse response;
    response.set_term(term_);
    v1::Welcome& welcome = *response.mutable_welcome();
    ToProto(SessionId({10, 1}), welcome.mutable_session());
    welcome.set_fingerprint(kPlan.ToString());
    ToProto(options_.start, welcome.mutable_start());
    ToProto(options_.steps, welcome.mutable_spec()->mutable_steps());
    SendAttachResponse(response);
  }
  SendList();
}

void Simulation::SendList() {
  After(Milliseconds(0, 250), [this] {
    if (!dispatcher_up_ || attach_ == 0 || !state_->admission()) return;
    v1::AttachResponse response;
    response.set_term(term_);
    response.mutable_list()->set_number(++list_number_);
    for (const auto& worker : workers_) {
      // Workers come back to a new dispatcher after it has answered consumers.
      if (!worker->alive || now_ < dispatcher_knows_) continue;
      v1::WorkerRef& ref = *response.mutable_list()->add_workers();
      ToProto(worker->where.id, ref.mutable_id());
      ref.set_address(worker->where.address);
    }
    SendAttachResponse(response);
    if (Chance(options_.repeats)) SendAttachResponse(response);
    if (now_ < dispatcher_knows_) At(dispatcher_knows_, [this] { SendList(); });
  });
}

void Simulation::RestartDispatcher() {
  dispatcher_up_ = false;
  const StreamId stream = attach_;
  At(Arrives(stream, false), [this, stream] {
    if (open_.erase(stream) == 0) return;
    state_->OnAttachClosed(stream, Unavailable("connection reset"), now_);
  });
  After(Milliseconds(10, 6000), [this] {
    ++term_;
    next_number_ = list_number_ = 0;
    dispatcher_up_ = true;
    dispatcher_knows_ = now_ + Milliseconds(0, 3000);
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
  std::uint64_t bytes = state_->held_bytes();
  for (const WorkerLink* const link : state_->workers().open()) bytes += link->credit_left();
  if (bytes > options_.prefetch_bytes + state_->largest_bytes()) {
    broken.push_back(
        fmt::format("{} bytes held or granted, {} to prefetch", bytes, options_.prefetch_bytes));
  }
  if (state_->held_bytes() > options_.prefetch_bytes + 2 * state_->largest_bytes()) {
    broken.push_back(fmt::format("{} bytes held, {} to prefetch", state_->held_bytes(),
                                 options_.prefetch_bytes));
  }
}

void Simulation::CheckAsks() {
  if (!state_->admission() || !state_->status().ok()) return;
  for (const auto& [step, asks] : state_->asks().steps()) {
    for (const Ask& ask : asks.all()) {
      const WorkerLink* const worker = state_->workers().Find(ask.worker);
      if (worker == nullptr || !worker->stream.spoke()) broken.push_back("J3: asked unheard");
    }
  }
  const std::uint64_t next = state_->next();
  if (!loop_waits_ || next == steps_->end() || state_->holds(next)) return;
  if (state_->asks().Find(next) != nullptr) return;
  for (const WorkerLink* const member : state_->workers().members()) {
    const bool may = member->stream.spoke() && member->stream.word->slots > 0;
    if (may && member->usable(now_)) broken.push_back("J2: the next step is asked of nobody");
  }
}

}  // namespace millrace::client
