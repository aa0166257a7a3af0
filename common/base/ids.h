// Strong types for numbers that must not be mixed up, and the two digests that identify a plan.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace millrace {

/// An integer with one meaning, so that an ExampleId cannot be used as a FileId. `Tag` is never
/// defined.
template <class Tag, class Rep>
class StrongId {
 public:
  using rep = Rep;
  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }
  friend constexpr auto operator<=>(const StrongId&, const StrongId&) = default;

 private:
  Rep value_ = 0;
};

/// A file of a dataset, numbered in topological order from 0.
using FileId = StrongId<struct FileIdTag, std::uint32_t>;
/// An example of a source, numbered from 0 in the order in which the source lists its examples.
using ExampleId = StrongId<struct ExampleIdTag, std::uint64_t>;

/// A number that a dispatcher has issued, for a session, a worker or anything else. It is never
/// used twice. Numbers are ordered, and a later one is higher. Only code that treats all of them
/// alike uses it; other code uses a SessionId or a WorkerId.
struct Number {
  std::uint64_t term = 0;
  std::uint64_t n = 0;
  friend constexpr auto operator<=>(const Number&, const Number&) = default;
  constexpr bool is_set() const { return term != 0 || n != 0; }
  /// "term.n"
  std::string ToString() const;
};

/// A Number with one meaning, so that a SessionId cannot be used as a WorkerId. `Tag` is never
/// defined.
template <class Tag>
class IssuedId {
 public:
  constexpr IssuedId() = default;
  constexpr explicit IssuedId(Number number) : number_(number) {}
  constexpr Number number() const { return number_; }
  friend constexpr auto operator<=>(const IssuedId&, const IssuedId&) = default;
  constexpr bool is_set() const { return number_.is_set(); }
  /// "term.n"
  std::string ToString() const { return number_.ToString(); }

 private:
  Number number_;
};

/// The number of a session.
using SessionId = IssuedId<struct SessionIdTag>;
/// The number of a worker.
using WorkerId = IssuedId<struct WorkerIdTag>;

/// 128 bits of XXH3 (https://github.com/Cyan4973/xxHash). Written as 32 hex digits, the high half
/// first.
struct Digest128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend constexpr auto operator<=>(const Digest128&, const Digest128&) = default;
  bool is_set() const { return high != 0 || low != 0; }
  std::string ToHex() const;
  /// InvalidArgument unless `hex` is 32 lower-case hex digits.
  static Result<Digest128> FromHex(std::string_view hex);
  /// 16 bytes, big endian: the form on the wire and in files.
  std::string ToBytes() const;
  static Result<Digest128> FromBytes(std::string_view bytes);
};

/// Identifies a plan by its data and its pipeline. Equal fingerprints give equal batches.
struct Fingerprint {
  Digest128 dataset;
  Digest128 pipeline;
  friend constexpr auto operator<=>(const Fingerprint&, const Fingerprint&) = default;
  /// "<dataset hex>-<pipeline hex>"
  std::string ToString() const;
  static Result<Fingerprint> FromString(std::string_view text);
};

}  // namespace millrace

template <class Tag, class Rep>
struct std::hash<millrace::StrongId<Tag, Rep>> {
  std::size_t operator()(const millrace::StrongId<Tag, Rep>& id) const {
    return std::hash<Rep>()(id.value());
  }
};
template <class Tag>
struct std::hash<millrace::IssuedId<Tag>> {
  std::size_t operator()(const millrace::IssuedId<Tag>& id) const {
    return static_cast<std::size_t>(id.number().term * 0x9E3779B97F4A7C15u + id.number().n);
  }
};
