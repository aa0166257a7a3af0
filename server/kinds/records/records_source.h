// The source of datasets of records: `source: {records: {name: type, …}}`, one example per record.
#pragma once

#include "common/batch/layout/layout.h"
#include "server/source/source_table.h"

namespace millrace {

/// A record does not fit the features, and `on_error: drop` is set.
inline constexpr DropReason kBadRecord{1};

SourceTable RecordsSources();

}  // namespace millrace
