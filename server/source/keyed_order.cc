#include "server/source/keyed_order.h"

#include <span>

#include <fmt/core.h>

#include "common/base/hash.h"

namespace millrace {

OrderSeed DeriveSeed(const OrderSeed& seed, std::string_view purpose, std::uint64_t number) {
  if (!seed) return std::nullopt;
  const std::string text = fmt::format("{}/{}/{}", *seed, purpose, number);
  return Xxh3_64(std::as_bytes(std::span(text)));
}

}  // namespace millrace
