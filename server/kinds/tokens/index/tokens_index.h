// The index of a dataset of tokens: its files, with their digests and what their headers say.
// docs/formats/tokens.md describes its file.
//
// Immutable; thread-safe. All of it is in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "server/files/indexed_files.h"

namespace millrace {

/// Every index of a dataset of tokens begins with this.
inline constexpr std::string_view kTokensIndexMagic = "MILLTOK\n";
inline constexpr std::uint32_t kTokensIndexVersion = 1;

/// The form of a file. Indexes have these numbers.
enum class TokensForm : std::uint8_t {
  kSequences = 0,  // X.idx
  kPaired = 1,     // X.bin beside it
  kBare = 2,       // numbers of a type that the file does not say
  kNpy = 3,
  kLlmc = 4,
};

/// A file, as it was indexed. Its form decides which members it has; others are 0.
struct TokensFile {
  IndexedFile file;
  TokensForm form = TokensForm::kBare;
  DType dtype = DType::kUint8;  // of kSequences, kNpy, kLlmc
  std::uint64_t begin = 0;      // byte of the first token: of kNpy, kLlmc
  std::uint64_t tokens = 0;     // of kSequences (in X.bin), kNpy, kLlmc
  std::uint64_t sequences = 0;  // of kSequences
  std::uint64_t longest = 0;    // tokens of the longest sequence: of kSequences

  /// Whether it says the type of its tokens, or, of kSequences, those of X.bin.
  bool says_type() const { return form != TokensForm::kBare && form != TokensForm::kPaired; }
};

/// Everything in an index.
struct TokensIndexContent {
  std::vector<TokensFile> files;  // by the bytes of their names
  std::vector<OmittedFile> left_out;
};

/// X.bin of the name of an X.idx, and the other way round. REQUIRES: the name has such an ending.
std::string OtherHalf(std::string_view name);
/// Whether a name is that of an X.idx.
bool IsSequencesName(std::string_view name);

class TokensIndex {
 public:
  /// A file with tokens, and the file that says where its sequences are.
  struct Data {
    std::uint32_t file = 0;                       // number in files()
    std::optional<std::uint32_t> sequences = {};  // of pairs
  };

  /// NotFound. DataLoss if the file is not an index, or damaged. Messages name the file.
  static Result<std::shared_ptr<const TokensIndex>> Open(const std::filesystem::path& path);
  /// The same of an index's bytes. Messages begin with "is ".
  static Result<std::shared_ptr<const TokensIndex>> Decode(std::span<const std::byte> bytes);
  static std::vector<std::byte> Encode(const TokensIndexContent& content);
  /// Writes an index, and replaces any file of the name `path` when it is complete and on disk.
  /// REQUIRES: nobody else writes this index.
  static Status Write(const std::filesystem::path& path, const TokensIndexContent& content);

  const std::vector<TokensFile>& files() const { return content_.files; }
  const std::vector<OmittedFile>& left_out() const { return content_.left_out; }
  /// Whether the identities of files were read on this host.
  bool same_host() const { return same_host_; }

  /// The files with tokens, by the bytes of their names. Pipelines number files by this.
  const std::vector<Data>& data() const { return data_; }
  const TokensFile& DataFile(std::size_t data) const { return files()[data_[data].file]; }
  /// Whether the files are X.bin with X.idx.
  bool is_pairs() const { return is_pairs_; }
  /// The type of tokens that all files have that say one; nullopt if none says one.
  std::optional<DType> dtype() const { return dtype_; }
  /// The number of a file that says the type. REQUIRES: dtype().has_value().
  std::uint32_t typed_file() const { return typed_file_; }
  /// Sequences of all X.idx.
  std::uint64_t sequences() const { return sequences_; }
  /// Tokens of all files that say how many they have; 0 of bare ones.
  std::uint64_t tokens() const { return tokens_; }
  std::uint64_t bytes() const { return bytes_; }
  /// Names, sizes and contents of all files, beginning with the name of the kind.
  Digest128 digest() const { return digest_; }

 private:
  TokensIndex() = default;
  /// Fills in what follows from the files. False if they do not fit together.
  bool Join();
  bool JoinFile(std::uint32_t number);
  bool JoinPair(std::uint32_t number);

  TokensIndexContent content_;
  bool same_host_ = false;
  std::vector<Data> data_;
  bool is_pairs_ = false;
  std::optional<DType> dtype_;
  std::uint32_t typed_file_ = 0;
  std::uint64_t sequences_ = 0;
  std::uint64_t tokens_ = 0;
  std::uint64_t bytes_ = 0;
  Digest128 digest_;
};

}  // namespace millrace
