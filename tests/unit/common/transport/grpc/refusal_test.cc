// A server that refuses a stream says why, in whatever order things happen.

#include <catch2/catch.hpp>

#include <memory>
#include <string>

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include "common/transport/grpc/grpc_server.h"
#include "tests/unit/common/transport/recorder.h"

namespace millrace {
namespace {

/// Refuses every stream at once.
class Refusing final : public test::TestDispatcher, public WorkerEndpoint {
 public:
  explicit Refusing(bool with_handler) : with_handler_(with_handler) {}
  std::shared_ptr<StreamHandler<v1::AttachRequest>> OnAttach(
      std::shared_ptr<Stream<v1::AttachResponse>> stream, const Peer&) override {
    return Refuse<v1::AttachRequest>(*stream);
  }
  std::shared_ptr<StreamHandler<v1::WorkRequest>> OnWork(
      std::shared_ptr<Stream<v1::WorkResponse>> stream, const Peer&) override {
    return Refuse<v1::WorkRequest>(*stream);
  }
  std::shared_ptr<StreamHandler<v1::TraceRequest>> OnTrace(
      std::shared_ptr<Stream<v1::TraceChunk>> stream) override {
    return Refuse<v1::TraceRequest>(*stream);
  }
  std::shared_ptr<StreamHandler<v1::WantList>> OnStreamBatches(
      std::shared_ptr<Stream<OutgoingFragment>> stream, const Peer&) override {
    return Refuse<v1::WantList>(*stream);
  }
  Result<StaticBytes> OnGetStatic(const std::string&, const Peer&) override {
    return NotFound("there are none");
  }

 private:
  template <class In, class Out>
  std::shared_ptr<StreamHandler<In>> Refuse(Stream<Out>& stream) const {
    if (!with_handler_) return nullptr;
    stream.Close(PermissionDenied("not you"));
    return std::make_shared<test::Recorder<In>>();
  }

  const bool with_handler_;
};

/// What the peer does before it reads.
enum class Before { kNothing, kWrites, kWritesAndCloses, kWritesMuch };

grpc::Status Call(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                  Before before, bool token) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + test::kPatience);
  if (token) context.AddMetadata("authorization", "Bearer s3cret");
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(&context, method, &queue);
  const auto wait = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    REQUIRE(queue.Next(&tag, &ok));
    return ok;
  };
  call->StartCall(nullptr);
  bool goes_on = wait();
  const grpc::Slice bytes(std::string(before == Before::kWritesMuch ? 60'000 : 0, '\0'));
  const int writes = before == Before::kNothing ? 0 : before == Before::kWritesMuch ? 4 : 1;
  for (int i = 0; goes_on && i < writes; ++i) {
    grpc::WriteOptions options;
    if (before == Before::kWritesAndCloses) options.set_last_message();
    call->Write(grpc::ByteBuffer(&bytes, 1), options, nullptr);
    goes_on = wait();
  }
  grpc::ByteBuffer answer;
  call->Read(&answer, nullptr);
  CHECK_FALSE(wait());
  grpc::Status status;
  call->Finish(&status, nullptr);
  wait();
  queue.Shutdown();
  return status;
}

TEST_CASE("a refusal reaches the peer of every stream, whatever that does meanwhile",
          "[network][refusal]") {
  const auto [by, code, says] = GENERATE(table<std::string, grpc::StatusCode, std::string>(
      {{"gate", grpc::StatusCode::UNAUTHENTICATED, "connection without TLS"},
       {"end", grpc::StatusCode::UNAVAILABLE, "shutting down"},
       {"endpoint", grpc::StatusCode::PERMISSION_DENIED, "not you"}}));
  const auto refusing = std::make_shared<Refusing>(by == "endpoint");
  const auto control = *GrpcServer::Start({}, std::shared_ptr<DispatcherEndpoint>(refusing));
  const auto batches = *GrpcServer::Start({}, std::shared_ptr<WorkerEndpoint>(refusing));
  for (const char* method :
       {"Dispatcher/Attach", "Dispatcher/Work", "Dispatcher/Trace", "Worker/StreamBatches"}) {
    const bool of_worker = std::string(method).starts_with("Worker/");
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto channel = grpc::CreateCustomChannel(
        "127.0.0.1:" + std::to_string((of_worker ? batches : control)->port()),
        grpc::InsecureChannelCredentials(), arguments);
    for (const Before before :
         {Before::kNothing, Before::kWrites, Before::kWritesAndCloses, Before::kWritesMuch}) {
      for (int i = 0; i < 10; ++i) {
        CAPTURE(by, method, static_cast<int>(before), i);
        const grpc::Status status =
            Call(channel, std::string("/millrace.v1.") + method, before, by == "gate");
        CHECK(status.error_code() == code);
        CHECK_THAT(status.error_message(), Catch::Contains(says));
      }
    }
  }
  control->Shutdown(std::chrono::seconds(0));
  batches->Shutdown(std::chrono::seconds(0));
}

}  // namespace
}  // namespace millrace
