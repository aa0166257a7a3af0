#include "server/plugin/reply/chance_key.h"

#include <iterator>

#include <fmt/format.h>

#include "common/base/hash.h"

namespace millrace {

ChanceKey MakeChanceKey(std::uint64_t seed, std::uint64_t epoch, std::uint64_t example,
                        std::string_view fingerprint) {
  fmt::memory_buffer text;
  fmt::format_to(std::back_inserter(text), "{}/{}/{}/{}", seed, epoch, example, fingerprint);
  const Digest128 digest = Xxh3(std::string_view(text.data(), text.size()));
  return {digest.low, digest.high};
}

}  // namespace millrace
