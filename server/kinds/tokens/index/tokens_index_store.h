// Finds the index of a dataset of tokens, checks whether it still fits the files, and builds it if
// necessary. server/source/index_store.h says when an index fits, and what is read to build one.
// Headers are read, and the halves of pairs compared, before any file is hashed.
//
// Free functions, thread-safe.
#pragma once

#include <filesystem>
#include <memory>

#include "common/base/result.h"
#include "server/kinds/tokens/index/tokens_index.h"
#include "server/source/dataset_kind.h"
#include "server/source/index_store.h"

namespace millrace {

/// The index of a dataset's folder. DataLoss that names all bad files, unless options.skip_bad
/// leaves them out, and with each its other half; InvalidArgument if files have different types or
/// no token; NotFound, PermissionDenied or InvalidArgument for the folder or the place of the
/// index; Cancelled.
Result<std::shared_ptr<const TokensIndex>> OpenOrBuildTokensIndex(const std::filesystem::path& dir,
                                                                  const DatasetOpenOptions& options,
                                                                  IndexOutcome& outcome);

/// The index as it is, whether it fits or not. NotFound, with the command that builds it.
Result<std::shared_ptr<const TokensIndex>> FindTokensIndex(const std::filesystem::path& dir,
                                                           const DatasetOpenOptions& options);

/// Compares all files with their digests in the index. DataLoss that names each file that differs,
/// is gone, or is not in the index.
Status VerifyTokens(const std::filesystem::path& dir, const TokensIndex& index,
                    const DatasetOpenOptions& options);

}  // namespace millrace
