// Reads one file of records from start to end, for the index: checks both checksums of every
// record, and counts features.
//
// Free functions; thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "server/kinds/records/format/record_framing.h"
#include "server/kinds/records/index/records_index.h"

namespace millrace {

/// Whether a file holds records, by the last component of its name, large and small letters alike:
/// it contains `tfrecord`, or it ends with .tfrec or with a number of shards such as
/// -00003-of-00010. Copies (~, .tmp), indexes, checksums and texts with such names do not count.
bool IsRecordsFile(std::string_view last);

/// The journal of an import that has not ended. Files beside it are not a dataset yet.
inline constexpr std::string_view kUnfinishedImport = "import.unfinished.json";
/// Whether a file belongs to records, by its name: it holds records, or is the journal of an
/// import.
bool IsRecordsFileOrImport(std::string_view last);

/// Lists the files of a records dataset, by the bytes of their names. FailedPrecondition if an
/// import into it has not ended. Other errors as ListDataset.
Result<DatasetListing> ListRecords(const std::filesystem::path& dir);

struct ScannedRecords {
  RecordsFile file;
  std::vector<std::uint64_t> offsets;  // that an index keeps
};

/// Reads a file of the dataset in `dir`. `identity` is its own. Records whose data have a wrong
/// checksum are counted (RecordsFile::damage). DataLoss for any other damage: the message begins
/// with "at byte N: " if a place is known, and names the first fault. Cancelled. `progress` is
/// called with bytes.
Result<ScannedRecords> ScanRecords(const std::filesystem::path& dir, const std::string& name,
                                   const FileIdentity& identity, const std::stop_token& stop,
                                   const std::function<void(std::uint64_t)>& progress);

/// Describes the fault of a record: "record 2: checksum of the data".
std::string DescribeFault(std::uint64_t record, RecordFault fault);

}  // namespace millrace
