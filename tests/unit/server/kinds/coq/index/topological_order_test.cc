#include <catch2/catch.hpp>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "server/files/dataset_files.h"
#include "server/kinds/coq/index/topological_order.h"

namespace millrace {
namespace {

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
            return NameLess(names[a], names[b]);
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

}  // namespace
}  // namespace millrace
