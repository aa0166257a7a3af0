// The static data of a plan: its source's tables in serialized form (v1::Static).
//
// Free functions, thread-safe.
#pragma once

#include <string>
#include <vector>

#include "common/base/tables.h"

namespace millrace {

class Source;

/// The bytes of the tables. They are always the same. Takes about 0.1 s for a million labels.
std::string MakeStaticBytes(const Source& source);

struct StaticOutline {
  std::string digest;             // of the bytes, 32 hex digits
  std::vector<TableSpec> tables;  // with their digests
};

/// The facts of the tables without their bytes. Takes as long as MakeStaticBytes, but keeps no
/// bytes.
StaticOutline OutlineStatic(const Source& source);

}  // namespace millrace
