// Columns behind the interfaces that dispatcher and workers use.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/transport/stream.h"
#include "millrace/v1/dispatcher.pb.h"
#include "server/dispatcher/machine/column_facts.h"
#include "server/dispatcher/service/column_keeper.h"
#include "server/plan/columns/fetched_columns.h"
#include "server/plan/columns/kept_columns.h"
#include "server/plan/plan_library.h"
#include "server/worker/service/worker_service.h"

namespace millrace {

/// A dispatcher's keeper. Thread-safe.
std::shared_ptr<ColumnKeeper> MakeColumnKeeper(std::shared_ptr<KeptColumns> columns);

/// The first columns that a pipeline lacks, and their measured ranges; nullopt if it lacks no
/// columns. From then on they are being measured.
std::optional<ColumnWant> FindMissingColumns(PlanLibrary& library, const Pipeline& pipeline,
                                             KeptColumns& columns);
/// The columns that a pipeline lacks at a worker, which measures nothing by itself.
std::optional<v1::ColumnSet> FindUnfetchedColumns(PlanLibrary& library, const Pipeline& pipeline);
/// Begins to measure the columns of a set that are not kept yet, and returns their measured ranges;
/// nullopt if all are kept. `folders`: where they are kept. InvalidArgument if a digest cannot be
/// read.
Result<std::optional<ColumnWant>> BeginColumns(v1::ColumnSet set,
                                               std::vector<std::filesystem::path> folders,
                                               KeptColumns& columns);

/// Measures columns with the library's own source of examples. FailedPrecondition if it has no such
/// source; Unavailable if its dataset is being opened.
Result<std::unique_ptr<RangeMeasurer>> MakeRangeMeasurer(PlanLibrary& library,
                                                         const Pipeline& pipeline,
                                                         const v1::ColumnSet& set);

/// Fetches columns from the dispatcher at `addresses`: host:port, or several with commas between
/// them. `connector` belongs to the result. `stop` ends a fetch with Cancelled.
FetchedColumns::Fetch FetchFrom(std::shared_ptr<Connector> connector, std::string addresses,
                                std::stop_token stop = {});

}  // namespace millrace
