#include <catch2/catch.hpp>

#include "client/session/run/batch_receiver.h"
#include "common/compression/compression.h"
#include "common/transport/convert/compression.h"
#include "tests/unit/client/session/run/fake_service.h"

namespace millrace::client {
namespace {

constexpr std::uint64_t kLimit = 1 << 20;

/// A batch that is cut into fragments, which tests can damage.
struct Sent {
  std::shared_ptr<const PackedBatch> batch = NumbersBatch(3, {40, 20});

  IncomingFragment Fragment(std::size_t offset, std::size_t bytes) const {
    IncomingFragment in;
    ToProto(Position{3, 40}, in.message.mutable_at());
    in.message.set_total_bytes(batch->bytes().size());
    in.message.set_offset(offset);
    in.message.set_digest(batch->digest().ToBytes());
    const std::span<const std::byte> data = batch->bytes().subspan(offset, bytes);
    // In two slices, as the network may cut it.
    in.data = {data.first(data.size() / 2), data.subspan(data.size() / 2)};
    in.owner = batch;
    return in;
  }
  std::vector<IncomingFragment> Fragments(std::size_t bytes) const {
    std::vector<IncomingFragment> fragments;
    for (std::size_t offset = 0; offset < batch->bytes().size(); offset += bytes) {
      fragments.push_back(Fragment(offset, std::min(bytes, batch->bytes().size() - offset)));
    }
    return fragments;
  }
};

/// Feeds the fragments to the receiver. Returns the first error, or the last answer.
Result<std::optional<ReceivedBatch>> Feed(BatchReceiver& receiver,
                                          const std::vector<IncomingFragment>& fragments,
                                          bool wanted = true, std::uint64_t limit = kLimit) {
  Result<std::optional<ReceivedBatch>> last = std::optional<ReceivedBatch>();
  for (const IncomingFragment& fragment : fragments) {
    last = receiver.OnFragment(fragment, wanted, limit);
    if (!last.ok()) return last;
  }
  return last;
}

BatchReceiver NewReceiver() { return BatchReceiver(std::make_shared<BufferPool>()); }

TEST_CASE("fragments make the batch that was sent, one batch after another", "[receiver]") {
  const Sent sent;
  BatchReceiver receiver = NewReceiver();
  for (const std::size_t bytes : {std::size_t{1} << 20, std::size_t{100}, std::size_t{1}}) {
    const auto received = Feed(receiver, sent.Fragments(bytes));
    REQUIRE(received.ok());
    REQUIRE(received->has_value());
    const ReceivedBatch& batch = **received;
    CHECK(batch.batch->digest() == sent.batch->digest());
    CHECK(reinterpret_cast<std::uintptr_t>(batch.batch->bytes().data()) % kTensorAlignment == 0);
    CHECK(batch.arrival.at == Position{3, 40});
    CHECK(batch.arrival.bytes == sent.batch->bytes().size());
    CHECK(batch.arrival.first_example == 40);
    CHECK(batch.arrival.planned_examples == 20);
    CHECK(batch.arrival.epoch == 3);
  }
}

TEST_CASE("what counts of a batch is read from its header", "[receiver]") {
  const Sent sent{.batch = NumbersBatch(3, {40, 20}, DropReason::kExcluded)};
  const auto counts = [&](const char* token_tensor) {
    BatchReceiver receiver(std::make_shared<BufferPool>(), token_tensor);
    return (**Feed(receiver, sent.Fragments(100))).arrival.counts;
  };
  CHECK(counts("").examples == 19);
  CHECK(counts("").dropped == std::vector{DropReason::kExcluded});
  CHECK(counts("").lost_pieces.empty());
  CHECK(counts("").tokens == 0);
  CHECK(counts("number").tokens == 19);
  CHECK(counts("a tensor of a newer server").tokens == 0);
}

TEST_CASE("memory of a batch that is gone is used for the next one", "[receiver]") {
  const Sent sent;
  const auto pool = std::make_shared<BufferPool>();
  BatchReceiver receiver(pool);
  for (int i = 0; i < 5; ++i) REQUIRE(Feed(receiver, sent.Fragments(100)).ok());
  CHECK(pool->stats().allocations == 1);
}

TEST_CASE("a batch that is not wanted costs no memory and is not given", "[receiver]") {
  const Sent sent;
  const auto pool = std::make_shared<BufferPool>();
  BatchReceiver receiver(pool);
  const auto received = Feed(receiver, sent.Fragments(100), false);
  REQUIRE(received.ok());
  CHECK_FALSE(received->has_value());
  CHECK(pool->stats().allocations == 0);
  CHECK(Feed(receiver, sent.Fragments(100))->has_value());
}

/// Checks that the changed fragments cause an error that says `what`.
void CheckBad(const std::function<void(std::vector<IncomingFragment>&)>& change, const char* what,
              StatusCode code = StatusCode::kDataLoss) {
  const Sent sent;
  std::vector<IncomingFragment> fragments = sent.Fragments(100);
  change(fragments);
  BatchReceiver receiver = NewReceiver();
  const auto received = Feed(receiver, fragments);
  INFO(received.status().ToString());
  CHECK(received.status().code() == code);
  CHECK(received.status().message().find(what) != std::string::npos);
}

TEST_CASE("a fragment that is missing is noticed", "[receiver]") {
  CheckBad([](auto& fragments) { fragments.erase(fragments.begin() + 1); }, "offset 200");
}
TEST_CASE("a first fragment that is missing is noticed", "[receiver]") {
  CheckBad([](auto& fragments) { fragments.erase(fragments.begin()); }, "expected 0");
}
TEST_CASE("a fragment that comes twice is noticed", "[receiver]") {
  CheckBad([](auto& fragments) { fragments.insert(fragments.begin() + 1, fragments[1]); },
           "expected the batch at");
}
TEST_CASE("fragments of two batches do not mix", "[receiver]") {
  CheckBad(
      [](auto& fragments) {
        ToProto(Position{3, 60}, fragments[1].message.mutable_at());
      },
      "example 60");
}
TEST_CASE("a size that changes on the way is noticed", "[receiver]") {
  CheckBad([](auto& fragments) { fragments[1].message.set_total_bytes(1); }, "of 1;");
}
TEST_CASE("more data than the batch has is noticed, and written nowhere", "[receiver]") {
  CheckBad(
      [](auto& fragments) {
        fragments.resize(1);
        fragments[0].message.set_total_bytes(50);
      },
      "part of 100 bytes at offset 0 of a batch of 50");
}
TEST_CASE("a batch beyond the limit takes no memory", "[receiver]") {
  CheckBad([](auto& fragments) { fragments[0].message.set_total_bytes(~std::uint64_t{0}); },
           "expected at most 1048576", StatusCode::kOutOfRange);
}
TEST_CASE("a digest of the wrong length is noticed", "[receiver]") {
  CheckBad([](auto& fragments) { fragments[0].message.set_digest("short"); }, "a part of a batch");
}
TEST_CASE("another digest than the batch has is noticed", "[receiver]") {
  CheckBad([](auto& fragments) { fragments[0].message.set_digest(std::string(16, 'x')); },
           "with digest");
}

TEST_CASE("a bit that flips on the way is noticed, wherever it is", "[receiver]") {
  const Sent sent;
  for (std::size_t at = 0; at < sent.batch->bytes().size(); ++at) {
    std::vector<std::byte> bytes(sent.batch->bytes().begin(), sent.batch->bytes().end());
    bytes[at] ^= std::byte{4};
    IncomingFragment in = sent.Fragment(0, bytes.size());
    in.data = {bytes};
    BatchReceiver receiver = NewReceiver();
    CHECK(receiver.OnFragment(in, true, kLimit).status().code() == StatusCode::kDataLoss);
  }
}

TEST_CASE("bytes that are no batch are refused though their digest is right", "[receiver]") {
  const Sent sent;
  std::vector<std::byte> bytes(300, std::byte{7});
  IncomingFragment in = sent.Fragment(0, 0);
  in.data = {bytes};
  in.message.set_total_bytes(bytes.size());
  in.message.set_digest(Xxh3(std::span<const std::byte>(bytes)).ToBytes());
  BatchReceiver receiver = NewReceiver();
  CHECK(receiver.OnFragment(in, true, kLimit).status().code() == StatusCode::kDataLoss);
}

/// The fragments as they come through shared memory: each is one piece, where the worker wrote it.
std::vector<IncomingFragment> InPlace(const Sent& sent, std::size_t bytes) {
  std::vector<IncomingFragment> fragments = sent.Fragments(bytes);
  for (IncomingFragment& fragment : fragments) {
    fragment.data = {sent.batch->bytes().subspan(fragment.message.offset(), fragment.data_bytes())};
    fragment.owner = std::make_shared<int>();
    fragment.in_place = true;
  }
  return fragments;
}

TEST_CASE("a batch in place is left where it is, for as long as it is held", "[receiver]") {
  const Sent sent;
  const auto pool = std::make_shared<BufferPool>();
  BatchReceiver receiver(pool);
  for (const std::size_t bytes : {std::size_t{1} << 20, std::size_t{100}}) {
    std::vector<IncomingFragment> fragments = InPlace(sent, bytes);
    std::vector<std::weak_ptr<const void>> lent;
    for (const IncomingFragment& fragment : fragments) lent.emplace_back(fragment.owner);
    auto received = Feed(receiver, fragments);
    fragments.clear();
    REQUIRE(received.ok());
    REQUIRE(received->has_value());
    CHECK((*received)->batch->bytes().data() == sent.batch->bytes().data());
    CHECK((*received)->batch->digest() == sent.batch->digest());
    CHECK((*received)->arrival.in_place);
    for (const auto& fragment : lent) CHECK_FALSE(fragment.expired());
    received = std::optional<ReceivedBatch>();
    for (const auto& fragment : lent) CHECK(fragment.expired());
  }
  CHECK(pool->stats().allocations == 0);
  CHECK_FALSE((*Feed(receiver, sent.Fragments(100)))->arrival.in_place);
}

TEST_CASE("a fragment in place that lies elsewhere than behind the one before is noticed",
          "[receiver]") {
  const Sent sent;
  const std::vector<std::byte> copy(sent.batch->bytes().begin(), sent.batch->bytes().end());
  std::vector<IncomingFragment> fragments = InPlace(sent, 100);
  SECTION("in place") { fragments[1].data = {std::span(copy).subspan(100, 100)}; }
  SECTION("over the socket") {
    fragments[1].data = {std::span(copy).subspan(100, 100)};
    fragments[1].in_place = false;
  }
  BatchReceiver receiver = NewReceiver();
  const Status status = Feed(receiver, fragments).status();
  CHECK(status.code() == StatusCode::kDataLoss);
  CHECK(status.message().find("offset 100 lies elsewhere") != std::string::npos);
}

TEST_CASE("a batch whose first fragment is not in place is gathered", "[receiver]") {
  const Sent sent;
  std::vector<IncomingFragment> fragments = InPlace(sent, 100);
  fragments[0].in_place = false;
  BatchReceiver receiver = NewReceiver();
  const auto received = Feed(receiver, fragments);
  REQUIRE(received.ok());
  CHECK((*received)->batch->bytes().data() != sent.batch->bytes().data());
  CHECK((*received)->batch->digest() == sent.batch->digest());
}

TEST_CASE("fragments in place that nobody wants are let go of as they come", "[receiver]") {
  const Sent sent;
  BatchReceiver receiver = NewReceiver();
  for (IncomingFragment& fragment : InPlace(sent, 100)) {
    const std::weak_ptr<const void> lent = fragment.owner;
    REQUIRE(receiver.OnFragment(fragment, false, kLimit).ok());
    fragment = {};
    CHECK(lent.expired());
  }
}

TEST_CASE("another digest than a batch in place has is noticed", "[receiver]") {
  const Sent sent;
  std::vector<IncomingFragment> fragments = InPlace(sent, 100);
  for (IncomingFragment& fragment : fragments) fragment.message.set_digest(std::string(16, 'x'));
  BatchReceiver receiver = NewReceiver();
  const Status status = Feed(receiver, fragments).status();
  CHECK(status.code() == StatusCode::kDataLoss);
  CHECK(status.message().find("with digest") != std::string::npos);
}

TEST_CASE("more data in place than the batch has is noticed", "[receiver]") {
  const Sent sent;
  std::vector<IncomingFragment> fragments = InPlace(sent, 100);
  fragments[0].message.set_total_bytes(50);
  BatchReceiver receiver = NewReceiver();
  CHECK(Feed(receiver, fragments).status().code() == StatusCode::kDataLoss);
}

/// The fragments, those that are worth it compressed.
struct SentCompressed {
  Sent sent;
  std::vector<std::shared_ptr<std::vector<std::byte>>> memory;
  std::vector<IncomingFragment> fragments;

  explicit SentCompressed(Compression compression, std::size_t bytes = 1 << 20,
                          std::size_t slice = 1 << 20) {
    Compressor compressor;
    fragments = sent.Fragments(bytes);
    for (IncomingFragment& fragment : fragments) {
      const auto raw =
          sent.batch->bytes().subspan(fragment.message.offset(), fragment.data_bytes());
      const auto small = compressor.Compress(compression, raw);
      if (small.empty()) continue;
      memory.push_back(std::make_shared<std::vector<std::byte>>(small.begin(), small.end()));
      fragment.message.set_compression(ToProto(compression));
      fragment.message.set_raw_bytes(raw.size());
      fragment.data.clear();
      const std::span<const std::byte> data = *memory.back();
      for (std::size_t at = 0; at < data.size(); at += slice) {
        fragment.data.push_back(data.subspan(at, std::min(slice, data.size() - at)));
      }
      fragment.owner = memory.back();
    }
  }
};

TEST_CASE("compressed fragments make the batch that was sent, however the network cuts them",
          "[receiver][compression]") {
  BatchReceiver receiver = NewReceiver();
  for (const Compression compression : {Compression::kLz4, Compression::kZstd}) {
    for (const std::size_t slice : {std::size_t{1} << 20, std::size_t{7}}) {
      for (const std::size_t bytes : {std::size_t{1} << 20, std::size_t{200}}) {
        SentCompressed made(compression, bytes, slice);
        REQUIRE(!made.memory.empty());
        std::size_t wire_bytes = 0;
        for (const IncomingFragment& fragment : made.fragments) wire_bytes += fragment.data_bytes();
        const auto received = Feed(receiver, made.fragments);
        REQUIRE(received.ok());
        REQUIRE(received->has_value());
        CHECK((*received)->batch->digest() == made.sent.batch->digest());
        CHECK((*received)->arrival.bytes == made.sent.batch->bytes().size());
        CHECK((*received)->arrival.wire_bytes == wire_bytes);
        CHECK(wire_bytes < made.sent.batch->bytes().size());
      }
    }
  }
  // A worker may stop compressing at any batch.
  const Sent sent;
  const auto received = Feed(receiver, sent.Fragments(100));
  REQUIRE(received.ok());
  CHECK((*received)->arrival.wire_bytes == sent.batch->bytes().size());
}

TEST_CASE("bytes of a batch in place came over no network", "[receiver][compression]") {
  const Sent sent;
  BatchReceiver receiver = NewReceiver();
  const auto received = Feed(receiver, InPlace(sent, 100));
  REQUIRE(received.ok());
  CHECK((*received)->arrival.wire_bytes == 0);
}

TEST_CASE("a compressed batch that is not wanted costs no memory", "[receiver][compression]") {
  const auto pool = std::make_shared<BufferPool>();
  BatchReceiver receiver(pool);
  for (const bool wanted : {false, true}) {
    SentCompressed made(Compression::kZstd);
    const auto received = Feed(receiver, made.fragments, wanted);
    REQUIRE(received.ok());
    CHECK(received->has_value() == wanted);
    CHECK(pool->stats().allocations == (wanted ? 1 : 0));
  }
}

/// Checks that a changed compressed fragment causes an error that says `what`.
void CheckBadCompressed(const std::function<void(IncomingFragment&)>& change, const char* what) {
  for (const Compression compression : {Compression::kLz4, Compression::kZstd}) {
    for (const bool wanted : {true, false}) {
      SentCompressed made(compression);
      change(made.fragments[0]);
      BatchReceiver receiver = NewReceiver();
      const auto received = Feed(receiver, made.fragments, wanted);
      INFO(received.status().ToString());
      CHECK(received.status().code() == StatusCode::kDataLoss);
      CHECK(received.status().message().find(what) != std::string::npos);
    }
  }
}

TEST_CASE("a compressed fragment that says it has more than its batch lacks is refused",
          "[receiver][compression]") {
  CheckBadCompressed(
      [](IncomingFragment& in) { in.message.set_raw_bytes(in.message.total_bytes() + 1); },
      "at offset 0 of a batch of");
  CheckBadCompressed([](IncomingFragment& in) { in.message.set_raw_bytes(~std::uint64_t{0}); },
                     "part of 18446744073709551615 bytes");
}
TEST_CASE("a compressed fragment that is no smaller than its bytes is refused",
          "[receiver][compression]") {
  CheckBadCompressed([](IncomingFragment& in) { in.message.set_raw_bytes(in.data_bytes()); },
                     "expected fewer bytes for at most 1048576");
  CheckBadCompressed([](IncomingFragment& in) { in.message.set_raw_bytes(0); },
                     "expected fewer bytes");
}
TEST_CASE("a compressed fragment in shared memory is refused", "[receiver][compression]") {
  CheckBadCompressed([](IncomingFragment& in) { in.in_place = true; }, "in shared memory");
}
TEST_CASE("a compression that nobody knows is refused", "[receiver][compression]") {
  CheckBadCompressed(
      [](IncomingFragment& in) { in.message.set_compression(static_cast<v1::Compression>(99)); },
      "compression 99");
}

TEST_CASE("a compressed fragment larger than a fragment may be is refused",
          "[receiver][compression]") {
  SentCompressed made(Compression::kZstd);
  made.fragments[0].message.set_total_bytes(8 << 20);
  made.fragments[0].message.set_raw_bytes((1 << 20) + 1);
  BatchReceiver receiver = NewReceiver();
  const Status status = receiver.OnFragment(made.fragments[0], true, 8 << 20).status();
  CHECK(status.code() == StatusCode::kDataLoss);
  CHECK(status.message().find("for at most 1048576") != std::string::npos);
}

TEST_CASE("a bit of a compressed fragment that flips on the way is noticed, wherever it is",
          "[receiver][compression]") {
  for (const Compression compression : {Compression::kLz4, Compression::kZstd}) {
    SentCompressed made(compression);
    std::vector<std::byte>& bytes = *made.memory[0];
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      bytes[at] ^= std::byte{4};
      BatchReceiver receiver = NewReceiver();
      const auto received = receiver.OnFragment(made.fragments[0], true, kLimit);
      // Some bits of a frame's header mean nothing: then the batch is right.
      CHECK((received.status().code() == StatusCode::kDataLoss ||
             (received.ok() && (*received)->batch->digest() == made.sent.batch->digest())));
      bytes[at] ^= std::byte{4};
    }
  }
}

}  // namespace
}  // namespace millrace::client
