#include "server/plugin/reply/chance_key.h"

#include <iterator>

#include <fmt/format.h>

#include "common/base/hash.h"

namespace millrace {
namespace {

ChanceKey KeyOf(const fmt::memory_buffer& text) {
  const Digest128 digest = Xxh3(std::string_view(text.data(), text.size()));
  return {digest.low, digest.high};
}

}  // namespace

ChanceKey MakeChanceKey(const ChanceOrigin& origin, std::uint64_t epoch, std::uint64_t example,
                        std::optional<std::uint64_t> chunk) {
  fmt::memory_buffer text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "{}/{}/{}/{}", origin.seed, epoch, example, origin.fingerprint);
  if (!origin.tensor.empty()) fmt::format_to(out, "/{}/", origin.tensor);
  if (!origin.tensor.empty() && chunk) fmt::format_to(out, "{}", *chunk);
  return KeyOf(text);
}

ChanceKey MakeSeed(const ChanceKey& key, std::string_view generator) {
  fmt::memory_buffer text;
  fmt::format_to(std::back_inserter(text), "{:016x}{:016x}/{}", key.high, key.low, generator);
  return KeyOf(text);
}

}  // namespace millrace
