#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <optional>
#include <thread>
#include <vector>

#include "common/batch/arena.h"
#include "common/batch/layout/layout.h"

namespace millrace {
namespace {

std::shared_ptr<Buffer> Take(BufferPool& pool, std::size_t bytes) {
  auto buffer = pool.Acquire(bytes);
  REQUIRE(buffer.ok());
  return *buffer;
}

TEST_CASE("buffers are aligned and as large as asked for", "[arena]") {
  BufferPool pool;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{4097},
                                  std::size_t{100'000}, std::size_t{1} << 20}) {
    const auto buffer = Take(pool, bytes);
    CHECK(buffer->size() == bytes);
    CHECK(buffer->capacity() >= bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer->data()) % kTensorAlignment == 0);
    std::memset(buffer->data(), 0x5a, buffer->capacity());
  }
}

TEST_CASE("size classes waste at most a fifth and are their own class", "[arena]") {
  for (std::size_t bytes = 1; bytes <= BufferPool::kMaxBufferBytes; bytes += 1 + bytes / 7) {
    const std::size_t capacity = BufferPool::SizeClass(bytes);
    CHECK(capacity >= bytes);
    if (bytes > 4096) CHECK((capacity - bytes) * 5 <= capacity);
    CHECK(BufferPool::SizeClass(capacity) == capacity);
  }
}

TEST_CASE("a buffer comes back with its last reference and is used again", "[arena]") {
  BufferPool pool;
  auto buffer = Take(pool, 10'000);
  const std::byte* const data = buffer->data();
  const std::size_t capacity = buffer->capacity();
  std::shared_ptr<const Buffer> second = buffer;
  buffer.reset();
  CHECK(pool.stats().bytes_in_use == capacity);
  CHECK(pool.stats().bytes_cached == 0);
  second.reset();
  CHECK(pool.stats().bytes_in_use == 0);
  CHECK(pool.stats().bytes_cached == capacity);
  CHECK(Take(pool, 9'990)->data() == data);
  CHECK(pool.stats().allocations == 1);
  CHECK(pool.stats().reuses == 1);
}

TEST_CASE("the cache keeps what was used last, within its bound", "[arena]") {
  BufferPool pool(2 * 4096);
  auto a = Take(pool, 4096);
  auto b = Take(pool, 4096);
  auto c = Take(pool, 4096);
  const std::byte* const oldest = a->data();
  a.reset();
  b.reset();
  c.reset();
  CHECK(pool.stats().bytes_cached == 2 * 4096);
  const auto d = Take(pool, 1);
  const auto e = Take(pool, 1);
  CHECK(pool.stats().reuses == 2);
  CHECK(d->data() != oldest);
  CHECK(e->data() != oldest);
}

TEST_CASE("a buffer larger than the cache is freed", "[arena]") {
  BufferPool pool(4096);
  Take(pool, 1 << 20).reset();
  CHECK(pool.stats().bytes_cached == 0);
  CHECK(pool.stats().bytes_in_use == 0);
}

TEST_CASE("trimming frees what nobody holds", "[arena]") {
  BufferPool pool;
  const auto held = Take(pool, 5000);
  Take(pool, 5000).reset();
  pool.Trim();
  CHECK(pool.stats().bytes_cached == 0);
  CHECK(pool.stats().bytes_in_use == held->capacity());
}

TEST_CASE("a buffer outlives its pool", "[arena]") {
  std::optional<BufferPool> pool(std::in_place);
  const auto buffer = Take(*pool, 5000);
  pool.reset();
  std::memset(buffer->data(), 1, buffer->size());
  CHECK(buffer->data()[4999] == std::byte{1});
}

TEST_CASE("a size beyond all reason is an error", "[arena]") {
  BufferPool pool;
  for (const std::size_t bytes :
       {std::numeric_limits<std::size_t>::max(), BufferPool::kMaxBufferBytes + 1}) {
    const auto buffer = pool.Acquire(bytes);
    REQUIRE_FALSE(buffer.ok());
    CHECK(buffer.status().code() == StatusCode::kResourceExhausted);
  }
  CHECK(pool.stats().bytes_in_use == 0);
}

TEST_CASE("threads share a pool", "[arena]") {
  BufferPool pool;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      for (std::size_t i = 0; i < 500; ++i) {
        auto buffer = pool.Acquire(1000 + i * 37 % 9000);
        if (buffer.ok()) std::memset((*buffer)->data(), t, (*buffer)->size());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(pool.stats().bytes_in_use == 0);
  CHECK(pool.stats().allocations + pool.stats().reuses == 2000);
}

}  // namespace
}  // namespace millrace
