// Shared memory from a worker's side: consumers that send nonsense, stand still, or are gone.

#include <catch2/catch.hpp>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/transport/shm/framed_socket.h"
#include "common/transport/shm/shm_frames.h"
#include "tests/support/open_files.h"
#include "tests/unit/common/transport/shm/shm_fixture.h"

namespace millrace {
namespace {

using test::ConnectTo;
using test::Fragment;
using test::MakeSocket;
using test::Opened;
using test::Recorder;
using test::ShmNetwork;
using test::WaitFor;
using test::Wants;

int ConnectRaw(const std::string& address) {
  const int file = MakeSocket();
  REQUIRE(ConnectTo(ParseShmAddress(address)->name, file));
  return file;
}

/// Sends only raw frames, and reads only when told to.
struct RawConsumer {
  explicit RawConsumer(const ShmNetwork& network) : socket(ConnectRaw(network.server->address())) {
    test::Greet(socket, ParseShmAddress(network.server->address())->key);
    up = network.worker->streams.Wait();
    REQUIRE(up.stream);
  }
  /// Receives frames until one of this type has come; returns those of this type.
  std::vector<std::string> Read(std::uint32_t type) {
    std::vector<std::string> found;
    WaitFor([&] {
      const Status status = socket.Receive([&](const FramedSocket::Frame& frame) {
        if (frame.type == type) {
          found.emplace_back(reinterpret_cast<const char*>(frame.payload.data()),
                             frame.payload.size());
        }
        return OkStatus();
      });
      return !found.empty() || !status.ok();
    });
    return found;
  }
  void SendToken(std::uint32_t type, std::uint64_t token) {
    socket.Send(type, {reinterpret_cast<const char*>(&token), sizeof token});
  }
  FramedSocket socket;
  test::Accepted<v1::WantList, OutgoingFragment> up;
};

TEST_CASE("who does not know the key of the socket gets nothing", "[shm][security]") {
  ShmNetwork network;
  FramedSocket stranger(ConnectRaw(network.server->address()));
  const ShmHello hello{kShmVersion, MakeShmNonce()};
  const std::string wants = Wants("f").SerializeAsString();
  SECTION("it asks without a hello") { stranger.Send(kShmWants, wants); }
  SECTION("it asks without a proof") {
    stranger.Send(kShmHello, RawBytes(hello));
    stranger.Send(kShmWants, wants);
  }
  SECTION("it proves another key") {
    stranger.Send(kShmHello, RawBytes(hello));
    stranger.Send(kShmProof, RawBytes(ShmProof{}));
  }
  SECTION("it says the worker's own proof") {
    stranger.Send(kShmHello, RawBytes(hello));
    ShmAccepted accepted{};
    const std::string answer = test::ReadFrame(stranger, kShmAccepted);
    REQUIRE(answer.size() == sizeof accepted);
    std::memcpy(&accepted, answer.data(), sizeof accepted);
    stranger.Send(kShmProof, RawBytes(accepted.proof));
  }
  WaitFor([&] {
    return !stranger
                .Receive([](const FramedSocket::Frame& frame) {
                  return frame.type == kShmClosed ? Cancelled("closed") : OkStatus();
                })
                .ok();
  });
  CHECK(network.worker->streams.Empty());
}

TEST_CASE("all that a consumer holds is free when it is gone", "[shm]") {
  ShmNetwork network;
  std::weak_ptr<std::byte> lent;
  auto consumer = std::make_unique<RawConsumer>(network);
  const auto up = consumer->up;
  {
    const auto data = network.Take(4096);
    lent = data;
    up.stream->Write(Fragment(data, 4096));
  }
  CHECK(consumer->Read(kShmFragment).size() == 1);
  CHECK_FALSE(lent.expired());
  consumer.reset();
  CHECK(WaitFor([&] { return lent.expired(); }));
  CHECK(up.recorder->WaitClosed()->code() == StatusCode::kCancelled);
}

TEST_CASE("a consumer that says nonsense is not listened to, and keeps what it reads", "[shm]") {
  ShmNetwork network;
  std::weak_ptr<std::byte> lent;
  auto consumer = std::make_unique<RawConsumer>(network);
  {
    const auto data = network.Take(4096);
    lent = data;
    consumer->up.stream->Write(Fragment(data, 4096));
  }
  REQUIRE(consumer->Read(kShmFragment).size() == 1);
  SECTION("a type that is none") { consumer->socket.Send(77, "x"); }
  SECTION("a short token") { consumer->socket.Send(kShmReleased, "x"); }
  SECTION("a malformed want list") { consumer->socket.Send(kShmWants, "\xff\xff\xff"); }
  CHECK(consumer->up.recorder->WaitClosed().has_value());
  CHECK(consumer->Read(kShmClosed).size() == 1);
  Opened other(network);
  CHECK_FALSE(lent.expired());
  consumer.reset();
  CHECK(WaitFor([&] { return lent.expired(); }));
}

TEST_CASE("tokens that were never given are nobody's", "[shm]") {
  ShmNetwork network;
  RawConsumer consumer(network);
  for (const std::uint64_t token : {std::uint64_t{0}, std::uint64_t{5}, ~std::uint64_t{0}}) {
    consumer.SendToken(kShmReleased, token);
  }
  std::weak_ptr<std::byte> lent;
  {
    const auto data = network.Take(4096);
    lent = data;
    consumer.up.stream->Write(Fragment(data, 4096));
  }
  REQUIRE(consumer.Read(kShmFragment).size() == 1);
  CHECK_FALSE(lent.expired());
  consumer.SendToken(kShmReleased, 1);
  consumer.SendToken(kShmReleased, 1);
  CHECK(WaitFor([&] { return lent.expired(); }));
}

TEST_CASE("a consumer that does not read stops its own stream only, and can still go", "[shm]") {
  ShmNetwork network;
  RawConsumer stopped(network);
  const auto data = network.Take(4096);
  int writes = 0;
  // The loop fills the socket, so that a write stays unconfirmed.
  for (bool full = false; !full; ++writes) {
    stopped.up.stream->Write(Fragment(data, 4096));
    Opened other(network);
    other.server.stream->Write(Fragment(data, 4096));
    REQUIRE(other.client->Next().has_value());
    full = stopped.up.recorder->writes_done() <= writes;
    REQUIRE(writes < 100'000);
  }
  stopped.SendToken(kShmCancelled, 0);
  CHECK(stopped.up.recorder->WaitClosed().has_value());
  CHECK(WaitFor([&] { return data.use_count() == 1; }));
}

/// A consumer that always has sent more, and the worker's handler for it. The thread that reads a
/// message sends new ones at once.
class Flood final : public StreamHandler<v1::WantList> {
 public:
  bool Begin(const ShmAddress& address) {
    const bool connected = ConnectTo(address.name, consumer_.socket());
    if (connected) {
      test::Greet(consumer_, address.key);
      Fill();
    }
    return connected;
  }
  void OnMessage(v1::WantList) override {
    ++read;
    Fill();
  }
  void OnWriteDone() override {}
  void OnClosed(const Status&) override {}
  std::atomic<int> read{0};
  std::atomic<bool> stop{false};

 private:
  void Fill() {
    consumer_.Flush();
    while (!stop && !consumer_.pending()) consumer_.Send(kShmWants, wants_);
  }

  // The frame has 8 KiB with both headers. Whole frames fill a read, so that no read is short.
  const std::string wants_ = Wants(std::string(8181, 'f')).SerializeAsString();
  FramedSocket consumer_{MakeSocket()};
};

/// A worker whose first consumer is the flood.
class FloodedWorker final : public WorkerEndpoint {
 public:
  std::shared_ptr<StreamHandler<v1::WantList>> OnStreamBatches(
      std::shared_ptr<Stream<OutgoingFragment>> stream, const Peer& peer) override {
    if (first_ != nullptr) return others->OnStreamBatches(std::move(stream), peer);
    first_ = std::move(stream);
    return flood;
  }
  Result<StaticBytes> OnGetStatic(const std::string&, const Peer&) override {
    return NotFound("none");
  }
  const std::shared_ptr<Flood> flood = std::make_shared<Flood>();
  const std::shared_ptr<test::TestWorker> others = std::make_shared<test::TestWorker>();

 private:
  std::shared_ptr<Stream<OutgoingFragment>> first_;
};

TEST_CASE("a consumer that asks on and on does not hold up the others", "[shm]") {
  const ShmNetwork network;
  const auto worker = std::make_shared<FloodedWorker>();
  auto server =
      ShmServer::Start(worker, network.arena, *LocalUsers::Make(geteuid(), ""), MakeNullLogger());
  REQUIRE(server.ok());
  const std::string address = (*server)->address();
  CHECK(worker->flood->Begin(*ParseShmAddress(address)));
  CHECK(WaitFor([&] { return worker->flood->read > 1000; }));
  const auto client = std::make_shared<Recorder<IncomingFragment>>();
  const auto up = network.connector->StreamBatches({"worker:1", "host", address}, client);
  const auto other = worker->others->streams.Wait();
  worker->flood->stop = true;  // comes before any check, because the server's thread must end
  REQUIRE(other.stream);
  other.stream->Write({});
  CHECK(client->Next().has_value());
}

TEST_CASE("a child that was forked releases nothing of its parent's", "[shm]") {
  ShmNetwork network;
  Opened o(network);
  auto data = network.Take(4096);
  o.server.stream->Write(Fragment(data, 4096));
  auto in = o.client->Next();
  const std::weak_ptr<std::byte> lent = data;
  data.reset();
  const pid_t child = fork();
  if (child == 0) {
    in.reset();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  o.up->Write(Wants("f"));
  REQUIRE(o.server.recorder->Next().has_value());
  CHECK_FALSE(lent.expired());
}

TEST_CASE("a worker that can open no more files waits, and does not spin", "[shm]") {
  ShmNetwork network;
  const ShmAddress address = *ParseShmAddress(network.server->address());
  std::vector<int> waiting;
  for (int i = 0; i < 4; ++i) waiting.push_back(MakeSocket());
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none = before;
  none.rlim_cur = 3;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  for (const int file : waiting) CHECK(ConnectTo(address.name, file));
  const auto cpu = [] {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  const double cpu_before = cpu();
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  const double used = cpu() - cpu_before;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(used < 0.1);
  for (const int file : waiting) {
    FramedSocket worker(file);
    test::Greet(worker, address.key);
    CHECK(network.worker->streams.Wait().stream);
  }
}

TEST_CASE("streams leave no open file and no mapping behind", "[shm]") {
  ShmNetwork network;
  const auto data = network.Take(4096);
  const std::size_t before = test::OpenFiles();
  for (int i = 0; i < 30; ++i) {
    Opened o(network);
    o.server.stream->Write(Fragment(data, 4096));
    CHECK(o.client->Next().has_value());
  }
  CHECK(WaitFor([&] { return test::OpenFiles() == before; }));
  CHECK(data.use_count() == 1);
}

}  // namespace
}  // namespace millrace
