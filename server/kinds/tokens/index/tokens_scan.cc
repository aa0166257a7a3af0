#include "server/kinds/tokens/index/tokens_scan.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "common/base/hash.h"
#include "common/system/parallel.h"
#include "server/files/index_place.h"
#include "server/files/mapped_file.h"
#include "server/kinds/tokens/format/raw_header.h"
#include "server/kinds/tokens/format/sequence_index.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

/// A file is hashed, and its progress told, in pieces of this size.
constexpr std::uint64_t kHashedAtOnce = std::uint64_t{4} << 20;

bool HasEnding(std::string_view name, std::string_view ending) {
  return name.size() > ending.size() && name.ends_with(ending);
}

bool IsIdx(std::string_view last) { return HasEnding(last, ".idx"); }

/// Whether a file begins as an X.idx does.
bool BeginsAsSequenceIndex(const fs::path& path) {
  std::string begin(kSequenceIndexMark.size(), '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return in.gcount() == static_cast<std::streamsize>(begin.size()) && begin == kSequenceIndexMark;
}

/// Calls `read` with the bytes of a file, which are empty if it is. DataLoss if they cannot be
/// read, or are others by now.
template <class Read>
Status WithBytes(const fs::path& path, const FileIdentity& identity, const Read& read) {
  if (identity.size == 0) return read(std::span<const std::byte>());
  const Result<MappedFile> mapped = MappedFile::Open(path, AccessPattern::kSequential);
  if (!mapped.ok()) return mapped.status();
  if (!(mapped->identity() == identity)) return DataLoss("was changed while it was indexed");
  const Status status = read(mapped->bytes());
  // Where bytes were gone, zeros were read, so whatever was found is worthless.
  MILLRACE_RETURN_IF_ERROR(mapped->CheckIntact());
  return status;
}

Status ReadHeaderOf(std::span<const std::byte> bytes, TokensFile& file) {
  if (IsSequencesName(file.file.name)) {
    if (bytes.empty()) return DataLoss("is empty, expected an index of Megatron-LM");
    MILLRACE_ASSIGN_OR_RETURN(const SequenceCounts counts, ReadSequenceIndex(bytes));
    file.form = TokensForm::kSequences;
    file.dtype = counts.dtype;
    file.tokens = counts.tokens;
    file.sequences = counts.sequences;
    file.longest = counts.longest;
    return OkStatus();
  }
  MILLRACE_ASSIGN_OR_RETURN(const RawHeader header, ReadRawHeader(bytes));
  if (header.form == RawForm::kBare) return OkStatus();
  file.form = header.form == RawForm::kNpy ? TokensForm::kNpy : TokensForm::kLlmc;
  file.dtype = header.dtype;
  file.begin = header.begin;
  file.tokens = header.tokens;
  return OkStatus();
}

/// Compares the halves of pairs.
class Pairing {
 public:
  Pairing(const DatasetListing& listing, bool skip_bad, ReadTokenFiles& read)
      : listing_(listing), skip_bad_(skip_bad), read_(read) {
    for (std::size_t i = 0; i < listing.names.size(); ++i) numbers_.emplace(listing.names[i], i);
  }

  void Run() {
    for (std::size_t i = 0; i < read_.files.size(); ++i) FindHalf(i);
    for (std::size_t i = 0; i < read_.files.size(); ++i) CompareSizes(i);
    if (!skip_bad_) return;
    for (std::size_t i = 0; i < read_.files.size(); ++i) FollowHalf(i);
  }

 private:
  const std::string& NameOf(std::size_t number) const { return read_.files[number].file.name; }
  void Note(std::size_t number, std::string reason) {
    if (!read_.bad[number]) read_.bad[number] = BadFile{NameOf(number), std::move(reason)};
  }
  std::optional<std::size_t> HalfOf(std::size_t number) const {
    const auto found = numbers_.find(OtherHalf(NameOf(number)));
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
  }

  void FindHalf(std::size_t number) {
    if (HalfOf(number)) return;
    const std::string other = OtherHalf(NameOf(number));
    const bool unreadable = std::any_of(listing_.bad.begin(), listing_.bad.end(),
                                        [&](const BadFile& file) { return file.name == other; });
    if (unreadable) {
      if (skip_bad_) Note(number, fmt::format("its other half {} cannot be read", other));
      return;
    }
    Note(number, fmt::format("has no {} beside it: sequences of tokens need both; put it there, or "
                             "take this one away",
                             Escaped(other)));
  }

  void CompareSizes(std::size_t number) {
    const TokensFile& idx = read_.files[number];
    const std::optional<std::size_t> bin = HalfOf(number);
    if (idx.form != TokensForm::kSequences || read_.bad[number] || !bin) return;
    const std::uint64_t size = listing_.identities[*bin].size;
    const std::uint64_t expected = SequenceCounts{idx.dtype, 0, idx.tokens, 0}.bytes();
    if (size == expected) return;
    Note(*bin, fmt::format("has {} bytes, expected {} for the {} tokens of {} that {} says: it {}",
                           size, expected, idx.tokens, DTypeName(idx.dtype), Escaped(idx.file.name),
                           size < expected ? "is cut off" : "is too long"));
  }

  void FollowHalf(std::size_t number) {
    const std::optional<std::size_t> half = HalfOf(number);
    if (half && read_.bad[*half]) {
      Note(number, fmt::format("its other half {} is bad", Escaped(NameOf(*half))));
    }
  }

  const DatasetListing& listing_;
  const bool skip_bad_;
  ReadTokenFiles& read_;
  std::map<std::string_view, std::size_t> numbers_;
};

/// The file with the tokens whose type a file says.
std::string DataNameOf(const TokensFile& file) {
  return file.form == TokensForm::kSequences ? OtherHalf(file.file.name) : file.file.name;
}

}  // namespace

bool IsTokensFile(std::string_view last) {
  return !IsHidden(last) && (IsIdx(last) || IsBinFile(last) || HasEnding(last, ".npy"));
}

bool HasSequenceIndex(const fs::path& dir) {
  const Result<DatasetListing> listing = ListDataset(dir, IsIdx, "*.idx file");
  return listing.ok() &&
         std::any_of(listing->names.begin(), listing->names.end(),
                     [&dir](const std::string& name) { return BeginsAsSequenceIndex(dir / name); });
}

Result<DatasetListing> ListTokens(const fs::path& dir) {
  MILLRACE_ASSIGN_OR_RETURN(
      DatasetListing listing,
      ListDataset(dir, IsTokensFile, "file of tokens (*.bin with *.idx, *.bin, *.npy)"));
  const auto is_bad_idx = [](const BadFile& file) { return IsIdx(file.name); };
  if (std::any_of(listing.names.begin(), listing.names.end(), IsIdx) ||
      std::any_of(listing.bad.begin(), listing.bad.end(), is_bad_idx)) {
    DatasetListing pairs;
    for (std::size_t i = 0; i < listing.names.size(); ++i) {
      if (HasEnding(listing.names[i], ".npy")) continue;
      pairs.names.push_back(std::move(listing.names[i]));
      pairs.identities.push_back(listing.identities[i]);
    }
    std::erase_if(listing.bad, [](const BadFile& file) { return HasEnding(file.name, ".npy"); });
    pairs.bad = std::move(listing.bad);
    listing = std::move(pairs);
  }
  return OrderedByBytes(std::move(listing));
}

ReadTokenFiles ReadHeaders(const fs::path& dir, const DatasetListing& listing, bool skip_bad,
                           unsigned threads, const std::stop_token& stop) {
  ReadTokenFiles read;
  read.files.resize(listing.names.size());
  read.bad.resize(listing.names.size());
  bool pairs = std::any_of(listing.bad.begin(), listing.bad.end(),
                           [](const BadFile& file) { return IsIdx(file.name); });
  for (std::size_t i = 0; i < read.files.size(); ++i) {
    const FileIdentity& identity = listing.identities[i];
    read.files[i].file = {listing.names[i], identity.size, {}, identity};
    pairs = pairs || IsIdx(listing.names[i]);
  }
  ParallelFor(threads, read.files.size(), [&](std::size_t i) {
    TokensFile& file = read.files[i];
    if (stop.stop_requested()) return;
    if (pairs && !IsIdx(file.file.name)) {
      file.form = TokensForm::kPaired;
      return;
    }
    const Status status =
        WithBytes(dir / file.file.name, *file.file.identity,
                  [&file](std::span<const std::byte> bytes) { return ReadHeaderOf(bytes, file); });
    if (!status.ok()) read.bad[i] = BadFile{file.file.name, status.message()};
  });
  if (pairs && !stop.stop_requested()) Pairing(listing, skip_bad, read).Run();
  return read;
}

Status CheckTogether(const fs::path& dir, const ReadTokenFiles& read) {
  const TokensFile* typed = nullptr;
  bool any_token = false;
  bool any_file = false;
  for (std::size_t i = 0; i < read.files.size(); ++i) {
    const TokensFile& file = read.files[i];
    if (read.bad[i]) continue;
    any_file = true;
    any_token =
        any_token || file.tokens > 0 || (file.form == TokensForm::kBare && file.file.size > 0);
    if (!file.says_type()) continue;
    if (typed == nullptr) typed = &file;
    if (typed->dtype == file.dtype) continue;
    return InvalidArgument(fmt::format(
        "dataset {}: {} has tokens of {}, and {} of {}: expected one type in all files; give each "
        "type a folder of its own",
        dir.string(), Escaped(DataNameOf(*typed)), DTypeName(typed->dtype),
        Escaped(DataNameOf(file)), DTypeName(file.dtype)));
  }
  if (any_token || !any_file) return OkStatus();
  return InvalidArgument(
      fmt::format("dataset {}: its {} files have no token: expected at least one", dir.string(),
                  read.files.size()));
}

Result<Digest128> HashTokensFile(const fs::path& path, const FileIdentity& identity,
                                 const std::stop_token& stop,
                                 const std::function<void(std::uint64_t)>& progress) {
  Xxh3Stream hash;
  const auto hash_all = [&](std::span<const std::byte> rest) -> Status {
    while (!rest.empty()) {
      const std::size_t some = std::min<std::size_t>(kHashedAtOnce, rest.size());
      hash.Update(rest.first(some));
      rest = rest.subspan(some);
      if (progress) progress(some);
      MILLRACE_RETURN_IF_ERROR(CheckIndexStop(stop));
    }
    return OkStatus();
  };
  MILLRACE_RETURN_IF_ERROR(WithBytes(path, identity, hash_all));
  return hash.Finish();
}

}  // namespace millrace
