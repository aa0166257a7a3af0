#include "tests/unit/client/session/run/fake_service.h"

#include <utility>

#include "common/base/hash.h"
#include "common/epoch/position.h"
#include "common/transport/convert/places.h"
#include "common/transport/convert/steps.h"
#include "common/transport/convert/tables.h"
#include "common/transport/convert/tensors.h"

namespace millrace::client {
namespace {

constexpr std::size_t kFragmentBytes = 100;  // several fragments for each batch
const Fingerprint kFakePlan{{1, 2}, {3, 4}};

/// The only tensor of its batches.
TensorSpec NumberTensor() {
  TensorSpec spec;
  spec.path = "number";
  spec.dtype = DType::kUint32;
  spec.dimension = "batch";
  spec.max = 0xffffffff;
  return spec;
}

/// Writes one message at a time, and keeps the others in a queue.
template <class Out>
class Outbox {
 public:
  explicit Outbox(std::shared_ptr<Stream<Out>> stream) : stream_(std::move(stream)) {}

  void Send(Out message) {
    MutexLock lock(mutex_);
    queue_.push_back(std::move(message));
    WriteNext();
  }
  void OnWriteDone() {
    MutexLock lock(mutex_);
    writing_ = false;
    WriteNext();
  }
  const std::shared_ptr<Stream<Out>>& stream() const { return stream_; }

 private:
  void WriteNext() MILLRACE_REQUIRES(mutex_) {
    if (writing_ || queue_.empty()) return;
    writing_ = true;
    stream_->Write(std::move(queue_.front()));
    queue_.pop_front();
  }

  const std::shared_ptr<Stream<Out>> stream_;
  Mutex mutex_;
  bool writing_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::deque<Out> queue_ MILLRACE_GUARDED_BY(mutex_);
};

class DispatcherSide final : public StreamHandler<v1::AttachRequest> {
 public:
  DispatcherSide(std::shared_ptr<FakeService> service,
                 std::shared_ptr<Stream<v1::AttachResponse>> stream)
      : service_(std::move(service)), out_(std::move(stream)) {}

  void OnMessage(v1::AttachRequest message) override {
    MutexLock lock(service_->mutex);
    if (message.bye()) ++service_->byes;
    v1::AttachResponse response;
    response.set_term(7);
    if (message.has_hello()) {
      hello_ = message.hello();
      service_->hellos.push_back(hello_);
      ++service_->attaches;
      if (!service_->refuse.ok()) {
        out_.stream()->Close(service_->refuse);
      } else if (!service_->admit) {
        ToProto(SessionId({7, 1}), response.mutable_waiting()->mutable_session());
        response.mutable_waiting()->set_why("job held by host7:4121");
        out_.Send(response);
      } else {
        Welcome(response);
        out_.Send(response);
      }
    }
    service_->changed.NotifyAll();
  }
  void OnWriteDone() override { out_.OnWriteDone(); }
  void OnClosed(const Status&) override { out_.stream()->Close(OkStatus()); }

 private:
  void Welcome(v1::AttachResponse& response) MILLRACE_REQUIRES(service_->mutex) {
    v1::Welcome& welcome = *response.mutable_welcome();
    ToProto(SessionId({7, 1}), welcome.mutable_session());
    welcome.set_fingerprint(kFakePlan.ToString());
    *welcome.mutable_start() = hello_.start();
    welcome.set_static_digest(Xxh3(service_->static_bytes).ToHex());
    response.mutable_list()->set_number(1);
    v1::WorkerRef& worker = *response.mutable_list()->add_workers();
    ToProto(WorkerId({7, 2}), worker.mutable_id());
    worker.set_address(kWorkerAddress);
    v1::Spec& spec = *welcome.mutable_spec();
    ToProto(service_->steps, spec.mutable_steps());
    spec.mutable_steps()->set_world_size(hello_.world_size());
    spec.mutable_drop_reasons()->Assign(service_->drop_reasons.begin(),
                                        service_->drop_reasons.end());
    spec.mutable_expand()->set_symmetrization("none");
    spec.set_order_fingerprint(kFakePlan.ToString());
    for (const TableSpec& table : service_->tables) ToProto(table, spec.add_tables());
    ToProto(NumberTensor(), spec.add_tensors());
    if (service_->program.outputs_size() > 0) *spec.mutable_program() = service_->program;
  }

  const std::shared_ptr<FakeService> service_;
  Outbox<v1::AttachResponse> out_;
  v1::Hello hello_;
};

class Dispatcher final : public DispatcherEndpoint {
 public:
  explicit Dispatcher(std::shared_ptr<FakeService> service) : service_(std::move(service)) {}

  std::shared_ptr<StreamHandler<v1::AttachRequest>> OnAttach(
      std::shared_ptr<Stream<v1::AttachResponse>> stream, const Peer&) override {
    MutexLock lock(service_->mutex);
    service_->streams.push_back(stream);
    return std::make_shared<DispatcherSide>(service_, std::move(stream));
  }
  std::shared_ptr<StreamHandler<v1::WorkRequest>> OnWork(std::shared_ptr<Stream<v1::WorkResponse>>,
                                                         const Peer&) override {
    return nullptr;
  }
  Result<v1::ServiceStatus> OnGetStatus(const Peer&) override { return v1::ServiceStatus(); }
  Result<v1::DrainWorkerResponse> OnDrainWorker(const v1::DrainWorkerRequest&) override {
    return Unimplemented("drain");
  }
  Result<v1::UndrainWorkerResponse> OnUndrainWorker(const v1::UndrainWorkerRequest&) override {
    return Unimplemented("undrain");
  }
  Result<v1::EndJobResponse> OnEndJob(const v1::EndJobRequest&, const Peer&) override {
    return Unimplemented("end");
  }

 private:
  const std::shared_ptr<FakeService> service_;
};

class WorkerSide final : public StreamHandler<v1::WantList> {
 public:
  WorkerSide(std::shared_ptr<FakeService> service, std::shared_ptr<Stream<OutgoingFragment>> stream)
      : service_(std::move(service)), out_(std::move(stream)) {}

  /// A worker says first what it has: slots for all that may be asked.
  void SayAlive() {
    OutgoingFragment out;
    out.message.mutable_alive()->set_slots(64);
    out.message.mutable_alive()->set_batch_ms(1);
    out.message.mutable_alive()->set_threads_milli(1000);
    out_.Send(std::move(out));
  }
  /// Sends what is asked and is not sent yet. It has no use for credit: batches are small.
  void OnMessage(v1::WantList wants) override {
    {
      MutexLock lock(service_->mutex);
      service_->wants = wants;
    }
    const Position until = FromProto(wants.until());
    for (const v1::Run& run : wants.runs()) {
      for (std::uint32_t k = 0; k < run.steps(); ++k) {
        const Position at{run.epoch(), run.position() + k * run.stride()};
        if (at >= until) return;
        if (!sent_.insert(at).second) continue;
        SendBatch(at, {run.first_example() + k * run.stride(), run.examples()});
      }
    }
  }
  void OnWriteDone() override { out_.OnWriteDone(); }
  void OnClosed(const Status&) override {}

 private:
  void SendBatch(Position at, ExampleRange range) {
    const std::shared_ptr<const PackedBatch> batch =
        NumbersBatch(at.epoch, range, service_->drops_first_as);
    auto bytes =
        std::make_shared<std::vector<std::byte>>(batch->bytes().begin(), batch->bytes().end());
    {
      MutexLock lock(service_->mutex);
      if (!service_->serve) return;
      if (service_->damage) bytes->back() ^= std::byte{1};
      ++service_->sent;
      service_->changed.NotifyAll();
    }
    for (std::size_t offset = 0; offset < bytes->size(); offset += kFragmentBytes) {
      OutgoingFragment out;
      ToProto(at, out.message.mutable_at());
      out.message.set_total_bytes(bytes->size());
      out.message.set_offset(offset);
      out.message.set_digest(batch->digest().ToBytes());
      out.data = std::span<const std::byte>(*bytes).subspan(
          offset, std::min(kFragmentBytes, bytes->size() - offset));
      out.owner = bytes;
      out_.Send(std::move(out));
    }
  }

  const std::shared_ptr<FakeService> service_;
  Outbox<OutgoingFragment> out_;
  std::set<Position> sent_;
};

class Worker final : public WorkerEndpoint {
 public:
  explicit Worker(std::shared_ptr<FakeService> service) : service_(std::move(service)) {}

  std::shared_ptr<StreamHandler<v1::WantList>> OnStreamBatches(
      std::shared_ptr<Stream<OutgoingFragment>> stream, const Peer&) override {
    auto side = std::make_shared<WorkerSide>(service_, std::move(stream));
    side->SayAlive();
    return side;
  }
  Result<StaticBytes> OnGetStatic(const std::string&, const Peer&) override {
    return StaticBytes{Xxh3(service_->static_bytes).ToHex(),
                       std::make_shared<const std::string>(service_->static_bytes)};
  }

 private:
  const std::shared_ptr<FakeService> service_;
};

}  // namespace

std::shared_ptr<const PackedBatch> NumbersBatch(std::uint64_t epoch, ExampleRange range,
                                                std::optional<DropReason> drops_first_as) {
  BufferPool pool;
  BatchWriter writer = BatchWriter::Create({NumberTensor()}, ExpandSpec{}, pool).value();
  writer.Begin(kFakePlan, epoch, range.first, range.count);
  std::uint32_t begin = 0;
  if (drops_first_as) writer.AddDropped(ExampleId(range.first + begin++), *drops_first_as);
  for (std::uint32_t i = begin; i < range.count; ++i) {
    writer.AppendOne(0, static_cast<std::int64_t>(range.first + i));
    writer.EndExample(ExampleId(range.first + i));
  }
  return writer.Seal().value();
}

std::shared_ptr<DispatcherEndpoint> MakeFakeDispatcher(std::shared_ptr<FakeService> service) {
  return std::make_shared<Dispatcher>(std::move(service));
}
std::shared_ptr<WorkerEndpoint> MakeFakeWorker(std::shared_ptr<FakeService> service) {
  return std::make_shared<Worker>(std::move(service));
}

FakeWorld::FakeWorld() {
  network.AddDispatcher(kDispatcherAddress, MakeFakeDispatcher(service));
  network.AddWorker(kWorkerAddress, MakeFakeWorker(service));
}

FakeWorld::~FakeWorld() {
  std::vector<std::shared_ptr<Stream<v1::AttachResponse>>> streams;
  {
    MutexLock lock(service->mutex);
    streams.swap(service->streams);
  }
}

SessionOptions FakeWorld::Options() const {
  SessionOptions options;
  options.address = kDispatcherAddress;
  options.job = "j";
  options.pipeline = "millrace: 1";
  options.epochs = 2;
  return options;
}

std::unique_ptr<Session> FakeWorld::Create(const SessionOptions& options) {
  SessionEnvironment environment;
  environment.connector = network.MakeConnector("trainer:1");
  environment.random = [] { return 0.0; };
  return Session::Create(options, environment).value();
}

}  // namespace millrace::client
