// The tables of a source, with their values.
//
// Free functions, thread-safe.
#pragma once

#include <cstddef>
#include <string>

#include "common/base/result.h"
#include "common/base/tables.h"
#include "server/source/source.h"

namespace millrace {

/// A table as it is served: a serialized v1::Table. REQUIRES: `spec` is the spec of the table.
std::string TableBytes(const Source& source, const TableSpec& spec, std::size_t table);

/// The values of a table. DataLoss if it is too large to be served.
Result<NamedTable> ReadSourceTable(const Source& source, const TableSpec& spec, std::size_t table);

}  // namespace millrace
