// The tables of a state file, and the steps that bring files of earlier versions up to date.
//
// In a state file, `application_id` says that it is one, and `user_version` says which version it
// has. Files of version 1 have no application id. A newer program reads files of every older
// version. An older program refuses files of a newer version.
#pragma once

#include "common/base/result.h"
#include "server/state/sqlite/sqlite_database.h"

namespace millrace {

constexpr int kStateFileVersion = 2;
constexpr int kStateFileApplication = 0x4D495253;  // "MIRS"

/// The version of a file; 0 if it is empty. FailedPrecondition if the file belongs to another
/// program (the message names one of its tables), or has a newer version (the message names both
/// versions).
Result<int> StateFileVersion(SqliteDatabase& db);

/// Makes the tables of an empty file, or brings tables of an older version up to date, completely
/// or not at all. Returns the version that the file had.
Result<int> BringUpToDate(SqliteDatabase& db);

}  // namespace millrace
