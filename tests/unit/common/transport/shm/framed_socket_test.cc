#include <catch2/catch.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/transport/shm/framed_socket.h"
#include "tests/support/open_files.h"

namespace millrace {
namespace {

using Frames = std::vector<std::pair<std::uint32_t, std::string>>;

struct Pair {
  explicit Pair(FramedSocket::Files files = FramedSocket::Files::kTaken) {
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    a = std::make_unique<FramedSocket>(ends[0]);
    b = std::make_unique<FramedSocket>(ends[1], files);
  }
  /// Sends everything that waits, and receives until there are `count` frames in all.
  Status Carry(Frames& frames, std::size_t count) {
    while (frames.size() < count) {
      if (a) a->Flush();
      const Status status = b->Receive([&](const FramedSocket::Frame& frame) {
        frames.emplace_back(
            frame.type,
            std::string(reinterpret_cast<const char*>(frame.payload.data()), frame.payload.size()));
        return OkStatus();
      });
      if (!status.ok()) return status;
    }
    return OkStatus();
  }

  int ends[2] = {-1, -1};
  std::unique_ptr<FramedSocket> a;
  std::unique_ptr<FramedSocket> b;
};

std::string Text(std::size_t bytes, std::size_t seed) {
  std::string text(bytes, 0);
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>((i + seed) * 31 % 251);
  return text;
}

/// Fills a's socket, so that everything sent later waits.
std::size_t Fill(FramedSocket& socket) {
  std::size_t frames = 0;
  while (!socket.pending()) {
    socket.Send(7, Text(10'000, frames));
    ++frames;
  }
  return frames;
}

TEST_CASE("frames of every size arrive as they were sent", "[framed]") {
  Pair pair;
  const std::vector<std::size_t> sizes = {0,      1,      7,       8,         9,
                                          65'527, 65'528, 200'000, 5'000'000, 16 << 20};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::string text = Text(sizes[i], i);
    const std::span<const std::byte> body(reinterpret_cast<const std::byte*>(text.data()),
                                          text.size());
    pair.a->Send(static_cast<std::uint32_t>(i), std::string_view(text).substr(0, text.size() / 3),
                 body.subspan(text.size() / 3));
  }
  Frames frames;
  REQUIRE(pair.Carry(frames, sizes.size()).ok());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    CHECK(frames[i].first == i);
    CHECK((frames[i].second == Text(sizes[i], i)));
  }
  CHECK_FALSE(pair.a->pending());
}

TEST_CASE("frames of many threads arrive whole, each thread's in order", "[framed]") {
  Pair pair;
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 500; ++i) pair.a->Send(t, Text(i, t));
    });
  }
  Frames frames;
  REQUIRE(pair.Carry(frames, 2000).ok());
  for (std::thread& thread : threads) thread.join();
  std::vector<std::size_t> next(4);
  bool as_sent = true;
  for (const auto& [type, text] : frames) {
    as_sent = as_sent && text == Text(next[type]++, type);
  }
  CHECK(as_sent);
}

TEST_CASE("an open file comes with its frame, also where the socket was full", "[framed]") {
  for (const bool full : {false, true}) {
    Pair pair;
    const std::size_t before = full ? Fill(*pair.a) : 0;
    const int file = memfd_create("a", MFD_CLOEXEC);
    REQUIRE(write(file, "hello", 5) == 5);
    pair.a->Send(1, "with", {}, file);
    pair.a->Send(2, "without");
    Frames frames;
    REQUIRE(pair.Carry(frames, before + 2).ok());
    const int got = pair.b->TakeFile();
    REQUIRE(got >= 0);
    CHECK(pair.b->TakeFile() == -1);
    char text[5] = {};
    CHECK(pread(got, text, 5, 0) == 5);
    CHECK(std::memcmp(text, "hello", 5) == 0);
    CHECK((fcntl(got, F_GETFD) & FD_CLOEXEC) != 0);
    close(got);
    close(file);
  }
}

TEST_CASE("where files are refused none is left open, however many come", "[framed]") {
  Pair pair(FramedSocket::Files::kRefused);
  const int file = memfd_create("a", MFD_CLOEXEC);
  const std::size_t open = test::OpenFiles();
  for (int i = 0; i < 50; ++i) pair.a->Send(1, "x", {}, file);
  Frames frames;
  REQUIRE(pair.Carry(frames, 50).ok());
  CHECK(test::OpenFiles() == open);
  CHECK(pair.b->TakeFile() == -1);
  close(file);
}

TEST_CASE("more files than anybody takes are an error, and are closed", "[framed]") {
  const int file = memfd_create("a", MFD_CLOEXEC);
  const std::size_t open = test::OpenFiles();
  {
    Pair pair;
    for (int i = 0; i < 50; ++i) pair.a->Send(1, "x", {}, file);
    Frames frames;
    CHECK(pair.Carry(frames, 51).code() == StatusCode::kInvalidArgument);
    CHECK(test::OpenFiles() <= open + 2 + FramedSocket::kMaxFiles + 1);
  }
  CHECK(test::OpenFiles() == open);
  close(file);
}

TEST_CASE("what was sent before the other end went arrives, and then its end", "[framed]") {
  Pair pair;
  pair.a->Send(1, "last words");
  pair.a.reset();
  Frames frames;
  CHECK(pair.Carry(frames, 2).code() == StatusCode::kUnavailable);
  CHECK(frames == Frames{{1, "last words"}});
  // Sending raises no signal and does not wait.
  for (int i = 0; i < 100; ++i) pair.b->Send(1, Text(100'000, 0));
  CHECK_FALSE(pair.b->pending());
}

TEST_CASE("a frame that is too large is refused before it takes memory", "[framed]") {
  Pair pair;
  const std::uint32_t header[2] = {FramedSocket::kMaxFrameBytes + 1, 1};
  REQUIRE(write(pair.ends[0], header, sizeof header) == sizeof header);
  Frames frames;
  const Status status = pair.Carry(frames, 1);
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK(status.message().find("16777217 bytes: expected at most 16777216") != std::string::npos);
}

TEST_CASE("a frame that comes byte by byte is put together", "[framed]") {
  Pair pair;
  const std::uint32_t header[2] = {3, 9};
  char bytes[11];
  std::memcpy(bytes, header, 8);
  std::memcpy(bytes + 8, "abc", 3);
  Frames frames;
  for (const char byte : bytes) {
    CHECK(frames.empty());
    REQUIRE(write(pair.ends[0], &byte, 1) == 1);
    REQUIRE(pair.b
                ->Receive([&](const FramedSocket::Frame& frame) {
                  frames.emplace_back(frame.type, std::string(3, 0));
                  std::memcpy(frames.back().second.data(), frame.payload.data(), 3);
                  return OkStatus();
                })
                .ok());
  }
  CHECK(frames == Frames{{9, "abc"}});
}

TEST_CASE("one end that sends on and on does not hold up the one that receives", "[framed]") {
  constexpr std::size_t kFrameBytes = 8192;  // with the header, so that whole frames fill a read
  constexpr std::size_t kFrames = 4096;
  Pair pair;
  std::size_t sent = 0;
  std::size_t got = 0;
  const auto fill = [&] {
    pair.a->Flush();
    for (; sent < kFrames && !pair.a->pending(); ++sent) pair.a->Send(1, Text(kFrameBytes - 8, 0));
  };
  fill();
  while (got < kFrames) {
    const std::size_t before = got;
    // While it receives, there is always more: the space that a read frees is filled again.
    const Status status =
        pair.b->Receive([&](const FramedSocket::Frame&) { return ++got, fill(), OkStatus(); });
    REQUIRE(status.ok());
    REQUIRE((got - before) * kFrameBytes <= std::size_t{4} << 20);
  }
  CHECK(got == sent);
}

TEST_CASE("what waits is sent with what comes after it", "[framed]") {
  Pair pair;
  const std::size_t count = Fill(*pair.a);
  Frames frames;
  while (frames.size() + 1 < count) {
    REQUIRE(pair.b
                ->Receive([&](const FramedSocket::Frame& frame) {
                  frames.emplace_back(frame.type, "");
                  return OkStatus();
                })
                .ok());
  }
  pair.a->Send(8, "x");
  CHECK_FALSE(pair.a->pending());
}

TEST_CASE("nothing waits and nothing is sent once sending has stopped", "[framed]") {
  Pair pair;
  const std::size_t count = Fill(*pair.a);
  pair.a->StopSending();
  CHECK_FALSE(pair.a->pending());
  pair.a->Send(8, "x");
  std::size_t got = 0;
  REQUIRE(pair.b->Receive([&](const FramedSocket::Frame&) { return ++got, OkStatus(); }).ok());
  CHECK(got < count);
}

}  // namespace
}  // namespace millrace
