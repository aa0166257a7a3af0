// A source that a pipeline may write for a dataset of records, found by reading some of them.
//
// Free functions; thread-safe.
#pragma once

#include <string>

#include "server/kinds/records/records_dataset.h"

namespace millrace {

/// Lines for people: how many values the feature of each name has in some records, evenly from the
/// first to the last, and a `source:` that fits these. Features that fit no type are left out of
/// it, and named. Records that cannot be read are skipped; empty if no record can be read.
std::string SuggestSource(const RecordsDataset& dataset);

}  // namespace millrace
