#include <catch2/catch.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "common/batch/arena.h"
#include "common/batch/layout/layout.h"
#include "common/transport/shm/shared_arena.h"

namespace millrace {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::span<const std::byte> At(const std::byte* data) { return {data, 1}; }

std::shared_ptr<const SharedView> View(const SharedArena& arena, std::uint32_t number) {
  const SharedArena::Segment segment = arena.segment(number);
  auto view = SharedView::Map(dup(segment.file), segment.bytes);
  REQUIRE(view.ok());
  return *view;
}

TEST_CASE("what a segment's owner writes is there for its readers", "[shared]") {
  SharedArena arena(4 * kMiB);
  std::byte* const data = arena.Allocate(kMiB);
  REQUIRE(data != nullptr);
  CHECK(reinterpret_cast<std::uintptr_t>(data) % kTensorAlignment == 0);
  std::memset(data, 0x41, kMiB);
  const std::optional<SharedPlace> place = arena.Locate({data, kMiB});
  REQUIRE(place.has_value());
  const auto view = View(arena, place->segment);
  const std::span<const std::byte> seen = view->bytes().subspan(place->offset, kMiB);
  CHECK(seen.data() != data);
  CHECK(std::memcmp(seen.data(), data, kMiB) == 0);
  data[5] = std::byte{0x42};
  CHECK(seen[5] == std::byte{0x42});
}

TEST_CASE("a place inside of an allocation is found, one elsewhere is not", "[shared]") {
  SharedArena arena(4 * kMiB);
  std::byte* const data = arena.Allocate(kMiB);
  const SharedPlace begin = arena.Locate(At(data)).value();
  const SharedPlace inside = arena.Locate(At(data + 12345)).value();
  CHECK(inside.segment == begin.segment);
  CHECK(inside.offset == begin.offset + 12345);
  const std::byte elsewhere{};
  CHECK_FALSE(arena.Locate(At(&elsewhere)).has_value());
}

TEST_CASE("freed neighbours are one piece again, in whatever order they are freed", "[shared]") {
  const std::vector<std::vector<int>> orders = {{0, 1, 2, 3}, {3, 2, 1, 0}, {0, 2, 1, 3},
                                                {1, 3, 0, 2}, {2, 0, 3, 1}, {3, 0, 1, 2}};
  for (const auto& order : orders) {
    SharedArena arena(4 * kMiB);
    std::vector<std::byte*> pieces;
    for (int i = 0; i < 4; ++i) pieces.push_back(arena.Allocate(kMiB));
    CHECK(std::set<std::byte*>(pieces.begin(), pieces.end()).size() == 4);
    CHECK(arena.Allocate(4096) == nullptr);
    for (const int i : order) arena.Free(pieces[static_cast<std::size_t>(i)], kMiB);
    std::byte* const all = arena.Allocate(4 * kMiB);
    CHECK(all != nullptr);
    CHECK(arena.shared_bytes() == 4 * kMiB);
  }
}

TEST_CASE("an arena grows by segments up to its limit, and uses again what is freed", "[shared]") {
  SharedArena arena(2 * SharedArena::kSegmentBytes + kMiB);
  CHECK(arena.shared_bytes() == 0);
  std::byte* const first = arena.Allocate(kMiB);
  CHECK(arena.shared_bytes() == SharedArena::kSegmentBytes);
  std::byte* const whole = arena.Allocate(SharedArena::kSegmentBytes);
  REQUIRE(whole != nullptr);
  CHECK(arena.Locate(At(whole))->segment == 1);
  CHECK(arena.Allocate(SharedArena::kSegmentBytes) == nullptr);
  arena.Free(whole, SharedArena::kSegmentBytes);
  CHECK(arena.Allocate(SharedArena::kSegmentBytes) == whole);
  arena.Free(first, kMiB);
}

TEST_CASE("an allocation that is larger than a segment gets one of its own", "[shared]") {
  SharedArena arena(3 * SharedArena::kSegmentBytes);
  std::byte* const data = arena.Allocate(2 * SharedArena::kSegmentBytes);
  REQUIRE(data != nullptr);
  CHECK(arena.shared_bytes() == 2 * SharedArena::kSegmentBytes);
  CHECK(arena.Allocate(2 * SharedArena::kSegmentBytes) == nullptr);
}

TEST_CASE("a limit below a segment's size is used whole", "[shared]") {
  SharedArena arena(3 * kMiB);
  CHECK(arena.Allocate(kMiB) != nullptr);
  CHECK(arena.shared_bytes() == 3 * kMiB);
  CHECK(arena.Allocate(2 * kMiB) != nullptr);
  CHECK(arena.Allocate(4096) == nullptr);
}

TEST_CASE("several threads get memory that nobody else has", "[shared]") {
  SharedArena arena(2 * SharedArena::kSegmentBytes);
  std::vector<std::thread> threads;
  std::atomic<int> spoilt{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 200; ++round) {
        std::vector<std::byte*> mine;
        for (int i = 0; i < 5; ++i) {
          mine.push_back(arena.Allocate(4096));
          std::memset(mine.back(), t, 4096);
        }
        for (std::byte* const data : mine) {
          if (data[0] != std::byte(t) || data[4095] != std::byte(t)) ++spoilt;
          if (!arena.Locate(At(data))) ++spoilt;
          arena.Free(data, 4096);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(spoilt == 0);
  CHECK(arena.shared_bytes() == SharedArena::kSegmentBytes);
}

TEST_CASE("nobody who has a segment's file can write it, or change its size", "[shared]") {
  SharedArena arena(4 * kMiB);
  REQUIRE(arena.Allocate(kMiB) != nullptr);
  const int file = dup(arena.segment(0).file);
  CHECK(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) == MAP_FAILED);
  CHECK(ftruncate(file, 4096) != 0);
  CHECK(ftruncate(file, static_cast<off_t>(8 * kMiB)) != 0);
  CHECK(pwrite(file, "x", 1, 0) < 0);
  CHECK(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) != 0);
  CHECK(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE) != 0);
  void* const data = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0);
  REQUIRE(data != MAP_FAILED);
  CHECK(mprotect(data, 4096, PROT_READ | PROT_WRITE) != 0);
  munmap(data, 4096);
  close(file);
}

TEST_CASE("a view outlives the arena", "[shared]") {
  std::shared_ptr<const SharedView> view;
  {
    SharedArena arena(kMiB);
    std::byte* const data = arena.Allocate(kMiB);
    std::memset(data, 7, kMiB);
    view = View(arena, 0);
  }
  CHECK(view->bytes()[kMiB - 1] == std::byte{7});
}

TEST_CASE("memory that could be cut off under its reader is not mapped", "[shared]") {
  const int plain = memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  REQUIRE(ftruncate(plain, 8192) == 0);
  CHECK(SharedView::Map(dup(plain), 8192).status().code() == StatusCode::kInvalidArgument);
  REQUIRE(fcntl(plain, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
  CHECK(SharedView::Map(dup(plain), 8192).ok());
  CHECK(SharedView::Map(dup(plain), 8193).status().code() == StatusCode::kInvalidArgument);
  CHECK(SharedView::Map(dup(plain), 0).status().code() == StatusCode::kInvalidArgument);
  close(plain);
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  CHECK_FALSE(SharedView::Map(pipe_ends[0], 4096).ok());
  close(pipe_ends[1]);
}

TEST_CASE("a pool beyond its shared memory takes the heap, and comes back from it", "[shared]") {
  const auto arena = std::make_shared<SharedArena>(2 * kMiB);
  BufferPool pool(64 * kMiB, arena);
  auto a = pool.Acquire(kMiB).value();
  auto b = pool.Acquire(kMiB).value();
  auto c = pool.Acquire(kMiB).value();
  CHECK(arena->Locate(a->bytes()).has_value());
  CHECK(arena->Locate(b->bytes()).has_value());
  CHECK_FALSE(arena->Locate(c->bytes()).has_value());
  c.reset();
  CHECK(pool.stats().bytes_cached == 0);
  a.reset();
  auto d = pool.Acquire(kMiB).value();
  CHECK(arena->Locate(d->bytes()).has_value());
}

TEST_CASE("unused buffers of one size give way to buffers of another", "[shared]") {
  const auto arena = std::make_shared<SharedArena>(2 * kMiB);
  BufferPool pool(64 * kMiB, arena);
  {
    auto a = pool.Acquire(kMiB).value();
    auto b = pool.Acquire(kMiB).value();
  }
  CHECK(pool.stats().bytes_cached == 2 * kMiB);
  CHECK(arena->Locate(pool.Acquire(2 * kMiB).value()->bytes()).has_value());
}

}  // namespace
}  // namespace millrace
