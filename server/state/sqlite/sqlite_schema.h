// The tables of a state file, and how files of earlier versions are brought to this one's.
//
// A state file says in `application_id` that it is one, and in `user_version` of which version.
// Files of version 1 have no application id. A newer program reads files of every older version; an
// older program refuses those of a newer one.
#pragma once

#include "common/base/result.h"
#include "server/state/sqlite/sqlite_database.h"

namespace millrace {

constexpr int kStateFileVersion = 2;
constexpr int kStateFileApplication = 0x4D495253;  // "MIRS"

/// The version of a file; 0 where it is empty. FailedPrecondition for another program's file, which
/// is named by a table of it, and for one of a newer version, naming both versions.
Result<int> StateFileVersion(SqliteDatabase& db);

/// Makes the tables of an empty file, or brings those of an older version up to date: wholly or not
/// at all. Gives the version that the file had.
Result<int> BringUpToDate(SqliteDatabase& db);

}  // namespace millrace
