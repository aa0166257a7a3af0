// The source of a dataset of tokens: every document is an example.
//
// Free function; thread-safe.
#pragma once

#include "server/source/source_table.h"

namespace millrace {

SourceTable TokensSources();

}  // namespace millrace
