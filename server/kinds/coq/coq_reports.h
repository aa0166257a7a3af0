// Reports for people about the index of a Coq dataset.
//
// Pure functions.
#pragma once

#include <string>

#include "server/kinds/coq/index/dataset_index.h"
#include "server/kinds/coq/index/index_store.h"

namespace millrace {

/// The report of `millrace index`: the index, and how it was made.
std::string DescribeIndexing(const DatasetIndex& index, const CoqIndexOutcome& outcome);

/// The report of `millrace inspect DIR`: files, nodes, edges, definitions, proof states, tactics,
/// and what the index leaves out.
std::string DescribeContents(const DatasetIndex& index);

}  // namespace millrace
