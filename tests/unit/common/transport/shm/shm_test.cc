// Streams of batches through shared memory. The consumer is in the worker's own process; between
// them everything is as between two processes.

#include <catch2/catch.hpp>

#include <atomic>
#include <cstring>
#include <future>

#include "common/batch/layout/layout.h"
#include "common/transport/shm/shm_frames.h"
#include "common/transport/wire.h"
#include "tests/unit/common/transport/shm/shm_fixture.h"

namespace millrace {
namespace {

using test::Fragment;
using test::Opened;
using test::ShmNetwork;
using test::WaitFor;
using test::Wants;

TEST_CASE("a consumer reads where the worker wrote, until it lets go", "[shm]") {
  ShmNetwork network;
  Opened o(network);
  auto data = network.Take(8192);
  std::memset(data.get(), 'a', 8192);
  o.server.stream->Write(Fragment(data, 5000));
  REQUIRE(o.server.recorder->WaitForWrites(1));
  auto in = o.client->Next();
  REQUIRE(in.has_value());
  CHECK(in->in_place);
  REQUIRE(in->data.size() == 1);
  REQUIRE(in->data_bytes() == 5000);
  const std::span<const std::byte> seen = in->data.front();
  CHECK(seen.data() != data.get());
  CHECK(reinterpret_cast<std::uintptr_t>(seen.data()) % kTensorAlignment ==
        reinterpret_cast<std::uintptr_t>(data.get()) % kTensorAlignment);
  for (std::size_t i = 0; i < 5000; i += 7) data.get()[i] = static_cast<std::byte>(i);
  bool same = true;
  for (std::size_t i = 0; i < 5000; ++i) same = same && seen[i] == data.get()[i];
  CHECK(same);

  const std::weak_ptr<std::byte> lent = data;
  data.reset();
  o.up->Write(Wants("f"));
  REQUIRE(o.server.recorder->Next().has_value());
  CHECK_FALSE(lent.expired());
  in.reset();
  CHECK(WaitFor([&] { return lent.expired(); }));
  CHECK(network.network->streams.Empty());
}

TEST_CASE("who wants to know is told of a mapping once, and asked to forget it before it goes",
          "[shm]") {
  struct Mapping {
    std::atomic<int> times{0};
    std::atomic<bool> known{false};
    std::span<const std::byte> bytes;
    std::byte last{};  // read while the mapping is being forgotten, but still mapped
  };
  const auto mapping = std::make_shared<Mapping>();
  ShmNetwork network([mapping](std::span<const std::byte> bytes) {
    ++mapping->times;
    mapping->known = true;
    mapping->bytes = bytes;
    return std::shared_ptr<const void>(bytes.data(), [mapping, bytes](const void*) {
      mapping->last = bytes[0];
      mapping->known = false;
    });
  });
  auto data = network.Take(8192);
  std::memset(data.get(), 'a', 8192);
  std::optional<IncomingFragment> held;
  {
    Opened o(network);
    for (int i = 0; i < 3; ++i) {
      o.server.stream->Write(Fragment(data, 5000));
      REQUIRE(o.server.recorder->WaitForWrites(i + 1));
      held = o.client->Next();
      REQUIRE(held.has_value());
    }
    CHECK(mapping->times == 1);
    CHECK(held->data.front().data() >= mapping->bytes.data());
    CHECK(held->data.front().data() + 5000 <= mapping->bytes.data() + mapping->bytes.size());
  }
  network.connector->WaitForStreams(Connector::kStreamsEndSeconds);
  CHECK(mapping->known);  // the consumer still holds a fragment
  held.reset();
  CHECK_FALSE(mapping->known);
  CHECK(mapping->last == std::byte{'a'});
}

TEST_CASE("fragments that lie side by side in the arena do so at the consumer", "[shm]") {
  ShmNetwork network;
  Opened o(network);
  const auto data = network.Take(3 << 20);
  for (std::size_t i = 0; i < 3; ++i) {
    OutgoingFragment out = Fragment(data, 1 << 20);
    out.data = {data.get() + (i << 20), 1 << 20};
    o.server.stream->Write(std::move(out));
    REQUIRE(o.server.recorder->WaitForWrites(static_cast<int>(i) + 1));
  }
  const auto first = o.client->Next();
  const auto second = o.client->Next();
  const auto third = o.client->Next();
  CHECK(second->data.front().data() == first->data.front().data() + (1 << 20));
  CHECK(third->data.front().data() == second->data.front().data() + (1 << 20));
}

TEST_CASE("data that are not in shared memory arrive all the same", "[shm]") {
  ShmNetwork network;
  Opened o(network);
  const auto data = std::make_shared<std::vector<std::byte>>(wire::kMaxFragmentBytes);
  for (std::size_t i = 0; i < data->size(); ++i) (*data)[i] = static_cast<std::byte>(i % 251);
  for (int i = 1; i <= 3; ++i) {
    OutgoingFragment out;
    out.message.set_offset(static_cast<std::uint64_t>(i));
    out.data = *data;
    out.owner = data;
    o.server.stream->Write(std::move(out));
    REQUIRE(o.server.recorder->WaitForWrites(i));
    const auto in = o.client->Next();
    REQUIRE(in.has_value());
    CHECK_FALSE(in->in_place);
    CHECK(in->message.offset() == static_cast<std::uint64_t>(i));
    std::vector<std::byte> gathered(in->data_bytes());
    wire::GatherInto(*in, gathered);
    CHECK((gathered == *data));
  }
  o.server.stream->Write({});
  CHECK(o.client->Next()->data_bytes() == 0);
}

TEST_CASE("a batch outlives its stream, the server and the arena", "[shm]") {
  std::optional<IncomingFragment> in;
  {
    ShmNetwork network;
    Opened o(network);
    auto data = network.Take(4096);
    std::memset(data.get(), 'b', 4096);
    o.server.stream->Write(Fragment(data, 4096));
    in = o.client->Next();
    const std::weak_ptr<std::byte> lent = data;
    data.reset();
    o.up.reset();
    CHECK(o.client->WaitClosed()->code() == StatusCode::kCancelled);
    CHECK(o.server.recorder->WaitClosed()->code() == StatusCode::kCancelled);
    CHECK(o.client->calls_ok());
    // The worker goes on with its other consumers.
    Opened other(network);
    CHECK_FALSE(lent.expired());
    CHECK(in->data.front()[4095] == std::byte{'b'});
  }
  CHECK(in->data.front()[4095] == std::byte{'b'});
}

/// Stays in the call for its first message until it is released.
class Stuck final : public StreamHandler<IncomingFragment> {
 public:
  void OnMessage(IncomingFragment in) override {
    held.push_back(std::move(in));
    inside.set_value();
    go_on.get_future().wait();
  }
  void OnWriteDone() override {}
  void OnClosed(const Status&) override { closed.set_value(); }
  std::vector<IncomingFragment> held;
  std::promise<void> inside;
  std::promise<void> go_on;
  std::promise<void> closed;
};

TEST_CASE("fragments that a cancelled stream did not read are free at once", "[shm]") {
  ShmNetwork network;
  const auto client = std::make_shared<Stuck>();
  auto up = network.connector->StreamBatches(network.address(), client);
  const auto server = network.worker->streams.Wait();
  std::vector<std::weak_ptr<std::byte>> lent;
  for (int i = 1; i <= 3; ++i) {
    const auto data = network.Take(4096);
    lent.push_back(data);
    server.stream->Write(Fragment(data, 4096));
    REQUIRE(server.recorder->WaitForWrites(i));
    if (i == 1) client->inside.get_future().wait();
  }
  up.reset();
  client->go_on.set_value();
  client->closed.get_future().wait();
  CHECK(WaitFor([&] { return lent[1].expired() && lent[2].expired(); }));
  CHECK_FALSE(lent[0].expired());
  client->held.clear();
  CHECK(WaitFor([&] { return lent[0].expired(); }));
}

TEST_CASE("a status with which the worker closes arrives after all fragments", "[shm]") {
  ShmNetwork network;
  Opened o(network);
  const auto data = network.Take(4096);
  o.server.stream->Write(Fragment(data, 10));
  o.server.stream->Close(DataLoss("file 3 is damaged"));
  CHECK(o.client->Next()->in_place);
  CHECK(o.client->WaitClosed() == DataLoss("file 3 is damaged"));
  CHECK(o.server.recorder->WaitClosed().has_value());
}

TEST_CASE("a consumer that has all it wants ends the stream well", "[shm]") {
  ShmNetwork network;
  Opened o(network);
  o.up->Close(OkStatus());
  CHECK(o.server.recorder->WaitClosed() == OkStatus());
  CHECK(o.client->WaitClosed() == OkStatus());
}

TEST_CASE("a worker that stops says so", "[shm]") {
  ShmNetwork network;
  Opened o(network);
  network.server.reset();
  CHECK(o.client->WaitClosed()->code() == StatusCode::kUnavailable);
  CHECK(o.server.recorder->WaitClosed().has_value());
}

TEST_CASE("a stream may be dropped from within its own handler", "[shm]") {
  class Dropper final : public StreamHandler<IncomingFragment> {
   public:
    void OnMessage(IncomingFragment) override { up.reset(); }
    void OnWriteDone() override {}
    void OnClosed(const Status& status) override { closed.set_value(status); }
    std::shared_ptr<Stream<v1::WantList>> up;
    std::promise<Status> closed;
  };
  ShmNetwork network;
  const auto client = std::make_shared<Dropper>();
  client->up = network.connector->StreamBatches(network.address(), client);
  const auto server = network.worker->streams.Wait();
  server.stream->Write({});
  CHECK(client->closed.get_future().get().code() == StatusCode::kCancelled);
  CHECK(server.recorder->WaitClosed().has_value());
}

TEST_CASE("a list of thousands of runs arrives whole", "[shm]") {
  ShmNetwork network;
  Opened o(network);
  v1::WantList wants = Wants("many");
  for (std::uint64_t i = 0; i < 5000; ++i) {
    v1::Run& run = *wants.add_runs();
    run.set_position(i * 512);
    run.set_first_example(i * 4096);
    run.set_stride(256);
    run.set_examples(64);
    run.set_steps(3);
  }
  o.up->Write(wants);
  CHECK(o.client->WaitForWrites(2));
  const auto got = o.server.recorder->Next();
  REQUIRE(got.has_value());
  CHECK(got->SerializeAsString() == wants.SerializeAsString());
}

TEST_CASE("64 streams at once each get their own", "[shm]") {
  ShmNetwork network;
  std::vector<std::unique_ptr<Opened>> streams;
  for (int i = 0; i < 64; ++i) streams.push_back(std::make_unique<Opened>(network));
  for (int round = 1; round <= 5; ++round) {
    for (std::size_t i = 0; i < streams.size(); ++i) {
      const auto data = network.Take(4096);
      std::memset(data.get(), static_cast<int>(i), 4096);
      streams[i]->server.stream->Write(Fragment(data, 4096));
    }
    for (std::size_t i = 0; i < streams.size(); ++i) {
      REQUIRE(streams[i]->server.recorder->WaitForWrites(round));
      const auto in = streams[i]->client->Next();
      REQUIRE(in.has_value());
      CHECK(in->data.front()[17] == static_cast<std::byte>(i));
    }
  }
}

}  // namespace
}  // namespace millrace
