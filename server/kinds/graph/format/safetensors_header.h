// Headers of safetensors files (https://github.com/huggingface/safetensors).
//
// Pure functions.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "common/base/result.h"
#include "server/files/npy_header.h"

namespace millrace {

/// The tensors of a safetensors file, by name. `file` is the whole file, of which only the header
/// is read. DataLoss with the error, without the file's name: the header is cut off or not JSON; a
/// tensor has a type that no array may have, or is outside the file, or its bytes do not fit its
/// shape; the tensors do not fill the file.
Result<std::map<std::string, StoredArray>> ReadSafetensorsHeader(std::span<const std::byte> file);

}  // namespace millrace
