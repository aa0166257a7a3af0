#include "server/files/indexed_files.h"

#include <utility>

#include <fmt/format.h>

#include "common/base/hash.h"

namespace millrace {

Digest128 DigestOfFiles(std::string_view first, std::span<const IndexedFile> files) {
  Xxh3Stream stream;
  const auto add = [&stream](const void* data, std::size_t size) {
    stream.Update({static_cast<const std::byte*>(data), size});
  };
  add(first.data(), first.size());
  for (const IndexedFile& file : files) {
    const auto name_bytes = static_cast<std::uint32_t>(file.name.size());
    const std::string digest = file.digest.ToBytes();
    add(&name_bytes, sizeof(name_bytes));
    add(file.name.data(), name_bytes);
    add(&file.size, sizeof(file.size));
    add(digest.data(), digest.size());
  }
  return stream.Finish();
}

std::string DifferenceFromIndex(const std::filesystem::path& path, std::uint64_t size,
                                const Digest128& digest) {
  const Result<FileIdentity> identity = IdentifyFile(path);
  if (!identity.ok()) return identity.status().message();
  if (identity->size != size) {
    return fmt::format("has {} bytes, expected {}", identity->size, size);
  }
  if (size == 0) return {};  // and cannot be mapped
  const Result<MappedFile> file = MappedFile::Open(path, AccessPattern::kSequential);
  if (!file.ok()) return file.status().message();
  const Digest128 found = Xxh3(file->bytes());
  if (const Status intact = file->CheckIntact(); !intact.ok()) return intact.message();
  if (found == digest) return {};
  return fmt::format("has digest {}, expected {}", found.ToHex(), digest.ToHex());
}

IndexedFiles::IndexedFiles(std::filesystem::path dir, std::vector<IndexedFile> files,
                           std::shared_ptr<const MappedFile> index)
    : dir_(std::move(dir)),
      files_(std::move(files)),
      index_(std::move(index)),
      index_digest_(index_ != nullptr ? Xxh3(index_->bytes()) : Digest128{}),
      open_(std::make_unique<std::atomic<const MappedFile*>[]>(files_.size())) {}

IndexedFiles::~IndexedFiles() = default;

Result<const MappedFile*> IndexedFiles::OpenNow(std::uint32_t file) const {
  auto mapped = Map(files_[file]);
  if (!mapped.ok()) {
    // If a file of the index cannot be opened, for whatever reason, it is not the file that was
    // indexed.
    const Status& why = mapped.status();
    const bool full = why.code() == StatusCode::kResourceExhausted;
    if (!full) NoteDamage(file, why.message());
    return Status(
        full ? why.code() : StatusCode::kDataLoss,
        fmt::format("file {} of dataset {}: {}", files_[file].name, dir_.string(), why.message()));
  }
  MutexLock lock(mutex_);
  // If two threads have opened the same file, the first one's map is kept.
  const auto [kept, added] = mapped_.try_emplace(file, *std::move(mapped));
  if (added) open_[file].store(kept->second.get(), std::memory_order_release);
  return kept->second.get();
}

Result<std::unique_ptr<const MappedFile>> IndexedFiles::Map(const IndexedFile& file) const {
  MILLRACE_ASSIGN_OR_RETURN(MappedFile mapped,
                            MappedFile::Open(dir_ / file.name, AccessPattern::kRandom));
  FileIdentity found = mapped.identity();
  if (found.size != file.size) {
    return DataLoss(
        fmt::format("has {} bytes, expected {}; index the dataset again", found.size, file.size));
  }
  if (file.identity) found.device = file.identity->device;  // which a mount may change
  if (!file.identity || found != *file.identity) {
    const Digest128 digest = Xxh3(mapped.bytes());
    if (digest != file.digest) {
      return DataLoss(fmt::format("has digest {}, expected {}; index the dataset again",
                                  digest.ToHex(), file.digest.ToHex()));
    }
  }
  return std::make_unique<const MappedFile>(std::move(mapped));
}

std::string IndexedFiles::NameOf(std::uint32_t number) const {
  if (number == DamagedFile::kIndex) return index_->path().string();
  return files_[number].name;
}

FileWatch::Files IndexedFiles::MappedNow() const {
  Files files;
  if (index_ != nullptr) files.emplace(DamagedFile::kIndex, index_.get());
  MutexLock lock(mutex_);
  for (const auto& [number, file] : mapped_) files.emplace(number, file.get());
  return files;
}

Status IndexedFiles::CompareBytes(std::uint32_t number, const MappedFile& file,
                                  const std::stop_token& stop) const {
  const Digest128& expected = number == DamagedFile::kIndex ? index_digest_ : files_[number].digest;
  return HashesTo(expected, file, stop);
}

}  // namespace millrace
