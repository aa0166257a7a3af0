// Shared memory from a consumer's side: workers that do not answer, refuse, or send nonsense.

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/transport/shm/framed_socket.h"
#include "common/transport/shm/shm_frames.h"
#include "tests/unit/common/transport/shm/shm_fixture.h"

namespace millrace {
namespace {

using test::MakeSocket;
using test::Opened;
using test::Recorder;
using test::ShmNetwork;
using test::WaitFor;
using test::Wants;

/// Makes a file of shared memory with these seals.
int MakeMemory(std::uint64_t bytes, int seals) {
  const int file = memfd_create("segment", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  REQUIRE(ftruncate(file, static_cast<off_t>(bytes)) == 0);
  REQUIRE(fcntl(file, F_ADD_SEALS, seals) == 0);
  return file;
}

const std::string kKey(32, 'a');

/// A worker's socket with no worker behind it.
struct FakeWorker {
  FakeWorker() {
    listener = MakeSocket();
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    REQUIRE(bind(listener, reinterpret_cast<const sockaddr*>(&address),
                 sizeof address.sun_family) == 0);
    socklen_t length = sizeof address;
    REQUIRE(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) == 0);
    name = "@" + std::string(address.sun_path + 1, length - offsetof(sockaddr_un, sun_path) - 1);
    REQUIRE(listen(listener, 16) == 0);
  }
  ~FakeWorker() { close(listener); }
  BatchAddress address() const { return {"worker:1", "host", name + ":" + kKey}; }
  std::unique_ptr<FramedSocket> Accept(std::uint32_t version = kShmVersion) const {
    auto socket = std::make_unique<FramedSocket>(accept(listener, nullptr, nullptr));
    test::Welcome(*socket, key, version);
    return socket;
  }
  /// Whether a consumer has connected and was not accepted yet, even if it is gone again.
  bool Asked() const {
    pollfd polled{listener, POLLIN, 0};
    return poll(&polled, 1, 0) == 1;
  }
  int listener = -1;
  std::string name;
  std::string key = kKey;
};

TEST_CASE("what cannot be had through shared memory comes over the network", "[shm]") {
  ShmNetwork network;
  FakeWorker other;
  SECTION("the worker has no socket") { Opened o(network, {"worker:1", "host"}, network.network); }
  SECTION("the worker is on another host") {
    Opened o(network, {"worker:1", "elsewhere", network.server->address()}, network.network);
  }
  SECTION("nobody listens at the socket") {
    Opened o(network, {"worker:1", "host", "@millrace-gone:" + other.key}, network.network);
  }
  SECTION("the name is no socket's") {
    Opened o(network, {"worker:1", "host", "@" + std::string(200, 'x') + ":" + other.key},
             network.network);
    Opened p(network, {"worker:1", "host", "/tmp/x"}, network.network);
    Opened q(network, {"worker:1", "host", other.name}, network.network);
  }
  SECTION("the worker has another version, and is asked once") {
    std::thread answer([&] { other.Accept(kShmVersion + 1); });
    Opened o(network, other.address(), network.network);
    answer.join();
    Opened p(network, other.address(), network.network);
    CHECK_FALSE(other.Asked());
  }
  SECTION("another process listens there, and is asked once") {
    other.key = std::string(32, 'b');
    std::thread answer([&] { other.Accept(); });
    Opened o(network, other.address(), network.network);
    answer.join();
    Opened p(network, other.address(), network.network);
    CHECK_FALSE(other.Asked());
  }
  SECTION("the worker refuses, and is asked once") {
    std::thread answer([&] { close(accept(other.listener, nullptr, nullptr)); });
    Opened o(network, other.address(), network.network);
    answer.join();
    Opened p(network, other.address(), network.network);
    CHECK_FALSE(other.Asked());
  }
  SECTION("the worker does not answer") {
    Opened o(network, other.address(), network.network);
    o.up->Write(Wants("again"));
    CHECK(o.server.recorder->Next()->fingerprint() == "again");
    o.up->Close(OkStatus());
    CHECK(o.server.recorder->WaitClosed() == OkStatus());
    CHECK(o.client->WaitClosed() == OkStatus());
    CHECK(o.client->calls_ok());
  }
}

TEST_CASE("a consumer in another network namespace takes the network", "[shm]") {
  ShmNetwork network;
  const auto client = std::make_shared<Recorder<IncomingFragment>>();
  std::shared_ptr<Stream<v1::WantList>> up;
  int error = 0;
  // Only this thread enters a new namespace, so only its connections come from there.
  std::thread([&] {
    if (unshare(CLONE_NEWNET) != 0) {
      error = errno;
    } else {
      up = network.connector->StreamBatches(network.address(), client);
    }
  }).join();
  if (error != 0) {
    WARN("skipped: the kernel gives no network namespace: " << std::strerror(error));
    return;
  }
  up->Write(Wants("f"));
  const auto server = network.network->streams.Wait();
  REQUIRE(server.stream);
  CHECK(server.recorder->Next()->fingerprint() == "f");
  server.stream->Write({});
  CHECK(client->Next().has_value());
  // From the old namespace, the same connector still reaches the worker's socket.
  CHECK(network.worker->streams.Empty());
  Opened here(network);
}

TEST_CASE("opening a stream to a worker that does not answer waits for nothing", "[shm]") {
  ShmNetwork network;
  const FakeWorker silent;
  const auto client = std::make_shared<Recorder<IncomingFragment>>();
  auto up = network.connector->StreamBatches(silent.address(), client);
  up.reset();
  CHECK(client->WaitClosed()->code() == StatusCode::kCancelled);
  CHECK(network.network->streams.Empty());
}

TEST_CASE("a stream that was half-closed ends when it is dropped", "[shm]") {
  ShmNetwork network;
  const FakeWorker silent;
  const auto client = std::make_shared<Recorder<IncomingFragment>>();
  auto up = network.connector->StreamBatches(silent.address(), client);
  const auto worker = silent.Accept();
  up->Write(Wants("f"));
  REQUIRE(client->WaitForWrites(1));
  up->Close(OkStatus());
  up.reset();
  CHECK(client->WaitClosed()->code() == StatusCode::kCancelled);
}

TEST_CASE("memory that cannot be read ends the stream, and is not tried again", "[shm]") {
  ShmNetwork network;
  const FakeWorker bad;
  ShmSegment head{4096, 0, 0};
  int file = -1;
  SECTION("its file does not come") {}
  SECTION("it could be cut off") { file = MakeMemory(4096, F_SEAL_GROW); }
  SECTION("it is smaller than it was said to be") { file = MakeMemory(4095, F_SEAL_SHRINK); }
  SECTION("it is larger than what can be mapped") {
    head.bytes = std::uint64_t{1} << 50;
    file = MakeMemory(head.bytes, F_SEAL_SHRINK);
  }
  const auto client = std::make_shared<Recorder<IncomingFragment>>();
  const auto up = network.connector->StreamBatches(bad.address(), client);
  const auto worker = bad.Accept();
  worker->Send(kShmSegment, {reinterpret_cast<const char*>(&head), sizeof head}, {}, file);
  const std::optional<Status> end = client->WaitClosed();
  if (file >= 0) close(file);
  CHECK(end->code() == StatusCode::kUnavailable);
  // A worker that does not answer is also given up after a while. So the test checks that the bad
  // worker was not asked at all.
  for (int i = 0; i < 3; ++i) Opened(network, bad.address(), network.network);
  CHECK_FALSE(bad.Asked());
  Opened other(network);
}

TEST_CASE("frames that no worker sends end the stream", "[shm]") {
  ShmNetwork network;
  const FakeWorker bad;
  const auto client = std::make_shared<Recorder<IncomingFragment>>();
  const auto up = network.connector->StreamBatches(bad.address(), client);
  const auto worker = bad.Accept();
  ShmFragment fragment{1, 0, 100, 0, 0};
  std::uint32_t type = kShmFragment;
  std::string payload;
  SECTION("a fragment of no segment") {}
  SECTION("a fragment shorter than its head") { payload = "short"; }
  SECTION("a message longer than its frame") { fragment.message_bytes = 0xffffffff; }
  SECTION("a type that is none") { type = 77; }
  SECTION("a close without a code") {
    type = kShmClosed;
    payload = "x";
  }
  SECTION("a fragment beyond its segment") {
    const int file = MakeMemory(4096, F_SEAL_SHRINK);
    const ShmSegment head{4096, 0, 0};
    worker->Send(kShmSegment, {reinterpret_cast<const char*>(&head), sizeof head}, {}, file);
    fragment.offset = GENERATE(3997u, 4096u, 5000u, ~std::uint64_t{0}, ~std::uint64_t{0} - 50);
  }
  if (payload.empty()) payload.assign(reinterpret_cast<const char*>(&fragment), sizeof fragment);
  worker->Send(type, payload);
  CHECK(client->WaitClosed()->code() == StatusCode::kDataLoss);
}

/// Whether all other threads of this process wait for something.
bool OthersWait() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(gettid())) continue;
    std::string line;
    std::getline(std::ifstream(task.path() / "stat"), line);
    if (line.find(") S ") == std::string::npos) return false;
  }
  return true;
}

TEST_CASE("releases that did not fit into the socket are sent when there is room", "[shm]") {
  ShmNetwork network;
  const FakeWorker slow;
  const auto client = std::make_shared<Recorder<IncomingFragment>>();
  const auto up = network.connector->StreamBatches(slow.address(), client);
  const auto worker = slow.Accept();
  const auto data = network.Take(4096);
  const SharedArena::Segment segment = network.arena->segment(0);
  const ShmSegment head{segment.bytes, 0, 0};
  worker->Send(kShmSegment, {reinterpret_cast<const char*>(&head), sizeof head}, {}, segment.file);
  const bool late = GENERATE(false, true);
  constexpr std::uint64_t kFragments = 2000;
  std::vector<IncomingFragment> held;
  for (std::uint64_t token = 1; token <= kFragments; ++token) {
    const ShmFragment fragment{token, 0, 10, 0, 0};
    worker->Send(kShmFragment, {reinterpret_cast<const char*>(&fragment), sizeof fragment});
    CHECK(WaitFor([&] { return worker->Flush(), !worker->pending(); }));
    auto in = client->Next();
    REQUIRE(in.has_value());
    if (late) held.push_back(*std::move(in));
  }
  // Before late fragments are released, the stream's thread must wait for the worker, which sends
  // nothing more.
  if (late) CHECK(WaitFor(OthersWait));
  held.clear();
  int fit = 0;
  REQUIRE(ioctl(worker->socket(), FIONREAD, &fit) == 0);
  REQUIRE(static_cast<std::uint64_t>(fit) < kFragments * 2 * sizeof(std::uint64_t));
  std::uint64_t released = 0;
  CHECK(WaitFor([&] {
    REQUIRE(worker
                ->Receive([&](const FramedSocket::Frame& frame) {
                  released += frame.type == kShmReleased ? 1 : 0;
                  return OkStatus();
                })
                .ok());
    return released == kFragments;
  }));
}

}  // namespace
}  // namespace millrace
