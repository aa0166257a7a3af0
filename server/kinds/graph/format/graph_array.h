// An array of an open graph dataset: where its values are, and how they are read.
//
// Values; thread-safe. The bytes belong to the dataset. They come from a file that somebody may
// overwrite at any moment, so each value is loaded once and has to be checked before it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "common/base/dtype.h"
#include "server/kinds/graph/format/graph_description.h"

namespace millrace {

/// Reads a value of a mapped file exactly once; it may be at any byte.
template <class T>
T LoadOnce(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  // The compiler has to take the value to come from here, so it cannot read the file again.
  __asm__("" : "+r"(value));
  return value;
}

struct GraphArray {
  std::string name;
  std::string file;  // name of the file, for messages
  ArrayType type;
  const std::byte* data = nullptr;  // nullptr if there are no values

  std::uint64_t rows() const { return type.shape[0]; }

  /// "indices.npy (array indices)"
  std::string Where() const { return file + " (array " + name + ")"; }

  /// The integer or bool at `place`; a negative integer wraps to more than 2^63. REQUIRES: the type
  /// is an integer or bool, of one dimension; place < rows().
  std::uint64_t NumberAt(std::uint64_t place) const {
    switch (type.dtype) {
      case DType::kUint8:
      case DType::kBool:
        return LoadOnce<std::uint8_t>(data + place);
      case DType::kInt8:
        return Widened(static_cast<std::int8_t>(LoadOnce<std::uint8_t>(data + place)));
      case DType::kUint16:
        return LoadOnce<std::uint16_t>(data + 2 * place);
      case DType::kInt16:
        return Widened(LoadOnce<std::int16_t>(data + 2 * place));
      case DType::kUint32:
        return LoadOnce<std::uint32_t>(data + 4 * place);
      case DType::kInt32:
        return Widened(LoadOnce<std::int32_t>(data + 4 * place));
      default:
        return LoadOnce<std::uint64_t>(data + 8 * place);
    }
  }

 private:
  static std::uint64_t Widened(std::int64_t value) { return static_cast<std::uint64_t>(value); }
};

}  // namespace millrace
