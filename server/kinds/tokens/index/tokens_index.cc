#include "server/kinds/tokens/index/tokens_index.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/base/hash.h"
#include "server/files/file_io.h"
#include "server/files/number_bytes.h"
#include "server/kinds/tokens/format/sequence_index.h"
#include "server/kinds/tokens/format/token_type.h"

namespace millrace {
namespace {

constexpr std::string_view kBinEnding = ".bin";
constexpr std::string_view kIdxEnding = ".idx";

/// Magic, version, size of the file, checksum of everything behind it.
constexpr std::size_t kTokensHeader = 8 + 4 + 8 + 8;
constexpr std::size_t kChecksumAt = 8 + 4 + 8;
/// A dataset has no more bytes than this.
constexpr std::uint64_t kMostDatasetBytes = std::uint64_t{1} << 62;

void PutNamed(std::vector<std::byte>& out, std::string_view text) {
  PutNumber(out, static_cast<std::uint32_t>(text.size()));
  PutText(out, text);
}

void PutIdentity(std::vector<std::byte>& out, const FileIdentity& identity) {
  PutNumber(out, identity.size);
  PutNumber(out, identity.inode);
  PutNumber(out, static_cast<std::uint64_t>(identity.modified_ns));
  PutNumber(out, static_cast<std::uint64_t>(identity.changed_ns));
}

/// Takes an index apart. After the first read beyond its end, all reads give 0.
class Taker {
 public:
  explicit Taker(std::span<const std::byte> bytes) : rest_(bytes) {}

  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }

  template <class T>
  T Number() {
    if (!Has(sizeof(T))) return 0;
    return TakeNumber<T>(rest_);
  }
  std::string Text(std::size_t size) { return Has(size) ? TakeText(rest_, size) : std::string(); }
  std::string Named() { return Text(Number<std::uint32_t>()); }
  Digest128 Digest() {
    const Result<Digest128> digest = Digest128::FromBytes(Text(16));
    return digest.ok() ? *digest : Digest128{};
  }
  FileIdentity Identity() {
    FileIdentity identity;
    identity.size = Number<std::uint64_t>();
    identity.inode = Number<std::uint64_t>();
    identity.modified_ns = static_cast<std::int64_t>(Number<std::uint64_t>());
    identity.changed_ns = static_cast<std::int64_t>(Number<std::uint64_t>());
    return identity;
  }

 private:
  bool Has(std::size_t bytes) {
    ok_ = ok_ && bytes <= rest_.size();
    return ok_;
  }

  std::span<const std::byte> rest_;
  bool ok_ = true;
};

void PutFile(std::vector<std::byte>& out, const TokensFile& file) {
  PutNamed(out, file.file.name);
  FileIdentity identity = file.file.identity.value_or(FileIdentity{});
  identity.size = file.file.size;
  PutIdentity(out, identity);
  PutText(out, file.file.digest.ToBytes());
  PutNumber(out, static_cast<std::uint8_t>(file.form));
  PutNumber(out, static_cast<std::uint8_t>(file.dtype));
  for (const std::uint64_t number : {file.begin, file.tokens, file.sequences, file.longest}) {
    PutNumber(out, number);
  }
}

TokensFile TakeFile(Taker& in, bool same_host) {
  TokensFile file;
  file.file.name = in.Named();
  const FileIdentity identity = in.Identity();
  file.file.size = identity.size;
  if (same_host) file.file.identity = identity;
  file.file.digest = in.Digest();
  file.form = static_cast<TokensForm>(in.Number<std::uint8_t>());
  file.dtype = static_cast<DType>(in.Number<std::uint8_t>());
  file.begin = in.Number<std::uint64_t>();
  file.tokens = in.Number<std::uint64_t>();
  file.sequences = in.Number<std::uint64_t>();
  file.longest = in.Number<std::uint64_t>();
  return file;
}

/// Whether what is said of a file can be so, by itself.
bool MayBe(const TokensFile& file) {
  const std::uint64_t size = file.file.size;
  if (file.file.name.empty() || file.form > TokensForm::kLlmc || !IsTokenType(file.dtype)) {
    return false;
  }
  const std::uint64_t width = DTypeSize(file.dtype);
  switch (file.form) {
    case TokensForm::kSequences:
      return IsSequencesName(file.file.name) && file.begin == 0 &&
             size >= SequencePlaces::kHeaderBytes &&
             file.sequences <=
                 (size - SequencePlaces::kHeaderBytes) / SequencePlaces::kBytesOfSequence &&
             file.longest <= file.tokens && file.tokens <= kMostDatasetBytes / width;
    case TokensForm::kPaired:
    case TokensForm::kBare:
      return file.begin == 0 && file.tokens == 0 && file.sequences == 0 && file.longest == 0;
    case TokensForm::kNpy:
    case TokensForm::kLlmc:
      return file.begin <= size && (size - file.begin) % width == 0 &&
             file.tokens == (size - file.begin) / width && file.sequences == 0 && file.longest == 0;
  }
  return false;
}

Status DamagedTokensIndex(std::string_view how) {
  return DataLoss(fmt::format("{}; build it again", how));
}

}  // namespace

bool IsSequencesName(std::string_view name) { return name.ends_with(kIdxEnding); }

std::string OtherHalf(std::string_view name) {
  const std::string_view stem = name.substr(0, name.size() - kIdxEnding.size());
  return fmt::format("{}{}", stem, IsSequencesName(name) ? kBinEnding : kIdxEnding);
}

std::vector<std::byte> TokensIndex::Encode(const TokensIndexContent& content) {
  std::vector<std::byte> out;
  PutText(out, kTokensIndexMagic);
  PutNumber(out, kTokensIndexVersion);
  PutNumber(out, std::uint64_t{0});  // size and checksum, see below
  PutNumber(out, std::uint64_t{0});
  PutText(out, HostId().ToBytes());
  PutNumber(out, static_cast<std::uint64_t>(content.files.size()));
  for (const TokensFile& file : content.files) PutFile(out, file);
  PutNumber(out, static_cast<std::uint64_t>(content.left_out.size()));
  for (const OmittedFile& file : content.left_out) {
    PutNamed(out, file.file.name);
    PutNamed(out, file.file.reason);
    PutNumber(out, static_cast<std::uint8_t>(file.identity ? 1 : 0));
    PutIdentity(out, file.identity.value_or(FileIdentity{}));
  }
  std::vector<std::byte> sizes;
  PutNumber(sizes, static_cast<std::uint64_t>(out.size()));
  PutNumber(sizes, Xxh3_64(std::span(out).subspan(kTokensHeader)));
  std::copy(sizes.begin(), sizes.end(), out.begin() + kChecksumAt - sizeof(std::uint64_t));
  return out;
}

Status TokensIndex::Write(const std::filesystem::path& path, const TokensIndexContent& content) {
  return WriteWholeFile(path, path.string() + ".tmp", Encode(content));
}

Result<std::shared_ptr<const TokensIndex>> TokensIndex::Open(const std::filesystem::path& path) {
  const std::string name = "index " + path.string();
  const Result<MappedFile> mapped = MappedFile::Open(path, AccessPattern::kSequential);
  if (!mapped.ok()) return mapped.status().WithContext(name);
  auto index = Decode(mapped->bytes());
  if (!index.ok()) return index.status().WithContext(name);
  MILLRACE_RETURN_IF_ERROR(mapped->CheckIntact().WithContext(name));
  return index;
}

Result<std::shared_ptr<const TokensIndex>> TokensIndex::Decode(std::span<const std::byte> bytes) {
  if (bytes.size() < kTokensHeader) return DamagedTokensIndex("is cut off");
  Taker in(bytes);
  if (in.Text(kTokensIndexMagic.size()) != kTokensIndexMagic) {
    return DamagedTokensIndex("is no index of tokens");
  }
  const auto version = in.Number<std::uint32_t>();
  if (version != kTokensIndexVersion) {
    return DamagedTokensIndex(
        fmt::format("has version {}, this build reads {}", version, kTokensIndexVersion));
  }
  const auto size = in.Number<std::uint64_t>();
  const auto checksum = in.Number<std::uint64_t>();
  if (size != bytes.size() || checksum != Xxh3_64(bytes.subspan(kTokensHeader))) {
    return DamagedTokensIndex("is damaged");
  }
  const std::shared_ptr<TokensIndex> index(new TokensIndex());
  index->same_host_ = in.Text(16) == HostId().ToBytes();
  const auto files = in.Number<std::uint64_t>();
  for (std::uint64_t i = 0; i < files && in.ok(); ++i) {
    index->content_.files.push_back(TakeFile(in, index->same_host_));
  }
  const auto left_out = in.Number<std::uint64_t>();
  for (std::uint64_t i = 0; i < left_out && in.ok(); ++i) {
    OmittedFile& file = index->content_.left_out.emplace_back();
    file.file.name = in.Named();
    file.file.reason = in.Named();
    const bool known = in.Number<std::uint8_t>() != 0;
    const FileIdentity identity = in.Identity();
    if (known && index->same_host_) file.identity = identity;
  }
  if (!in.ok() || !in.at_end() || !index->Join()) return DamagedTokensIndex("is damaged");
  return std::shared_ptr<const TokensIndex>(index);
}

bool TokensIndex::Join() {
  for (std::size_t i = 0; i < files().size(); ++i) {
    const TokensFile& file = files()[i];
    if (!MayBe(file) || (i > 0 && files()[i - 1].file.name >= file.file.name)) return false;
    // So no sum of sizes, and of what is less, overflows.
    if (file.file.size > kMostDatasetBytes - bytes_) return false;
    bytes_ += file.file.size;
    is_pairs_ = is_pairs_ || file.form == TokensForm::kSequences;
  }
  for (std::uint32_t i = 0; i < files().size(); ++i) {
    if (!JoinFile(i)) return false;
  }
  // Every X.bin has found its X.idx; nor is there another X.idx.
  if (is_pairs_ && 2 * data_.size() != files().size()) return false;
  std::vector<IndexedFile> indexed;
  for (const TokensFile& file : files()) indexed.push_back(file.file);
  digest_ = DigestOfFiles("tokens\n", indexed);
  return true;
}

bool TokensIndex::JoinFile(std::uint32_t number) {
  const TokensFile& file = files()[number];
  const bool paired = file.form == TokensForm::kSequences || file.form == TokensForm::kPaired;
  if (paired != is_pairs_) return false;
  if (file.says_type()) {
    if (dtype_.value_or(file.dtype) != file.dtype) return false;
    if (!dtype_) typed_file_ = number;
    dtype_ = file.dtype;
    tokens_ += file.tokens;
    sequences_ += file.sequences;
  }
  if (file.form == TokensForm::kSequences) return true;
  data_.push_back({number, std::nullopt});
  return !is_pairs_ || JoinPair(number);
}

bool TokensIndex::JoinPair(std::uint32_t number) {
  const TokensFile& bin = files()[number];
  if (!bin.file.name.ends_with(kBinEnding)) return false;
  const std::string other = OtherHalf(bin.file.name);
  const auto idx = std::lower_bound(
      files().begin(), files().end(), other,
      [](const TokensFile& file, const std::string& name) { return file.file.name < name; });
  if (idx == files().end() || idx->file.name != other) return false;
  data_.back().sequences = static_cast<std::uint32_t>(idx - files().begin());
  return bin.file.size == idx->tokens * DTypeSize(idx->dtype);
}

}  // namespace millrace
