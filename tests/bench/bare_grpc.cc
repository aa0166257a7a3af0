#include "tests/bench/bare_grpc.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include "common/system/malloc.h"
#include "millrace/v1/worker.grpc.pb.h"
#include "tests/bench/child.h"
#include "tests/bench/cpu_time.h"
#include "tests/bench/limits.h"

namespace millrace::bench {
namespace {

using BidiReactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

/// Writes `messages` in turn, again and again, until the other end closes.
class Sender final : public BidiReactor {
 public:
  explicit Sender(const std::vector<grpc::ByteBuffer>& messages) : messages_(messages) {
    StartRead(&ignored_);
    WriteNext();
  }
  void OnWriteDone(bool ok) override { ok ? WriteNext() : Finish(grpc::Status::OK); }
  void OnReadDone(bool) override {}
  void OnDone() override { delete this; }

 private:
  void WriteNext() {
    out_ = messages_[next_++ % messages_.size()];
    StartWrite(&out_);
  }

  const std::vector<grpc::ByteBuffer>& messages_;
  std::size_t next_ = 0;
  grpc::ByteBuffer out_, ignored_;
};

class Service final : public v1::Worker::WithRawCallbackMethod_StreamBatches<v1::Worker::Service> {
 public:
  explicit Service(std::size_t block) {
    const std::size_t count = std::max<std::size_t>(1, (std::size_t{64} << 20) / block);
    for (std::size_t i = 0; i < count; ++i) {
      memory_.emplace_back(block, static_cast<char>(i));
      const grpc::Slice slice(memory_.back().data(), block, grpc::Slice::STATIC_SLICE);
      messages_.emplace_back(&slice, 1);
    }
  }
  BidiReactor* StreamBatches(grpc::CallbackServerContext*) override {
    return new Sender(messages_);
  }

 private:
  std::vector<std::string> memory_;
  std::vector<grpc::ByteBuffer> messages_;
};

void Serve(int fd, std::size_t block) {
  KeepFreedMemory();
  Service service(block);
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  builder.SetMaxSendMessageSize(-1);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  Child::Tell(fd, port);
  server->Wait();
}

/// Reads messages and drops them; reports bytes and seconds at the end.
class Receiver final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Receiver(int fd, pid_t server, double seconds) : fd_(fd), server_(server), seconds_(seconds) {}
  void Begin() {
    StartRead(&in_);
    StartCall();
  }
  void OnReadDone(bool ok) override {
    if (!ok) _exit(1);
    // The first tenth of the time is a warm-up, for flow-control windows and memory.
    if (!measuring_ && Seconds(began_) > seconds_ / 10) {
      measuring_ = true;
      began_ = std::chrono::steady_clock::now();
      cpu_ = Cpu();
    } else if (measuring_) {
      bytes_ += static_cast<double>(in_.Length());
      if (const double took = Seconds(began_); took > seconds_) {
        Child::Tell(fd_, bytes_ / took);
        Child::Tell(fd_, (Cpu() - cpu_) / bytes_ * 1e9);
        _exit(0);
      }
    }
    StartRead(&in_);
  }
  void OnDone(const grpc::Status&) override { _exit(1); }

 private:
  double Cpu() const { return ProcessCpuSeconds() + ProcessCpuSeconds(server_); }

  const int fd_;
  const pid_t server_;
  const double seconds_;
  grpc::ByteBuffer in_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  bool measuring_ = false;
  double bytes_ = 0;
  double cpu_ = 0;
};

void Receive(int fd, int port, pid_t server, double seconds) {
  KeepFreedMemory();
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(-1);
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  grpc::GenericStub stub(grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port),
                                                   grpc::InsecureChannelCredentials(), args));
  grpc::ClientContext context;
  Receiver receiver(fd, server, seconds);
  stub.PrepareBidiStreamingCall(&context, "/millrace.v1.Worker/StreamBatches", {}, &receiver);
  receiver.Begin();
  for (;;) pause();
}

}  // namespace

Result<BareGrpcRate> MeasureBareGrpc(std::size_t block, double seconds) {
  const Child server([block](int fd) { Serve(fd, block); });
  const int port = static_cast<int>(server.Hear());
  if (port <= 0) return Unavailable("a bare gRPC server does not listen on 127.0.0.1");
  const Child client([&](int fd) { Receive(fd, port, server.pid(), seconds); });
  BareGrpcRate rate;
  rate.bytes_per_second = client.Hear();
  rate.cpu_seconds_per_gigabyte = client.Hear();
  if (rate.cpu_seconds_per_gigabyte < 0) return Unavailable("a bare gRPC stream broke");
  return rate;
}

}  // namespace millrace::bench
