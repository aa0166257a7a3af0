// A folder of segments that somebody else has written. Bits 0 and 1 of byte 0 of an input say how
// many segments there are besides the first. The length of each follows, in 4 bytes, and then the
// segments; the last one is the rest of the input. If bit 2 is set, checksums of headers, tables
// and records are first made right, so that the checks behind them are reached too.
//
// Values of honest keys are known, so records with such a key get no right digest.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "server/plan/cache/cache_format.h"
#include "server/plan/cache/disk_cache.h"
#include "server/plan/cache/segment_reader.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"
#include "tests/support/fake_clock.h"
#include "tests/unit/server/plan/cache/made_up.h"
#include "tests/unit/server/state/temporary_folder.h"

namespace millrace::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kHonest = 5;
constexpr std::size_t kSize = 50;

template <class T>
bool LoadAt(const std::string& bytes, std::size_t offset, T& value) {
  if (offset > bytes.size() || sizeof value > bytes.size() - offset) return false;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return true;
}

template <class T>
void StoreAt(std::string& bytes, std::size_t offset, const T& value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

std::span<const std::byte> SliceOf(const std::string& bytes, std::size_t offset, std::size_t size) {
  return std::as_bytes(std::span(bytes)).subspan(offset, size);
}

/// Makes checksums right, but none of an honest key: its value is known.
void Seal(std::string& bytes) {
  SegmentHeader header;
  if (!LoadAt(bytes, 0, header)) return;
  header.checksum = Xxh3_64(SliceOf(bytes, 0, offsetof(SegmentHeader, checksum)));
  StoreAt(bytes, 0, header);
  SegmentTrailer trailer;
  if (bytes.size() >= sizeof header + sizeof trailer &&
      LoadAt(bytes, bytes.size() - sizeof trailer, trailer)) {
    const auto begin = FindTable(trailer, bytes.size());
    if (begin.ok()) {
      trailer.checksum =
          Xxh3_64(SliceOf(bytes, *begin, bytes.size() - sizeof trailer - *begin), trailer.entries);
      StoreAt(bytes, bytes.size() - sizeof trailer, trailer);
    }
  }
  for (std::size_t at = sizeof header; at + sizeof(RecordHeader) <= bytes.size();
       at += kCacheUnit) {
    RecordHeader record;
    LoadAt(bytes, at, record);
    if (!ReadRecordHeader(record, at, bytes.size()).has_value()) continue;
    bool is_honest = false;
    for (std::uint64_t n = 0; n < kHonest; ++n) {
      is_honest = is_honest || test::CacheKey(n) == Digest128{record.key_high, record.key_low};
    }
    if (is_honest) continue;
    const Digest128 digest = Xxh3(SliceOf(bytes, at + 16, sizeof record - 16 + record.size));
    record.digest_high = digest.high;
    record.digest_low = digest.low;
    StoreAt(bytes, at, record);
  }
}

std::string HonestSegment(bool with_table) {
  const test::TemporaryFolder folder;
  DiskCache cache({.folder = folder.path() / "c", .limit_bytes = 1 << 16, .segment_bytes = 1 << 12},
                  std::make_shared<SystemCacheFiles>(), std::make_shared<FakeClock>(),
                  MakeNullLogger());
  for (std::uint64_t n = 0; n < kHonest; ++n) {
    cache.Add(test::CacheKey(n), test::CacheBytes(n, kSize));
  }
  // A record that fills the rest, so that the next one completes the segment.
  if (with_table) {
    cache.Add(test::CacheKey(100), test::CacheBytes(100, 3000));
    cache.Add(test::CacheKey(101), test::CacheBytes(101, 3000));
  }
  std::vector<fs::path> paths(fs::directory_iterator(folder.path() / "c"), {});
  std::ifstream in(*std::min_element(paths.begin(), paths.end()), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace
}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  namespace fs = std::filesystem;
  static const test::TemporaryFolder world;
  const fs::path folder = world.path() / "cache";
  fs::remove_all(folder);
  fs::create_directory(folder);
  fuzz::Input in(data, size);
  const std::uint8_t flags = in.Byte();
  const std::uint32_t segments = flags % 4 + 1;
  std::vector<std::size_t> sizes;
  for (std::uint32_t i = 0; i < segments; ++i) sizes.push_back(in.Number(4));
  auto files = std::make_shared<SystemCacheFiles>();
  std::vector<SegmentEntry> entries;
  for (std::uint32_t i = 0; i < segments; ++i) {
    std::string bytes(i + 1 == segments ? in.rest() : in.Take(sizes[i]));
    if ((flags & 4) != 0) fuzz::Seal(bytes);
    const fs::path path = folder / SegmentName(i, i);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    const auto file = files->Open(path);
    fuzz::RequireOk(file.status(), "a file that was written");
    const auto records = ReadSegmentRecords(*files, *file, bytes.size(), 0);
    fuzz::RequireOk(records.status(), "the records of any file");
    for (const SegmentEntry& entry : records->entries) {
      fuzz::Require(LiesInSegment(entry, bytes.size()), "a record lies in its file");
      entries.push_back(entry);
    }
  }
  DiskCache cache(
      {.folder = folder, .limit_bytes = 1 << 20, .segment_bytes = 1 << 12, .index_bytes = 1 << 15},
      files, std::make_shared<FakeClock>(), MakeNullLogger());
  cache.Scan();
  for (std::uint64_t n = 0; n < fuzz::kHonest; ++n) {
    const ExamplePtr value = cache.Find(test::CacheKey(n));
    fuzz::Require(value == nullptr || test::Holds(value, n, fuzz::kSize),
                  "an honest key has its own bytes");
  }
  for (const SegmentEntry& entry : entries) {
    static_cast<void>(cache.Find({entry.key_high, entry.key_low}));
  }
  for (std::uint64_t n = 1000; n < 1010; ++n) {
    cache.Add(test::CacheKey(n), test::CacheBytes(n, 1000));
    fuzz::Require(test::Holds(cache.Find(test::CacheKey(n)), n, 1000),
                  "what is added is found, whatever else is in the folder");
  }
  return 0;
}

std::vector<std::string> millrace::fuzz::Seeds() {
  const std::string whole = HonestSegment(true);
  const std::string cut = HonestSegment(false);
  std::vector<std::string> seeds;
  for (const int flags : {0, 4}) {
    for (const std::string& segment : {whole, cut}) {
      seeds.push_back(static_cast<char>(flags) + NumberBytes(0, 4) + segment);
    }
    seeds.push_back(static_cast<char>(flags + 1) + NumberBytes(whole.size(), 4) +
                    NumberBytes(0, 4) + whole + cut);
  }
  return seeds;
}
