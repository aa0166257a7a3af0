#include <catch2/catch.hpp>

#include <cstdint>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "server/plan/pack/pack_options.h"
#include "server/plan/pack/pack_windows.h"

namespace millrace::test {
namespace {

TEST_CASE("windows have all documents, in sizes that differ by one at most", "[pack]") {
  rc::prop("for few documents", [] {
    const auto n = *rc::gen::inRange<std::uint64_t>(0, 300);
    const auto window = *rc::gen::inRange<std::uint64_t>(1, 40);
    const PackWindows windows(n, window);
    RC_ASSERT(windows.size() == (n + window - 1) / window);
    RC_ASSERT(windows.Begin(0) == 0u);
    RC_ASSERT(windows.Begin(windows.size()) == n);
    for (std::uint64_t w = 0; w < windows.size(); ++w) {
      RC_ASSERT(windows.Begin(w) == w * n / windows.size());
      const std::uint64_t size = windows.Begin(w + 1) - windows.Begin(w);
      RC_ASSERT(size <= window);
      RC_ASSERT(size == n / windows.size() || size == n / windows.size() + 1);
      for (std::uint64_t i = 0; i < size; ++i) RC_ASSERT(windows.Of(windows.Begin(w) + i) == w);
    }
  });
}

TEST_CASE("bounds of windows do not wrap", "[pack]") {
  rc::prop("for as many documents as there may be", [] {
    const std::uint64_t n = kMaxPackDocuments - *rc::gen::inRange<std::uint64_t>(0, 100'000);
    const auto window = *rc::gen::oneOf(rc::gen::inRange<std::uint64_t>(1, 100),
                                        rc::gen::inRange<std::uint64_t>(1, kMaxPackWindow + 1));
    const PackWindows windows(n, window);
    RC_ASSERT(windows.Begin(windows.size()) == n);
    const auto w = *rc::gen::oneOf(rc::gen::inRange<std::uint64_t>(0, windows.size()),
                                   rc::gen::just(windows.size() - 1));
    const std::uint64_t begin = windows.Begin(w);
    const std::uint64_t end = windows.Begin(w + 1);
    RC_ASSERT(end > begin);
    RC_ASSERT(end - begin <= window);
    RC_ASSERT(windows.Of(begin) == w);
    RC_ASSERT(windows.Of(end - 1) == w);
  });
}

}  // namespace
}  // namespace millrace::test
