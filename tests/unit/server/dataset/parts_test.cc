// The parts of indexing that can be held against a plain version of themselves.
#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "server/dataset/dataset_files.h"
#include "server/dataset/definition_links.h"
#include "server/dataset/graph_file.h"
#include "server/dataset/mapped_file.h"
#include "server/dataset/parallel.h"
#include "server/dataset/topological_order.h"
#include "tests/support/dataset_fixture.h"

namespace millrace {
namespace {

std::vector<std::string> Parts(const std::string& name) {
  std::vector<std::string> parts(1);
  for (const char c : name) {
    if (c == '/') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

bool PlainLess(const std::string& a, const std::string& b) {
  const auto bytes = [](const std::string& s) {
    std::vector<std::vector<unsigned char>> parts;
    for (const std::string& part : Parts(s)) parts.emplace_back(part.begin(), part.end());
    return parts;
  };
  return bytes(a) < bytes(b);
}

TEST_CASE("names compare as path parts", "[order]") {
  CHECK(NameLess("a/c1/d.bin", "a/c1.bin"));
  CHECK(NameLess("a/b.bin", "a/c.bin"));
  CHECK(NameLess("a.bin", "a/b.bin") == PlainLess("a.bin", "a/b.bin"));
  rc::prop("names compare as lists of parts do", [] {
    const auto name = rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab/.\x80")));
    const std::string a = *name;
    const std::string b = *name;
    RC_ASSERT(NameLess(a, b) == PlainLess(a, b));
  });
}

TEST_CASE("files are ordered as the page says", "[order]") {
  rc::prop("the order is that of the plain rule, and the rest is cyclic", [] {
    const auto count = *rc::gen::inRange(1, 9);
    std::vector<std::vector<std::uint32_t>> dependencies;
    std::vector<OrderedFile> files;
    std::vector<std::string> names;
    for (int f = 0; f < count; ++f) {
      names.push_back(std::string(1, static_cast<char>('a' + f)) + (f % 2 == 0 ? "/x" : ".x"));
      dependencies.push_back({static_cast<std::uint32_t>(f)});
      for (int d = *rc::gen::inRange(0, 3); d > 0; --d) {
        dependencies.back().push_back(static_cast<std::uint32_t>(*rc::gen::inRange(0, count)));
      }
    }
    for (std::size_t f = 0; f < names.size(); ++f) {
      files.push_back({.size = static_cast<std::uint64_t>(*rc::gen::inRange(1, 4)),
                       .name = names[f],
                       .dependencies = dependencies[f]});
    }
    std::vector<std::uint32_t> expected;
    std::set<std::uint32_t> placed;
    while (true) {
      std::vector<std::uint32_t> ready;
      for (std::uint32_t f = 0; f < files.size(); ++f) {
        bool all = placed.count(f) == 0;
        for (std::size_t d = 1; d < dependencies[f].size(); ++d) {
          all = all && placed.count(dependencies[f][d]) != 0;
        }
        if (all) ready.push_back(f);
      }
      if (ready.empty()) break;
      const std::uint32_t next =
          *std::min_element(ready.begin(), ready.end(), [&](std::uint32_t a, std::uint32_t b) {
            if (files[a].size != files[b].size) return files[a].size < files[b].size;
            return PlainLess(names[a], names[b]);
          });
      expected.push_back(next);
      placed.insert(next);
    }
    const TopologicalOrder order = OrderFiles(files);
    RC_ASSERT(order.order == expected);
    RC_ASSERT(order.cyclic.empty() == (expected.size() == files.size()));
    for (const std::uint32_t f : order.cyclic) RC_ASSERT(placed.count(f) == 0u);
  });
}

TEST_CASE("intervals of the forest of previous definitions are its ancestors", "[links]") {
  rc::prop("x is an ancestor of y exactly when x.enter <= y.enter < x.exit", [] {
    const auto count = static_cast<std::uint32_t>(*rc::gen::inRange(1, 30));
    // A forest in a shuffled numbering: definition number[i] follows one of those before it.
    std::vector<std::uint32_t> number(count);
    for (std::uint32_t i = 0; i < count; ++i) number[i] = (i * 7 + 3) % count;
    if (count % 7 == 0) {
      for (std::uint32_t i = 0; i < count; ++i) number[i] = i;
    }
    FileBlob blob;
    blob.definitions.resize(count);
    std::vector<std::uint32_t> cluster_of(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto before = *rc::gen::inRange<std::uint32_t>(0, i + 1);
      blob.definitions[number[i]].previous = before == i ? kNone : number[before];
      cluster_of[number[i]] = number[i];
    }
    const std::uint32_t representative = number[*rc::gen::inRange<std::uint32_t>(0, count)];
    RC_ASSERT(LinkDefinitions(cluster_of, representative, blob).ok());
    for (std::uint32_t y = 0; y < count; ++y) {
      std::set<std::uint32_t> ancestors;
      for (std::uint32_t x = y; x != kNone; x = blob.definitions[x].previous) ancestors.insert(x);
      RC_ASSERT(blob.definitions[y].depth + 1 == ancestors.size());
      for (std::uint32_t x = 0; x < count; ++x) {
        const bool inside = blob.definitions[x].enter <= blob.definitions[y].enter &&
                            blob.definitions[y].enter < blob.definitions[x].exit;
        RC_ASSERT(inside == (ancestors.count(x) != 0));
      }
    }
    RC_ASSERT(blob.spine.front() == representative);
    RC_ASSERT(blob.spine.size() == blob.definitions[representative].depth + 1);
    RC_ASSERT(blob.clusters.size() == count);
  });
}

TEST_CASE("a chain of a million definitions needs no stack", "[links]") {
  constexpr std::uint32_t kCount = 1'000'000;
  FileBlob blob;
  blob.definitions.resize(kCount);
  std::vector<std::uint32_t> cluster_of(kCount);
  for (std::uint32_t i = 0; i < kCount; ++i) {
    blob.definitions[i].previous = i + 1 < kCount ? i + 1 : kNone;
    cluster_of[i] = i;
  }
  REQUIRE(LinkDefinitions(cluster_of, 0, blob).ok());
  CHECK(blob.spine.size() == kCount);
  blob.definitions[kCount - 1].previous = 0;
  FileBlob cyclic;
  cyclic.definitions = blob.definitions;
  CHECK(LinkDefinitions(cluster_of, 0, cyclic).code() == StatusCode::kDataLoss);
}

TEST_CASE("UTF-8 is told from what is not", "[names]") {
  for (const char* good :
       {"", "abc", "\xC3\xA9", "\xE2\x88\x80", "\xF0\x9F\x8C\x8A", "\xEF\xBF\xBF"}) {
    CHECK(IsUtf8(good));
  }
  for (const char* bad : {"\x80", "\xC3", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80",
                          "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "a\xFF"}) {
    CHECK_FALSE(IsUtf8(bad));
  }
}

TEST_CASE("every piece of parallel work is done once", "[parallel]") {
  for (const unsigned threads : {0u, 1u, 2u, 9u}) {
    std::vector<std::atomic<int>> done(1000);
    ParallelFor(threads, done.size(), [&](std::size_t i) { ++done[i]; });
    CHECK(std::all_of(done.begin(), done.end(), [](const auto& n) { return n == 1; }));
  }
}

TEST_CASE("a mapped file notices that its path leads to something else", "[mapped_file]") {
  const test::TempDir dir;
  test::WriteBytes(dir / "file", std::vector<std::byte>(10));
  const auto file = MappedFile::Open(dir / "file", AccessPattern::kRandom);
  REQUIRE(file.ok());
  CHECK(file->bytes().size() == 10);
  CHECK_FALSE(file->Changed());
  SECTION("another file under its name") {
    test::WriteBytes(dir / "other", std::vector<std::byte>(10));
    std::filesystem::rename(dir / "other", dir / "file");
    CHECK(file->Changed());
  }
  SECTION("another size") {
    std::filesystem::resize_file(dir / "file", 11);
    CHECK(file->Changed());
  }
  SECTION("nothing") {
    std::filesystem::remove(dir / "file");
    CHECK(file->Changed());
  }
}

/// What the kernel notes of the map of a file of this process (proc(5), VmFlags), or nothing.
std::string MapFlags(const std::filesystem::path& path) {
  std::ifstream maps("/proc/self/smaps");
  bool of_file = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.starts_with("VmFlags:") && of_file) return line + " ";
    if (line.find('-') < line.find(' ')) of_file = line.ends_with(path.string());
  }
  return {};
}

TEST_CASE("the kernel is told how a file is going to be read", "[mapped_file]") {
  const test::TempDir dir;
  const std::filesystem::path path = std::filesystem::canonical(dir.path()) / "file";
  test::WriteBytes(path, std::vector<std::byte>(10));
  const auto flags = [&path](AccessPattern pattern) {
    const auto file = MappedFile::Open(path, pattern);
    REQUIRE(file.ok());
    return MapFlags(path);
  };
  const std::string random = flags(AccessPattern::kRandom);
  if (random.empty()) return;  // a kernel without smaps
  CHECK(random.find(" rr ") != std::string::npos);
  CHECK(flags(AccessPattern::kSequential).find(" sr ") != std::string::npos);
  const std::string mixed = flags(AccessPattern::kMixed);
  CHECK_FALSE(mixed.empty());
  CHECK(mixed.find(" rr ") == std::string::npos);
  CHECK(mixed.find(" sr ") == std::string::npos);
}

TEST_CASE("a graph of several segments is read by its words", "[graph_file]") {
  const test::TempDir dir;
  test::FixtureFile fixture = test::SampleFile("a.bin");
  fixture.segment_words = 4;
  test::WriteFixture(dir.path(), fixture);
  const std::vector<std::byte> bytes = test::ReadBytes(dir / "a.bin");
  CHECK(static_cast<int>(bytes[0]) > 3);  // segments - 1
  auto mapped = MappedFile::Open(dir / "a.bin", AccessPattern::kRandom);
  REQUIRE(mapped.ok());
  const Result<GraphFile> graph = GraphFile::Open(std::move(mapped).value());
  INFO(graph.status().ToString());
  REQUIRE(graph.ok());
  CHECK(graph->node_count() == fixture.nodes.size());
  for (std::uint32_t n = 0; n < graph->node_count(); ++n) {
    const NodeWord node = NodeWord::Decode(LoadWord(graph->nodes() + n * kNodeWords));
    CHECK(node.tag == fixture.nodes[n].tag);
    REQUIRE(node.children_count == fixture.nodes[n].children.size());
    for (std::uint32_t c = 0; c < node.children_count; ++c) {
      const EdgeWord edge = EdgeWord::Decode(LoadWord(graph->edges() + node.children_index + c));
      CHECK(edge.label == fixture.nodes[n].children[c].label);
      CHECK(edge.node == fixture.nodes[n].children[c].target.node);
    }
  }
}

}  // namespace
}  // namespace millrace
