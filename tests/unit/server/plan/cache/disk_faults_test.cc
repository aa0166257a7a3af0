// Faults of the folder below a disk cache. Each costs examples, and nothing else.
#include <rapidcheck.h>
#include <sys/stat.h>
#include <catch2/catch.hpp>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "server/plan/cache/disk_cache.h"
#include "tests/unit/server/plan/cache/faulty_files.h"
#include "tests/unit/server/plan/cache/made_up.h"

namespace millrace {
namespace {

using test::CacheBytes;
using test::CacheKey;
using test::CacheWorld;
using test::Holds;

void Fill(DiskCache& cache, std::uint64_t begin, std::uint64_t end, std::size_t size = 1000) {
  for (std::uint64_t n = begin; n < end; ++n) cache.Add(CacheKey(n), CacheBytes(n, size));
}

std::uint64_t Found(DiskCache& cache, std::uint64_t begin, std::uint64_t end,
                    std::size_t size = 1000) {
  std::uint64_t found = 0;
  for (std::uint64_t n = begin; n < end; ++n) {
    const ExamplePtr value = cache.Find(CacheKey(n));
    if (value == nullptr) continue;
    if (!Holds(value, n, size)) throw std::runtime_error("wrong bytes");
    ++found;
  }
  return found;
}

std::string ReadBytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void WriteBytes(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// A folder with one segment of some small values, with its table.
struct SmallSegment {
  static constexpr std::uint64_t kValues = 6;
  static constexpr std::size_t kSize = 40;

  SmallSegment() {
    Fill(*world.Start(), 0, kValues, kSize);
    path = world.Segments().at(0);
    bytes = ReadBytes(path);
  }
  std::uint64_t FoundIn(std::string_view changed) {
    WriteBytes(path, changed);
    const auto cache = world.Start();
    const std::uint64_t found = Found(*cache, 0, kValues, kSize);
    failures = cache->stats().failures;
    return found;
  }
  CacheWorld world;
  std::filesystem::path path;
  std::string bytes;
  std::uint64_t failures = 0;
};

TEST_CASE("a segment of any length gives right bytes, and all records before the cut",
          "[cache][faults]") {
  SmallSegment segment;
  CHECK(segment.FoundIn(segment.bytes) == SmallSegment::kValues);
  for (std::size_t length = 0; length < segment.bytes.size(); ++length) {
    const std::size_t whole = length < sizeof(SegmentHeader) ? 0
                                                             : (length - sizeof(SegmentHeader)) /
                                                                   RecordBytes(SmallSegment::kSize);
    INFO("cut off at " << length);
    CHECK(segment.FoundIn(std::string_view(segment.bytes).substr(0, length)) ==
          std::min<std::uint64_t>(whole, SmallSegment::kValues));
    CHECK(segment.failures == (length < sizeof(SegmentHeader) ? 1 : 0));
  }
}

TEST_CASE("a flipped bit anywhere costs a record at most, or the segment's header",
          "[cache][faults]") {
  SmallSegment segment;
  for (std::size_t at = 0; at < segment.bytes.size(); ++at) {
    for (const int bit : {0, 3, 7}) {
      std::string changed = segment.bytes;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      INFO("byte " << at << ", bit " << bit);
      const std::uint64_t found = segment.FoundIn(changed);
      if (at < sizeof(SegmentHeader)) {
        CHECK(found == 0);
      } else {
        CHECK(found >= SmallSegment::kValues - 1);
      }
    }
  }
}

TEST_CASE("random damage never gives wrong bytes", "[cache][faults][property]") {
  SmallSegment segment;
  CHECK(rc::check([&] {
    std::string changed = segment.bytes;
    const auto changes = *rc::gen::inRange(1, 8);
    for (int i = 0; i < changes; ++i) {
      const auto at = *rc::gen::inRange<std::size_t>(0, changed.size());
      const auto to = *rc::gen::inRange<std::size_t>(0, changed.size());
      const auto length =
          std::min(*rc::gen::inRange<std::size_t>(0, 100), changed.size() - std::max(at, to));
      switch (*rc::gen::inRange(0, 5)) {
        case 0:
          changed[at] = static_cast<char>(*rc::gen::arbitrary<char>());
          break;
        case 1:  // copies a run of bytes elsewhere
          changed.replace(to, length, changed.substr(at, length));
          break;
        case 2:
          changed.erase(at, length);
          break;
        case 3:
          changed.insert(at, changed.substr(to, length));
          break;
        default:
          std::memset(changed.data() + at, 0, std::min(length, changed.size() - at));
      }
      if (changed.empty()) return;
    }
    static_cast<void>(segment.FoundIn(changed));  // throws at wrong bytes
  }));
}

TEST_CASE("a file that is damaged while it is in use gives right bytes", "[cache][faults]") {
  CacheWorld world;
  Fill(*world.Start(), 0, 60);
  const auto cache = world.Start();
  const std::filesystem::path path = world.Segments().at(0);
  SECTION("a byte of each record") {
    std::string bytes = ReadBytes(path);
    for (std::size_t at = 100; at < bytes.size(); at += 500) bytes[at] ^= 1;
    WriteBytes(path, bytes);
    CHECK(Found(*cache, 0, 60) < 5);
    CHECK(cache->stats().failures > 0);
    CHECK(world.logger->warnings == 1);
  }
  SECTION("it is cut off") {
    std::filesystem::resize_file(path, 10'000);
    CHECK(Found(*cache, 0, 60) == 9);
    CHECK(world.logger->warnings == 1);
  }
  SECTION("another segment takes its name") {
    const CacheWorld other;
    Fill(*other.Start(), 100, 160);
    std::filesystem::copy_file(other.Segments().at(0), path,
                               std::filesystem::copy_options::overwrite_existing);
    CHECK(Found(*cache, 0, 60) == 0);
  }
  // What is lost is written again.
  Fill(*cache, 0, 60);
  CHECK(Found(*cache, 0, 60) == 60);
  CHECK(Found(*world.Start(), 0, 60) == 60);
}

TEST_CASE("a warning comes once in ten minutes, with the number of silent ones",
          "[cache][faults]") {
  CacheWorld world;
  const auto cache = world.Start();
  Fill(*cache, 0, 10);
  world.files->read = EIO;
  for (int i = 0; i < 5; ++i) {
    CHECK(Found(*cache, 0, 10) == 0);
    world.files->read = 0;
    Fill(*cache, 0, 10);
    world.files->read = EIO;
  }
  CHECK(cache->stats().failures == 50);
  CHECK(world.logger->warnings == 1);
  world.clock->Advance(RareWarning::kBetween);
  CHECK(Found(*cache, 0, 10) == 0);
  CHECK(world.logger->warnings == 2);
}

TEST_CASE("a full disk pauses writing, and the oldest segment makes room", "[cache][faults]") {
  CacheWorld world;
  const auto cache = world.Start();
  Fill(*cache, 0, 200);
  const std::size_t segments = world.Segments().size();
  world.files->write = ENOSPC;
  world.files->written_before = GENERATE(0, 1, 47, 48, 500);
  Fill(*cache, 200, 300);
  CHECK(cache->stats().failures == 1);
  CHECK(cache->stats().skipped == 99);
  CHECK(world.logger->warnings == 1);
  CHECK(Found(*cache, 0, 200) == 200);
  CHECK(Found(*cache, 200, 300) == 0);
  world.files->write = 0;
  Fill(*cache, 200, 300);
  CHECK(Found(*cache, 200, 300) == 0);  // still a pause
  world.clock->Advance(DiskCache::kPause);
  Fill(*cache, 200, 260);
  CHECK(Found(*cache, 200, 260) == 60);
  CHECK(world.Segments().size() == segments);  // one more, one less
  CHECK(Found(*world.Start(), 200, 260) == 60);
}

TEST_CASE("a failure of any operation costs examples only", "[cache][faults]") {
  CacheWorld world;
  Fill(*world.Start(), 0, 100);
  test::FaultyFiles& files = *world.files;
  std::atomic<int>* const operations[] = {&files.make_folder, &files.list,   &files.create,
                                          &files.open,        &files.read,   &files.write,
                                          &files.rename,      &files.remove, &files.set_modified};
  std::uint64_t next = 1000;
  for (std::atomic<int>* const operation : operations) {
    for (const int error : {EIO, ENOSPC, EROFS, EACCES, EMFILE, ENOENT}) {
      for (const bool at_start : {false, true}) {
        INFO("operation " << operation - operations[0] << ", " << std::strerror(error));
        if (at_start) *operation = error;
        const auto cache = world.Start();
        *operation = error;
        Fill(*cache, next, next + 100);
        Found(*cache, 0, 100);
        Found(*cache, next, next + 100);
        cache->Scan();
        CHECK(world.logger->warnings.exchange(0) <= 2);  // one of reading, one of writing
        *operation = 0;
        world.clock->Advance(DiskCache::kPause);
        Fill(*cache, next, next + 100);
        CHECK(Found(*cache, next, next + 100) == 100);
        world.clock->Advance(RareWarning::kBetween);
        next += 100;
      }
    }
  }
}

TEST_CASE("writes that are lost in silence never give wrong bytes", "[cache][faults]") {
  CacheWorld world;
  {
    const auto cache = world.Start();
    Fill(*cache, 0, 10);
    world.files->lies = true;
    world.files->write = EIO;
    world.files->written_before = 500;
    Fill(*cache, 10, 20);
    world.files->write = 0;
    Fill(*cache, 20, 30);
    CHECK(Found(*cache, 0, 30) == 20);
  }
  CHECK(Found(*world.Start(), 0, 30) == 20);
}

TEST_CASE("a folder that cannot be written is read", "[cache][faults]") {
  CacheWorld world;
  Fill(*world.Start(), 0, 100);
  const std::vector<std::filesystem::path> before = world.Segments();
  test::FaultyFiles& files = *world.files;
  files.create = files.write = files.rename = files.remove = files.set_modified = EROFS;
  const auto cache = world.Start();
  Fill(*cache, 100, 200);
  CHECK(Found(*cache, 0, 200) == 100);
  CHECK(cache->stats().failures == 1);
  CHECK(world.logger->warnings == 1);
  const std::uint64_t calls = files.calls;
  Fill(*cache, 200, 1000);
  CHECK(files.calls == calls);  // a pause asks nothing of the disk
  CHECK(world.Segments() == before);
}

TEST_CASE("a folder that is deleted under way is made again", "[cache][faults]") {
  CacheWorld world;
  const auto cache = world.Start();
  Fill(*cache, 0, 100);
  std::filesystem::remove_all(world.folder);
  Found(*cache, 0, 100);
  Fill(*cache, 100, 300);
  CHECK(Found(*cache, 250, 300) == 50);
  cache->Scan();
  CHECK(Found(*cache, 0, 60) == 0);
  Fill(*cache, 0, 60);
  CHECK(Found(*cache, 0, 60) == 60);
  CHECK(Found(*world.Start(), 0, 60) == 60);
  CHECK(cache->stats().failures == 0);
  CHECK(cache->stats().bytes >= world.BytesOnDisk());
}

TEST_CASE("a segment that is removed under way is no longer counted or used", "[cache][faults]") {
  CacheWorld world;
  world.options.open_files = 1;
  Fill(*world.Start(), 0, 200);
  const auto cache = world.Start();
  for (const auto& path : world.Segments()) std::filesystem::remove(path);
  CHECK(Found(*cache, 0, 200) == 0);
  cache->Scan();
  CHECK(cache->stats().segments == 0);
  CHECK(cache->stats().bytes == 0);
  CHECK(cache->stats().failures == 0);
}

TEST_CASE("no folder can be made where a file is", "[cache][faults]") {
  CacheWorld world;
  WriteBytes(world.folder, "a file");
  const auto cache = world.Start();
  Fill(*cache, 0, 100);
  CHECK(Found(*cache, 0, 100) == 0);
  CHECK(world.logger->warnings == 1);
}

TEST_CASE("files of others are left alone, and nothing waits for them", "[cache][faults]") {
  CacheWorld world;
  Fill(*world.Start(), 0, 10);
  const std::filesystem::path segment = world.Segments().at(0);
  const std::string good = segment.filename();
  WriteBytes(world.folder / "notes.txt", "mine");
  WriteBytes(world.folder / (good + ".txt"), "mine");
  WriteBytes(world.folder / ("x" + good.substr(1)), "mine");
  std::string name = good;
  name[9] = 'g';
  WriteBytes(world.folder / name, "mine");
  const auto other = [&](char digit) {
    std::string made = good;
    made[9] = good[9] == digit ? 'f' : digit;
    return world.folder / made;
  };
  std::filesystem::create_directory(other('0'));
  REQUIRE(mkfifo(other('1').c_str(), 0600) == 0);
  std::filesystem::create_symlink(segment, other('2'));
  world.options.limit_bytes = 2 * world.options.segment_bytes;
  const auto cache = world.Start();
  Fill(*cache, 100, 400);
  CHECK(Found(*cache, 395, 400) == 5);
  CHECK(ReadBytes(world.folder / "notes.txt") == "mine");
  CHECK(ReadBytes(world.folder / (good + ".txt")) == "mine");
  CHECK(ReadBytes(world.folder / ("x" + good.substr(1))) == "mine");
  CHECK(ReadBytes(world.folder / name) == "mine");
  CHECK(std::filesystem::is_directory(other('0')));
  CHECK(std::filesystem::is_fifo(other('1')));
  CHECK(std::filesystem::is_symlink(other('2')));
  CHECK(world.logger->warnings == 0);
}

TEST_CASE("a segment of another version is removed, and so is what is none", "[cache][faults]") {
  SmallSegment segment;
  CacheWorld& world = segment.world;
  SegmentHeader header;
  std::memcpy(&header, segment.bytes.data(), sizeof header);
  std::string changed = segment.bytes;
  SECTION("another version") {
    header.version = kCacheVersion + 1;
    header.checksum =
        Xxh3_64(std::as_bytes(std::span(&header, 1)).first(offsetof(SegmentHeader, checksum)));
    CHECK(CheckSegmentHeader(header).code() == StatusCode::kFailedPrecondition);
    std::memcpy(changed.data(), &header, sizeof header);
  }
  SECTION("no segment") { changed = "something else"; }
  SECTION("empty") { std::filesystem::resize_file(segment.path, 0); }
  SECTION("larger than any segment") {
    std::filesystem::resize_file(segment.path, kMaxSegmentBytes + 1);
  }
  if (changed != segment.bytes) WriteBytes(segment.path, changed);
  const auto cache = world.Start();
  CHECK(Found(*cache, 0, 6, 40) == 0);
  CHECK_FALSE(std::filesystem::exists(segment.path));
  CHECK(cache->stats().bytes == 0);
  CHECK(world.logger->warnings == 1);
}

TEST_CASE("a segment that cannot be read now is not removed", "[cache][faults]") {
  SmallSegment segment;
  CacheWorld& world = segment.world;
  world.files->read = EIO;
  const auto cache = world.Start();
  CHECK(std::filesystem::exists(segment.path));
  world.files->read = 0;
  cache->Scan();
  CHECK(Found(*cache, 0, 6, 40) == 6);
}

TEST_CASE("an unfinished segment of a killed process is removed after an hour", "[cache][faults]") {
  CacheWorld world;
  std::filesystem::create_directories(world.folder);
  const std::filesystem::path path =
      world.folder / (SegmentName(1, 2) + std::string(kNewSegmentEnding));
  WriteBytes(path, "M");
  const std::int64_t second = 1'000'000'000;
  REQUIRE(world.files->SetModified(path, world.clock->UnixSeconds() * second).ok());
  const auto cache = world.Start();
  CHECK(std::filesystem::exists(path));
  world.clock->SetUnixSeconds(world.clock->UnixSeconds() + 3601);
  cache->Scan();
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("a value that contains a whole segment is only a value", "[cache][faults]") {
  SmallSegment inner;
  CacheWorld world;
  const auto bytes = std::as_bytes(std::span(inner.bytes));
  {
    const auto cache = world.Start();
    cache->Add(CacheKey(77), bytes);
    const auto killed = world.Start();
    CHECK(Found(*killed, 0, 6, 40) == 0);
  }
  const auto cache = world.Start();
  CHECK(Found(*cache, 0, 6, 40) == 0);
  const ExamplePtr found = cache->Find(CacheKey(77));
  REQUIRE(found != nullptr);
  CHECK(std::equal(bytes.begin(), bytes.end(), found->bytes().begin(), found->bytes().end()));
}

}  // namespace
}  // namespace millrace
