// Named tables as they travel: their descriptions in a spec, and their values in static data.
//
// Free functions; thread-safe.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/tables.h"
#include "millrace/v1/common.pb.h"

namespace millrace {

/// The format of v1::Static that this program writes and reads.
inline constexpr std::uint32_t kStaticFormat = 2;

void ToProto(const TableSpec& table, v1::TableSpec* to);
/// The tables of a spec. DataLoss for names that are not allowed or occur twice; Unimplemented for
/// a type of column that this program does not know.
Result<std::vector<TableSpec>> TablesOf(const v1::Spec& spec);

/// Reads a serialized v1::Static from an untrusted sender. DataLoss, which names table and column,
/// if the bytes are no such message or contradict each other. Unimplemented for another format.
Result<NamedTables> DecodeTables(std::string_view bytes);

/// Reads one serialized v1::Table. Errors as for DecodeTables.
Result<NamedTable> DecodeTable(std::string_view bytes);

/// DataLoss, which names the first difference, if `tables` differ from the spec's tables.
Status CheckTables(const NamedTables& tables, const std::vector<TableSpec>& specs);

}  // namespace millrace
