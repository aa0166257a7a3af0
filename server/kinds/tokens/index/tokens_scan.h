// The files of a folder of tokens: which count, and what their headers say.
//
// Free functions; thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "server/kinds/tokens/index/tokens_index.h"

namespace millrace {

/// Whether a file may hold tokens, or say where they are, by the last component of its name: *.idx,
/// *.bin, *.npy.
bool IsTokensFile(std::string_view last);

/// Whether a folder has an *.idx, at any depth, that begins with MMIDIDX.
bool HasSequenceIndex(const std::filesystem::path& dir);

/// The files of a folder of tokens, by the bytes of their names. As soon as there is an *.idx, no
/// *.npy counts. Errors as ListDataset.
Result<DatasetListing> ListTokens(const std::filesystem::path& dir);

/// Files as their headers are, and why some cannot be used.
struct ReadTokenFiles {
  std::vector<TokensFile> files;            // without digests
  std::vector<std::optional<BadFile>> bad;  // of each file
};

/// Reads the headers of the listed files, and every X.idx whole, and compares each X.bin with its
/// X.idx. `skip_bad`: a file whose other half is bad is bad too.
ReadTokenFiles ReadHeaders(const std::filesystem::path& dir, const DatasetListing& listing,
                           bool skip_bad, unsigned threads, const std::stop_token& stop);

/// InvalidArgument if two files that are not bad have tokens of different types, or none of them
/// has a token. OK if all are bad.
Status CheckTogether(const std::filesystem::path& dir, const ReadTokenFiles& read);

/// The digest of a file with this identity. DataLoss if it cannot be read, or is another one by
/// now; Cancelled. `progress` is called with bytes.
Result<Digest128> HashTokensFile(const std::filesystem::path& path, const FileIdentity& identity,
                                 const std::stop_token& stop,
                                 const std::function<void(std::uint64_t)>& progress);

}  // namespace millrace
