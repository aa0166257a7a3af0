// Headers of .npy files (numpy.lib.format), versions 1 to 3.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/base/result.h"
#include "server/files/array_type.h"

namespace millrace {

/// An array in a file.
struct StoredArray {
  ArrayType type;
  std::uint64_t offset = 0;  // of the first value in the file
};

/// Reads the header of a .npy file. `file` is the whole file, of which only the header is read.
/// DataLoss with the error, without the file's name: it is not a .npy file; it has another version;
/// its values are big endian, in Fortran order, records, objects, complex numbers or of another
/// type that no array may have; it is a scalar; it is longer or shorter than its shape says.
Result<StoredArray> ReadNpyHeader(std::span<const std::byte> file);

/// The header of a .npy file of version 1 with this type. bfloat16 is written as uint16. The values
/// follow at once; the header's length is a multiple of 64. REQUIRES: CheckShape(type) is ok.
std::string MakeNpyHeader(const ArrayType& type);

/// numpy's name of a type, with the order of its bytes: "<u2", "|b1".
std::string NpyTypeText(DType dtype);

/// The type by which a .npy file holds values of `dtype`: uint16 for bfloat16, otherwise the same.
DType NpyDType(DType dtype);

}  // namespace millrace
