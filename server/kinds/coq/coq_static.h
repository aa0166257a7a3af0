// The named tables of Coq datasets, written directly from the index. docs/formats/tables.md
// describes them; client/coq/vocabulary.h reads them.
//
// Free functions, thread-safe.
#pragma once

#include <cstddef>
#include <vector>

#include "common/transport/convert/table_writer.h"
#include "server/kinds/coq/context_table.h"
#include "server/kinds/coq/coq_tables.h"
#include "server/source/source.h"

namespace millrace {

/// The tables of a plan. `contexts` may be null: then the columns and tables about contexts are
/// left out.
std::vector<SourceTableSpec> CoqTableSpecs(const CoqTables& tables, const ContextTable* contexts);

/// Writes one of these tables, given by its number. Reads the index about three times.
void WriteCoqTable(const CoqTables& tables, const ContextTable* contexts, std::size_t table,
                   TableWriter& out);

}  // namespace millrace
