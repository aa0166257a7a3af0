// A worker whose batches are in shared memory, and its consumers, in one process.
#pragma once

#include <catch2/catch.hpp>

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>

#include "common/base/log.h"
#include "common/transport/shm/framed_socket.h"
#include "common/transport/shm/shared_arena.h"
#include "common/transport/shm/shm_client.h"
#include "common/transport/shm/shm_frames.h"
#include "common/transport/shm/shm_key.h"
#include "common/transport/shm/shm_server.h"
#include "tests/support/in_process.h"
#include "tests/unit/common/transport/recorder.h"

namespace millrace::test {

/// An unconnected socket.
inline int MakeSocket() { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }

/// Connects a socket to a server's name; false if nobody listens there.
inline bool ConnectTo(const std::string& name, int file) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data() + 1, name.size() - 1);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  return connect(file, reinterpret_cast<const sockaddr*>(&address), length) == 0;
}

/// Receives the next frame. Empty if none comes, or another type.
inline std::string ReadFrame(FramedSocket& socket, std::uint32_t type) {
  std::string found;
  WaitFor([&] {
    const Status status = socket.Receive([&](const FramedSocket::Frame& frame) {
      if (frame.type == type) {
        found.assign(reinterpret_cast<const char*>(frame.payload.data()), frame.payload.size());
      }
      return Cancelled("one is enough");
    });
    return !status.ok();
  });
  return found;
}

/// The begin of a conversation, from the consumer's side.
inline void Greet(FramedSocket& worker, const std::string& key) {
  const ShmHello hello{kShmVersion, MakeShmNonce()};
  worker.Send(kShmHello, RawBytes(hello));
  const std::string answer = ReadFrame(worker, kShmAccepted);
  ShmAccepted accepted{};
  REQUIRE(answer.size() == sizeof accepted);
  std::memcpy(&accepted, answer.data(), sizeof accepted);
  CHECK(Same(accepted.proof, Prove(key, ShmSide::kWorker, hello.nonce, accepted.nonce)));
  worker.Send(kShmProof, RawBytes(Prove(key, ShmSide::kConsumer, hello.nonce, accepted.nonce)));
}

/// The same from the worker's side, up to the consumer's proof.
inline void Welcome(FramedSocket& consumer, const std::string& key,
                    std::uint32_t version = kShmVersion) {
  const std::string said = ReadFrame(consumer, kShmHello);
  ShmHello hello{};
  if (said.size() != sizeof hello) return;
  std::memcpy(&hello, said.data(), sizeof hello);
  const ShmNonce nonce = MakeShmNonce();
  consumer.Send(
      kShmAccepted,
      RawBytes(ShmAccepted{version, nonce, Prove(key, ShmSide::kWorker, hello.nonce, nonce)}));
}

/// A worker that uses shared memory, and another one that is reached only over the network.
struct ShmNetwork {
  std::shared_ptr<TestWorker> worker = std::make_shared<TestWorker>();   // in shared memory
  std::shared_ptr<TestWorker> network = std::make_shared<TestWorker>();  // over the network
  InProcessNetwork in_process;
  std::shared_ptr<SharedArena> arena = std::make_shared<SharedArena>(64 << 20);
  std::unique_ptr<ShmServer> server;
  std::shared_ptr<Connector> connector;

  explicit ShmNetwork(const OnMapped& on_mapped = nullptr) {
    in_process.AddWorker("worker:1", network);
    auto started =
        ShmServer::Start(worker, arena, *LocalUsers::Make(geteuid(), ""), MakeNullLogger());
    REQUIRE(started.ok());
    server = std::move(started).value();
    connector = MakeShmConnector(in_process.MakeConnector("client:1"), "host", on_mapped);
  }
  ~ShmNetwork() { connector->WaitForStreams(Connector::kStreamsEndSeconds); }

  BatchAddress address() const { return {"worker:1", "host", server->address()}; }

  /// Takes bytes of the arena, which are free again when nobody holds them.
  std::shared_ptr<std::byte> Take(std::size_t bytes) const {
    return {arena->Allocate(bytes),
            [arena = arena, bytes](std::byte* data) { arena->Free(data, bytes); }};
  }
};

inline v1::WantList Wants(const std::string& fingerprint) {
  v1::WantList wants;
  wants.set_fingerprint(fingerprint);
  return wants;
}

inline OutgoingFragment Fragment(const std::shared_ptr<std::byte>& data, std::size_t bytes) {
  OutgoingFragment out;
  out.data = {data.get(), bytes};
  out.owner = data;
  return out;
}

/// A consumer, its stream, and the worker's end of the stream.
struct Opened {
  explicit Opened(ShmNetwork& network) : Opened(network, network.address(), network.worker) {}
  Opened(ShmNetwork& network, const BatchAddress& where,
         const std::shared_ptr<TestWorker>& worker) {
    up = network.connector->StreamBatches(where, client);
    up->Write(Wants("f"));
    server = worker->streams.Wait();
    REQUIRE(server.stream);
    CHECK(server.recorder->Next()->fingerprint() == "f");
    CHECK(client->WaitForWrites(1));
  }
  std::shared_ptr<Recorder<IncomingFragment>> client =
      std::make_shared<Recorder<IncomingFragment>>();
  std::shared_ptr<Stream<v1::WantList>> up;
  Accepted<v1::WantList, OutgoingFragment> server;
};

}  // namespace millrace::test
