#include "server/dispatcher/service/dispatcher_service.h"

#include <algorithm>
#include <future>
#include <utility>

#include <fmt/core.h>

#include "common/access/rights.h"
#include "common/system/host.h"
#include "server/dispatcher/machine/status.h"
#include "server/dispatcher/machine/status_reach.h"
#include "server/dispatcher/service/dispatcher_metrics.h"

namespace millrace {
namespace {

constexpr int kCompilers = 2;
constexpr int kMostQuestions = 64;
constexpr std::chrono::seconds kAnswerWithin(10);

/// A stream that came in. If the event loop never takes it, it is refused, so that its peer
/// connects again.
template <class StreamT>
struct Offer {
  explicit Offer(std::shared_ptr<StreamT> offered) : stream(std::move(offered)) {}
  ~Offer() {
    if (stream) stream->Close(Unavailable("the dispatcher stops: connect again"));
  }
  Offer(const Offer&) = delete;
  Offer& operator=(const Offer&) = delete;

  std::shared_ptr<StreamT> stream;
};

}  // namespace

Result<std::shared_ptr<DispatcherService>> DispatcherService::Start(
    const DispatcherOptions& options, std::shared_ptr<StateStore> store,
    std::shared_ptr<PlanCompiler> compiler, std::shared_ptr<const Clock> clock,
    std::shared_ptr<Logger> logger, DispatcherHooks hooks) {
  MILLRACE_ASSIGN_OR_RETURN(TermRecords begun, BeginTerm(*store, *clock, 0));
  logger->Info("dispatcher started", {{"term", begun.term}, {"jobs_kept", begun.jobs.size()}});
  return std::shared_ptr<DispatcherService>(
      new DispatcherService(options, std::move(store), std::move(compiler), std::move(clock),
                            std::move(logger), std::move(hooks), std::move(begun)));
}

Result<DispatcherService::TermRecords> DispatcherService::BeginTerm(StateStore& store,
                                                                    const Clock& clock,
                                                                    std::uint64_t above) {
  MILLRACE_ASSIGN_OR_RETURN(StoredState stored, store.Load());
  const auto now = static_cast<std::uint64_t>(std::max<std::int64_t>(clock.UnixSeconds(), 0));
  const std::uint64_t term = std::max({stored.term + 1, above + 1, now});
  MILLRACE_RETURN_IF_ERROR(store.CommitTerm(term));
  return TermRecords{term, std::move(stored.jobs)};
}

DispatcherService::DispatcherService(const DispatcherOptions& options,
                                     std::shared_ptr<StateStore> store,
                                     std::shared_ptr<PlanCompiler> compiler,
                                     std::shared_ptr<const Clock> clock,
                                     std::shared_ptr<Logger> logger, DispatcherHooks hooks,
                                     TermRecords begun)
    : options_(options),
      store_(std::move(store)),
      compiler_(std::move(compiler)),
      columns_(compiler_->column_keeper()),
      clock_(std::move(clock)),
      logger_(std::move(logger)),
      hooks_(std::move(hooks)),
      term_(begun.term),
      queue_(std::make_shared<TaskQueue>()),
      traces_(std::make_shared<TraceCollector>(clock_, Whereabouts(), NetworkHostId())),
      last_round_(clock_->Now()),
      refusals_(
          {"Attach", "Work", "GetColumn", "GetStatus", "DrainWorker", "UndrainWorker", "EndJob"}),
      counters_(options_.backend),
      dispatcher_(std::in_place, options_, begun.term, std::move(begun.jobs), Now(),
                  [this](const Update& update) { counters_.WillApply(update); }),
      compilers_(kCompilers),
      keeper_(1),
      committer_(1),
      loop_([this] { Loop(); }) {}

DispatcherService::~DispatcherService() { Stop(); }

void DispatcherService::Stop() {
  queue_->Close();
  if (loop_.joinable()) loop_.join();
}

bool DispatcherService::MayLead() {
  if (lost_.ok() && hooks_.may_lead) lost_ = hooks_.may_lead();
  if (!lost_.ok()) queue_->Close();
  return lost_.ok();
}

template <class Event>
void DispatcherService::Handle(Event event) {
  const auto began = std::chrono::steady_clock::now();
  event();
  events_.Observe(ToSeconds(std::chrono::steady_clock::now() - began));
}

void DispatcherService::Loop() {
  if (MayLead()) Perform(dispatcher_->OnTick(Now()));
  auto next_tick = std::chrono::steady_clock::now() + options_.tick;
  while (!queue_->closed()) {
    for (auto& task : queue_->TakeAll(next_tick)) {
      if (!MayLead()) break;
      Handle(task);
    }
    const auto now = std::chrono::steady_clock::now();
    if (now < next_tick || !MayLead()) continue;
    next_tick = now + options_.tick;
    last_round_ = clock_->Now();
    Handle([this] {
      Perform(dispatcher_->OnTick(Now()));
      TendTrace();
    });
  }
  for (auto& task : queue_->TakeAll(next_tick)) {
    if (MayLead()) task();
  }
  (void)MayLead();  // it sets the reason that peers are given
  const Status stops =
      !lost_.ok() ? lost_
                  : Unavailable(fmt::format("the dispatcher at {} has stopped", options_.address));
  for (auto& [id, stream] : attach_streams_) stream->Close(stops);
  for (auto& [id, stream] : work_streams_) stream->Close(stops);
  traces_->Stop(stops);
  attach_streams_.clear();
  work_streams_.clear();
}

Moment DispatcherService::Now() const { return {clock_->Now(), clock_->UnixSeconds()}; }

void DispatcherService::SetDataset(const std::string& id, v1::DatasetState dataset) {
  queue_->Post([this, id, dataset = std::move(dataset)] {
    datasets_[id] = dataset;
    Perform(dispatcher_->OnDataset(id, dataset, Now()));
  });
}

void DispatcherService::SetAddress(const std::string& address) {
  queue_->Post([this, address] { options_.address = address; });
}

void DispatcherService::Tick() {
  (void)Ask<bool>("GetStatus", [this]() -> Result<bool> {
    Perform(dispatcher_->OnTick(Now()));
    TendTrace();
    return true;
  });
}

// --- Streams

template <class StreamT, class Out>
std::shared_ptr<StreamT> DispatcherService::Accept(
    std::map<StreamId, std::shared_ptr<StreamT>>& streams, std::shared_ptr<Stream<Out>> stream,
    const Identity& peer) {
  const StreamId id = ++last_stream_;
  // The handler may outlive this service. It only posts to the queue, whose tasks the loop runs.
  auto notify = [this, queue = queue_, id, &streams] {
    queue->Post([this, id, &streams] { Drain(streams, id); });
  };
  constexpr bool kOfWorker = std::is_same_v<StreamT, WorkStream>;
  auto on_trace = [traces = traces_](v1::TraceReport report) {
    traces->OnReport(kOfWorker ? v1::TRACE_WORKER : v1::TRACE_CONSUMER, std::move(report));
  };
  auto accepted = std::make_shared<StreamT>(id, std::move(stream), std::move(notify),
                                            std::move(on_trace), peer);
  queue_->Post([this, id, offer = std::make_shared<Offer<StreamT>>(accepted), &streams] {
    const auto& opened = streams[id] = std::exchange(offer->stream, nullptr);
    Perform(dispatcher_->OnStreamOpened(id, kOfWorker, Now(), opened->peer().name));
  });
  return accepted;
}

template <class StreamT>
void DispatcherService::Drain(std::map<StreamId, std::shared_ptr<StreamT>>& streams, StreamId id) {
  const auto it = streams.find(id);
  if (it == streams.end()) return;
  const auto stream = it->second;
  auto inbound = stream->Take();
  for (auto& message : inbound.messages) {
    if constexpr (std::is_same_v<StreamT, WorkStream>) {
      Perform(dispatcher_->OnWork(id, message, Now()));
    } else {
      if (const Status refused = CheckDatasets(message, stream->peer()); !refused.ok()) {
        refusals_.Count("Attach", refused);
        logger_->Warning(
            "pipeline refused",
            {{"who", stream->peer().ToString()}, {"job", message.hello().job()}, {"why", refused}});
        Perform(dispatcher_->OnHelloRefused(message.hello(), refused, Now()));
        stream->Close(refused);
        return;
      }
      Perform(dispatcher_->OnAttach(id, std::move(message), Now()));
    }
  }
  if (!inbound.closed && !inbound.flooded) return;
  if (inbound.flooded && !inbound.closed) {
    const Status flooded =
        ResourceExhausted("messages come faster than they can be read: wait and reconnect");
    refusals_.Count(std::is_same_v<StreamT, WorkStream> ? "Work" : "Attach", flooded);
    stream->Close(flooded);
  }
  streams.erase(id);
  Perform(dispatcher_->OnStreamClosed(id, Now()));
}

Status DispatcherService::CheckDatasets(const v1::AttachRequest& request, const Identity& peer) {
  if (!request.has_hello() || (!peer.datasets && peer.plugins)) return OkStatus();
  for (const std::string& id : compiler_->NamedBy(request.hello().pipeline())) {
    MILLRACE_RETURN_IF_ERROR(CheckDataset(peer, id));
  }
  return OkStatus();
}

std::shared_ptr<StreamHandler<v1::AttachRequest>> DispatcherService::OnAttach(
    std::shared_ptr<Stream<v1::AttachResponse>> stream, const Peer& peer) {
  return Accept(attach_streams_, std::move(stream), peer.identity);
}

std::shared_ptr<StreamHandler<v1::WorkRequest>> DispatcherService::OnWork(
    std::shared_ptr<Stream<v1::WorkResponse>> stream, const Peer& peer) {
  return Accept(work_streams_, std::move(stream), peer.identity);
}

std::shared_ptr<StreamHandler<v1::TraceRequest>> DispatcherService::OnTrace(
    std::shared_ptr<Stream<v1::TraceChunk>> stream) {
  return traces_->Accept(std::move(stream));
}

void DispatcherService::TendTrace() {
  const std::optional<v1::TraceAsk> ask =
      traces_->Tick(dispatcher_->facts(), attach_streams_.size() + work_streams_.size());
  if (!ask) return;
  const auto ask_all = [&](const auto& streams, auto message) {
    message.set_term(term_);
    *message.mutable_trace() = *ask;
    for (const auto& [id, stream] : streams) stream->Send(message);
  };
  ask_all(attach_streams_, v1::AttachResponse());
  ask_all(work_streams_, v1::WorkResponse());
}

// --- Requests

namespace {

/// Workers and consumers that a status gets in one step.
constexpr std::size_t kStatusRows = 64;

/// Runs `step` on the queue's thread, with other tasks in between, until it gives the answer.
template <class T>
void PostStep(TaskQueue& queue, std::shared_ptr<std::promise<Result<T>>> answer,
              std::function<std::optional<Result<T>>()> step) {
  queue.Post([&queue, answer = std::move(answer), step = std::move(step)]() mutable {
    if (std::optional<Result<T>> done = step()) return answer->set_value(*std::move(done));
    PostStep<T>(queue, std::move(answer), std::move(step));
  });
}

}  // namespace

template <class T>
Result<T> DispatcherService::Ask(const char* method, std::function<Result<T>()> question) {
  return AskInSteps<T>(method, [question = std::move(question)]() -> std::optional<Result<T>> {
    return question();
  });
}

template <class T>
Result<T> DispatcherService::AskInSteps(const char* method,
                                        std::function<std::optional<Result<T>>()> step) {
  const auto refuse = [&](Status status) {
    refusals_.Count(method, status);
    return status;
  };
  if (queue_->closed()) return Unavailable("the dispatcher has stopped");
  if (++questions_ > kMostQuestions) {
    --questions_;
    return refuse(ResourceExhausted(
        fmt::format("{} requests wait, the limit: retry in 1 s", kMostQuestions)));
  }
  auto answer = std::make_shared<std::promise<Result<T>>>();
  auto future = answer->get_future();
  // Nobody else holds the promise, so that it breaks if a closed queue drops the task.
  PostStep<T>(*queue_, std::move(answer), std::move(step));
  const bool ready = future.wait_for(kAnswerWithin) == std::future_status::ready;
  --questions_;
  if (!ready) {
    return refuse(DeadlineExceeded("the dispatcher's event loop did not answer in 10 s"));
  }
  try {
    Result<T> result = future.get();
    refusals_.Count(method, result.status());
    return result;
  } catch (const std::future_error&) {
    return Unavailable("the dispatcher has stopped");
  }
}

void DispatcherService::AddMetrics(MetricSet& metrics) {
  refusals_.AddTo(metrics);
  const Result<MetricSet> asked = Ask<MetricSet>("GetStatus", [this, metrics]() mutable {
    const auto unix_seconds = static_cast<double>(clock_->UnixSeconds());
    AddDispatcherMetrics(*dispatcher_, options_, counters_, clock_->Now(), unix_seconds, metrics);
    metrics.Set(Metric::kEventSeconds, {}, events_);
    return Result<MetricSet>(std::move(metrics));
  });
  if (asked.ok()) metrics = *asked;
}

Result<std::shared_ptr<const std::string>> DispatcherService::OnGetColumn(
    const v1::GetColumnRequest& request) {
  if (columns_ == nullptr) return RunningDispatcher::OnGetColumn(request);
  auto file = columns_->File(request);
  refusals_.Count("GetColumn", file.status());
  return file;
}

Result<v1::ServiceStatus> DispatcherService::OnGetStatus(const Peer& peer) {
  // In steps, because answers that are due should not wait for a status of thousands of processes.
  auto build = std::make_shared<std::optional<StatusBuild>>();
  using Built = std::optional<Result<v1::ServiceStatus>>;
  Result<v1::ServiceStatus> status =
      AskInSteps<v1::ServiceStatus>("GetStatus", [this, build]() -> Built {
        if (!*build) build->emplace(*dispatcher_, options_);
        if (!(*build)->Step(kStatusRows, clock_->Now())) return std::nullopt;
        return (*build)->Take();
      });
  if (status.ok() && hooks_.security) *status->mutable_security() = hooks_.security();
  const Reach reach = ReachOf("/millrace.v1.Dispatcher/GetStatus", peer.identity);
  if (status.ok()) Restrict(*status, reach, peer.identity);
  return status;
}

Result<v1::DrainWorkerResponse> DispatcherService::OnDrainWorker(
    const v1::DrainWorkerRequest& request) {
  return Ask<v1::DrainWorkerResponse>("DrainWorker", [this, request]() {
    Actions actions;
    auto response = dispatcher_->DrainWorker(request, Now(), actions);
    Perform(std::move(actions));
    return response;
  });
}

Result<v1::UndrainWorkerResponse> DispatcherService::OnUndrainWorker(
    const v1::UndrainWorkerRequest& request) {
  return Ask<v1::UndrainWorkerResponse>("UndrainWorker", [this, request]() {
    Actions actions;
    auto response = dispatcher_->UndrainWorker(request, Now(), actions);
    Perform(std::move(actions));
    return response;
  });
}

Result<v1::EndJobResponse> DispatcherService::OnEndJob(const v1::EndJobRequest& request,
                                                       const Peer& peer) {
  std::optional<std::string> owner;
  if (ReachOf("/millrace.v1.Dispatcher/EndJob", peer.identity) == Reach::kOwn) {
    owner = peer.identity.name;
  }
  const std::string who = peer.identity.name;
  return Ask<v1::EndJobResponse>("EndJob", [this, request, owner, who]() {
    Actions actions;
    auto response = dispatcher_->EndJob(request, Now(), actions, owner, who);
    Perform(std::move(actions));
    return response;
  });
}

}  // namespace millrace
