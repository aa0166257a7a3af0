#include "server/kinds/tokens/format/token_copy.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "server/kinds/tokens/format/token_type.h"

namespace millrace {
namespace {

/// Loops over so many values have no branch and are vectorised.
constexpr std::size_t kBlock = 64;

/// Calls `use` with a value of the type.
template <class Use>
auto OfTokenType(DType dtype, const Use& use) {
  switch (dtype) {
    case DType::kInt8:
      return use(std::int8_t{});
    case DType::kUint16:
      return use(std::uint16_t{});
    case DType::kInt16:
      return use(std::int16_t{});
    case DType::kUint32:
      return use(std::uint32_t{});
    case DType::kInt32:
      return use(std::int32_t{});
    case DType::kInt64:
      return use(std::int64_t{});
    default:
      return use(std::uint8_t{});
  }
}

/// Copies at most kBlock values. A negative one is wrong as well: without its sign it is larger.
template <class From, class To>
std::optional<WrongToken> CopyBlock(const std::byte* from, std::size_t count,
                                    std::make_unsigned_t<From> largest, std::byte* to) {
  using Unsigned = std::make_unsigned_t<From>;
  Unsigned values[kBlock];
  To copies[kBlock];
  std::memcpy(values, from, count * sizeof(From));
  std::fill(values + count, values + kBlock, Unsigned{0});
  Unsigned wrong = 0;
  for (std::size_t i = 0; i < kBlock; ++i) {
    wrong |= static_cast<Unsigned>(values[i] > largest ? 1 : 0);
    copies[i] = static_cast<To>(values[i]);
  }
  std::memcpy(to, copies, count * sizeof(To));
  if (wrong == 0) return std::nullopt;
  const Unsigned* const first =
      std::find_if(values, values + count, [largest](Unsigned value) { return value > largest; });
  return WrongToken{static_cast<std::uint64_t>(first - values),
                    static_cast<std::int64_t>(static_cast<From>(*first))};
}

template <class From, class To>
std::optional<WrongToken> CopyAll(std::span<const std::byte> from, std::uint64_t largest,
                                  std::byte* to) {
  using Unsigned = std::make_unsigned_t<From>;
  if (largest >= std::numeric_limits<Unsigned>::max()) {
    // Every value is a token.
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
    return std::nullopt;
  }
  const std::size_t count = from.size() / sizeof(From);
  for (std::size_t at = 0; at < count; at += kBlock) {
    std::optional<WrongToken> wrong =
        CopyBlock<From, To>(from.data() + at * sizeof(From), std::min(kBlock, count - at),
                            static_cast<Unsigned>(largest), to + at * sizeof(To));
    if (wrong) {
      wrong->place += at;
      return wrong;
    }
  }
  return std::nullopt;
}

template <class T>
void FindAll(std::span<const std::byte> from, T token, std::vector<std::uint32_t>& places) {
  const std::size_t count = from.size() / sizeof(T);
  for (std::size_t at = 0; at < count; at += kBlock) {
    const std::size_t some = std::min(kBlock, count - at);
    T values[kBlock];
    std::memcpy(values, from.data() + at * sizeof(T), some * sizeof(T));
    std::fill(values + some, values + kBlock, static_cast<T>(~token));
    T found = 0;
    for (std::size_t i = 0; i < kBlock; ++i) found |= static_cast<T>(values[i] == token ? 1 : 0);
    if (found == 0) continue;
    for (std::size_t i = 0; i < some; ++i) {
      if (values[i] == token) places.push_back(static_cast<std::uint32_t>(at + i));
    }
  }
}

}  // namespace

std::optional<WrongToken> CopyTokens(DType dtype, std::span<const std::byte> from,
                                     std::uint64_t largest, std::byte* to) {
  return OfTokenType(dtype, [&](auto value) {
    using From = decltype(value);
    using To =
        std::conditional_t<sizeof(From) == 1, std::uint8_t,
                           std::conditional_t<sizeof(From) == 2, std::uint16_t, std::uint32_t>>;
    return CopyAll<From, To>(from, largest, to);
  });
}

void FindTokens(DType dtype, std::span<const std::byte> from, std::uint64_t token,
                std::vector<std::uint32_t>& places) {
  OfTokenType(dtype, [&](auto value) {
    // Tokens are never negative, so their bits say all.
    using Unsigned = std::make_unsigned_t<decltype(value)>;
    FindAll<Unsigned>(from, static_cast<Unsigned>(token), places);
  });
}

std::int64_t TokenAt(DType dtype, std::span<const std::byte> from) {
  return OfTokenType(dtype, [&](auto value) {
    std::memcpy(&value, from.data(), sizeof(value));
    return static_cast<std::int64_t>(value);
  });
}

}  // namespace millrace
