// The threads and streams of a session. They bring events to its state machine, and perform the
// machine's actions.

#include "client/session/run/session_runner.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "client/session/run/batch_receiver.h"
#include "client/session/run/spec_from_proto.h"

namespace millrace {

using client::StreamId;

namespace {

constexpr auto kGoodByeTime = std::chrono::seconds(1);

/// How much recycled memory may wait in the pool beyond the prefetched batches.
constexpr std::size_t kSpareBytes = std::size_t{64} << 20;

}  // namespace

class SessionRunner::AttachHandler final : public StreamHandler<v1::AttachResponse> {
 public:
  AttachHandler(std::weak_ptr<SessionRunner> runner, StreamId id)
      : runner_(std::move(runner)), id_(id) {}

  void OnMessage(v1::AttachResponse message) override {
    const std::shared_ptr<SessionRunner> runner = runner_.lock();
    if (runner == nullptr) return;
    const bool asked = runner->trace_.Obey(message);
    MutexLock lock(runner->mutex_);
    if (asked) runner->RecordWait();
    runner->machine_.OnAttachMessage(id_, message, runner->Now());
    runner->AfterEvent();
  }
  void OnWriteDone() override {
    const std::shared_ptr<SessionRunner> runner = runner_.lock();
    if (runner == nullptr) return;
    MutexLock lock(runner->mutex_);
    runner->machine_.OnAttachWritten(id_, runner->Now());
    runner->AfterEvent();
  }
  void OnClosed(const Status& status) override {
    const std::shared_ptr<SessionRunner> runner = runner_.lock();
    if (runner == nullptr) return;
    MutexLock lock(runner->mutex_);
    runner->machine_.OnAttachClosed(id_, status, runner->Now());
    runner->OnStreamClosed(id_);
    runner->AfterEvent();
  }

 private:
  const std::weak_ptr<SessionRunner> runner_;
  const StreamId id_;
};

class SessionRunner::BatchesHandler final : public StreamHandler<IncomingFragment> {
 public:
  BatchesHandler(std::weak_ptr<SessionRunner> runner, StreamId id, client::BatchReceiver receiver)
      : runner_(std::move(runner)), id_(id), receiver_(std::move(receiver)) {}

  void OnMessage(IncomingFragment in) override {
    const std::shared_ptr<SessionRunner> runner = runner_.lock();
    if (runner == nullptr) return;
    bool wanted = false;
    std::uint64_t limit = 0;
    const Time came = runner->trace_.tracer().Begin();
    if (in.message.offset() == 0) first_came_ = came;
    {
      MutexLock lock(runner->mutex_);
      wanted = runner->machine_.OnBatchesFragment(id_, in.message, in.batch_bytes(), runner->Now());
      limit = runner->machine_.batch_limit_bytes();
      session_ = runner->machine_.session();
      runner->AfterEvent();
    }
    if (in.data_bytes() == 0) return;
    const Time gathers = runner->trace_.tracer().Begin();
    Result<std::optional<client::ReceivedBatch>> received = receiver_.OnFragment(in, wanted, limit);
    if (runner->trace_.tracer().on()) RecordFragment(runner->trace_.tracer(), in, gathers);
    if (received.ok() && !received->has_value()) return;
    MutexLock lock(runner->mutex_);
    if (!received.ok()) {
      runner->machine_.OnBatchesBad(id_, received.status(), runner->Now());
    } else {
      client::ReceivedBatch& batch = **received;
      const client::Verdict verdict =
          runner->machine_.OnBatchesArrival(id_, batch.arrival, runner->Now());
      if (verdict == client::Verdict::kTaken && runner->prefetcher_ != nullptr) {
        runner->RecordAsk(batch.arrival.at, batch.arrival.bytes);
        runner->Push(runner->machine_.steps().Index(batch.arrival.at), std::move(batch.batch));
      }
    }
    runner->AfterEvent();
  }
  void OnWriteDone() override {
    const std::shared_ptr<SessionRunner> runner = runner_.lock();
    if (runner == nullptr) return;
    MutexLock lock(runner->mutex_);
    runner->machine_.OnBatchesWritten(id_, runner->Now());
    runner->AfterEvent();
  }
  void OnClosed(const Status& status) override {
    const std::shared_ptr<SessionRunner> runner = runner_.lock();
    if (runner == nullptr) return;
    MutexLock lock(runner->mutex_);
    runner->machine_.OnBatchesClosed(id_, status, runner->Now());
    runner->OnStreamClosed(id_);
    runner->AfterEvent();
  }

 private:
  void RecordFragment(Tracer& tracer, const IncomingFragment& in, Time gathers) const;

  const std::weak_ptr<SessionRunner> runner_;
  const StreamId id_;
  client::BatchReceiver receiver_;
  SessionId session_;  // number of the consumer's session
  Time first_came_;  // when the first fragment of the present batch came, for a trace
};

void SessionRunner::BatchesHandler::RecordFragment(Tracer& tracer, const IncomingFragment& in,
                                                   Time gathers) const {
  Span span;
  span.kind = SpanKind::kGather;
  span.lane = static_cast<std::uint32_t>(id_);
  span.begin = gathers;
  span.end = tracer.Begin();
  span.session = session_;
  span.epoch = in.message.at().epoch();
  span.example = in.message.at().example();
  span.bytes = in.data_bytes();
  tracer.Record(span);
  if (in.message.offset() + in.batch_bytes() < in.message.total_bytes()) return;
  span.kind = SpanKind::kReceive;
  span.begin = first_came_;
  span.bytes = in.message.total_bytes();
  tracer.Record(span);
}

SessionRunner::SessionRunner(const SessionOptions& options, const SessionEnvironment& environment,
                             client::SessionMachineOptions machine_options)
    : options_(options),
      device_(environment.device),
      connector_(environment.connector),
      clock_(environment.clock),
      longest_sleep_(environment.longest_sleep),
      pool_(std::make_shared<BufferPool>(options.prefetch_bytes + kSpareBytes,
                                         device_->receive_memory())),
      holds_(std::make_shared<HoldCount>()),
      trace_(clock_, machine_options.hello.where(), machine_options.hello.host_id()),
      machine_(std::move(machine_options), environment.random, options.logger),
      prefetcher_(std::make_unique<client::Prefetcher>(
          device_, options.micro,
          client::ExpandDepth{options.expanded_batches, options.expanded_bytes}, trace_.tracer(),
          [this] {
            MutexLock lock(mutex_);
            loop_.NotifyAll();
          })) {}

void SessionRunner::Start() {
  holds_->runner = weak_from_this();
  MutexLock lock(mutex_);
  machine_.Start(Now());
  AfterEvent();
  thread_ = std::thread([this] { Run(); });
}

void SessionRunner::Shutdown() {
  {
    MutexLock lock(mutex_);
    machine_.Leave(Cancelled("the session was closed"), Now());
    AfterEvent();
    const auto give_up = std::chrono::steady_clock::now() + kGoodByeTime;
    while (!machine_.left() || !attach_streams_.empty()) {
      const auto left = give_up - std::chrono::steady_clock::now();
      if (left <= left.zero()) break;
      loop_.WaitFor(mutex_, left);
    }
    stopping_ = true;
    driver_.NotifyAll();
  }
  thread_.join();
  std::unique_ptr<client::Prefetcher> prefetcher;
  std::vector<std::shared_ptr<void>> streams;
  {
    MutexLock lock(mutex_);
    prefetcher = std::move(prefetcher_);
    streams = std::move(dropped_);
    for (auto& [id, stream] : attach_streams_) streams.push_back(std::move(stream));
    for (auto& [id, stream] : batch_streams_) streams.push_back(std::move(stream));
    attach_streams_.clear();
    batch_streams_.clear();
    actions_.clear();
  }
  streams.clear();
  connector_->WaitForStreams(Connector::kStreamsEndSeconds);
}

// --- actions ----------------------------------------------------------------------------------

void SessionRunner::Run() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (!actions_.empty()) {
      // PerformActions has performed everything up to the first action that opens a stream.
      const client::Action action = std::move(actions_.front());
      actions_.pop_front();
      opening_ = true;
      lock.Unlock();
      Opened opened = Open(action);
      lock.Lock();
      opening_ = false;
      if (opened.attach != nullptr) attach_streams_[opened.id] = std::move(opened.attach);
      if (opened.batches != nullptr) batch_streams_[opened.id] = std::move(opened.batches);
      // The stream may have been closed before it was in the maps.
      for (const StreamId closed : std::exchange(closed_while_opening_, {})) OnStreamClosed(closed);
      PerformActions();
      continue;
    }
    if (!dropped_.empty()) {
      std::vector<std::shared_ptr<void>> dropped = std::move(dropped_);
      dropped_.clear();
      lock.Unlock();
      dropped.clear();
      lock.Lock();
      continue;
    }
    const Time now = Now();
    const Time due = machine_.NextTick();
    if (due <= now) {
      machine_.Tick(now);
      AfterEvent();
      continue;
    }
    sleeping_until_ = due;
    driver_.WaitFor(mutex_, std::min(due - now, longest_sleep_));
    sleeping_until_ = {};
  }
}

void SessionRunner::AfterEvent() {
  NoteWait();
  if (stopping_) return;
  if (machine_.admission() && !attached_ && machine_.status().ok()) {
    Result<client::AdmittedPlan> plan =
        client::PlanFromProto(*machine_.admission(), options_.index_dtype, options_.micro);
    if (plan.ok()) {
      spec_ = std::move(plan->spec);
      prefetcher_->SetDelivery(std::move(plan->delivery));
      epoch_ = spec_.start.epoch;
      attached_ = true;
      loop_.NotifyAll();
    } else {
      machine_.Leave(plan.status(), Now());
    }
  }
  if (!machine_.status().ok()) loop_.NotifyAll();
  PerformActions();
  if (machine_.NextTick() < sleeping_until_) driver_.NotifyAll();
}

void SessionRunner::PerformActions() {
  for (client::Action& action : machine_.TakeActions()) actions_.push_back(std::move(action));
  while (!actions_.empty() && !opening_) {
    client::Action& front = actions_.front();
    if (std::holds_alternative<client::OpenAttach>(front) ||
        std::holds_alternative<client::OpenBatches>(front)) {
      driver_.NotifyAll();
      return;
    }
    client::Action action = std::move(front);
    actions_.pop_front();
    Perform(std::move(action));
  }
  if (!dropped_.empty()) driver_.NotifyAll();
}

void SessionRunner::Perform(client::Action action) {
  if (auto* send = std::get_if<client::SendAttach>(&action)) {
    trace_.AddTo(send->message, machine_.session().number());
    const auto it = attach_streams_.find(send->stream);
    if (it != attach_streams_.end()) it->second->Write(std::move(send->message));
  } else if (auto* wants = std::get_if<client::SendWants>(&action)) {
    const auto it = batch_streams_.find(wants->stream);
    if (it != batch_streams_.end()) it->second->Write(std::move(wants->message));
  } else if (const auto* close = std::get_if<client::CloseStream>(&action)) {
    const auto end = [&](auto& streams) MILLRACE_REQUIRES(mutex_) {
      const auto it = streams.find(close->stream);
      if (it == streams.end()) return;
      it->second->Close(close->why);
      // A half-closed stream stays until the other end has read all of it.
      if (!close->why.ok()) {
        dropped_.push_back(std::move(it->second));
        streams.erase(it);
      }
    };
    end(attach_streams_);
    end(batch_streams_);
  } else if (std::holds_alternative<client::TrimMemory>(action)) {
    pool_->Trim();
  }
}

SessionRunner::Opened SessionRunner::Open(const client::Action& action) {
  Opened opened;
  if (const auto* open = std::get_if<client::OpenAttach>(&action)) {
    opened.id = open->stream;
    opened.attach = connector_->Attach(
        open->address, std::make_shared<AttachHandler>(weak_from_this(), opened.id));
  } else if (const auto* open_batches = std::get_if<client::OpenBatches>(&action)) {
    opened.id = open_batches->stream;
    // The action follows a Welcome, so that the spec is written.
    client::BatchReceiver receiver(pool_, spec_.token_tensor);
    opened.batches = connector_->StreamBatches(
        BatchAddress(open_batches->worker.address, open_batches->worker.host_id,
                     open_batches->worker.unix_socket),
        std::make_shared<BatchesHandler>(weak_from_this(), opened.id, std::move(receiver)));
  }
  return opened;
}

void SessionRunner::OnStreamClosed(StreamId stream) {
  if (opening_) closed_while_opening_.push_back(stream);
  const auto drop = [&](auto& streams) MILLRACE_REQUIRES(mutex_) {
    const auto it = streams.find(stream);
    if (it == streams.end()) return;
    dropped_.push_back(std::move(it->second));
    streams.erase(it);
  };
  drop(attach_streams_);
  drop(batch_streams_);
  loop_.NotifyAll();
  driver_.NotifyAll();
}

}  // namespace millrace
