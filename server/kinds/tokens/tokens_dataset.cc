#include "server/kinds/tokens/tokens_dataset.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "server/files/index_place.h"
#include "server/source/column_file.h"

namespace millrace {
namespace {

std::vector<IndexedFile> IndexedFilesOf(const TokensIndex& index) {
  std::vector<IndexedFile> files;
  for (const TokensFile& file : index.files()) files.push_back(file.file);
  return files;
}

}  // namespace

TokensDataset::TokensDataset(std::filesystem::path dir, std::shared_ptr<const TokensIndex> index,
                             const DatasetOpenOptions& options)
    : dir_(std::move(dir)),
      index_(std::move(index)),
      files_(dir_, IndexedFilesOf(*index_), nullptr),
      column_folders_(ColumnFolders(dir_, options.index_file, options.cache_dir)),
      threads_(options.threads),
      stop_(options.stop),
      logger_(options.logger != nullptr ? options.logger : MakeNullLogger()) {}

std::uint64_t TokensDataset::examples() const {
  if (index_->is_pairs()) return index_->sequences();
  std::uint64_t files = 0;
  for (std::size_t f = 0; f < index_->data().size(); ++f) {
    const TokensFile& file = index_->DataFile(f);
    const bool empty = file.says_type() ? file.tokens == 0 : file.file.size == 0;
    files += empty ? 0 : 1;
  }
  return files;
}

std::vector<DatasetFile> TokensDataset::Files() const {
  std::vector<DatasetFile> files;
  for (const TokensFile& file : index_->files()) {
    files.push_back({file.file.name, file.file.size, file.file.digest});
  }
  return files;
}

std::vector<BadFile> TokensDataset::LeftOut(std::size_t most) const {
  std::vector<BadFile> files;
  for (const OmittedFile& file : index_->left_out()) {
    if (files.size() == most) break;
    files.push_back(file.file);
  }
  return files;
}

Result<SequencePlaces> TokensDataset::OpenSequences(std::size_t data) const {
  const std::uint32_t file = *index_->data()[data].sequences;
  MILLRACE_ASSIGN_OR_RETURN(const MappedFile* const mapped, files_.Open(file));
  return SequencePlaces(mapped->bytes(), index_->files()[file].sequences);
}

Status TokensDataset::Damaged(std::size_t data, std::string_view what) const {
  const std::uint32_t file = index_->data()[data].file;
  files_.NoteDamage(file, std::string(what));
  return DataLoss(fmt::format("dataset {}: file {}: {}; it was written to while it was in use",
                              dir_.string(), index_->files()[file].file.name, what));
}

Status TokensDataset::DamagedSequences(std::size_t data, std::string_view what) const {
  const std::uint32_t file = *index_->data()[data].sequences;
  files_.NoteDamage(file, std::string(what));
  return DataLoss(fmt::format("dataset {}: file {}: {}; it was written to while it was in use",
                              dir_.string(), index_->files()[file].file.name, what));
}

Result<std::shared_ptr<const MarkedDocuments>> TokensDataset::FindMarked(
    const DocumentMark& mark, const RawLayout& layout,
    std::span<const std::string> excluded) const {
  MutexLock one_finds(finding_);
  std::weak_ptr<const MarkedDocuments>& known = marked_[{mark.ends, mark.token, layout.dtype}];
  if (auto documents = known.lock()) return documents;
  const ColumnKey key = MarkedColumn(digest(), mark, layout.dtype);
  for (const std::filesystem::path& folder : column_folders_) {
    Result<MeasuredValues> kept = ReadColumn(folder, key);
    if (kept.status().code() == StatusCode::kNotFound) continue;
    Status status = kept.status();
    if (kept.ok()) {
      auto documents = MarkedDocuments::Make(*std::move(kept), layout);
      if (documents.ok()) {
        known = *documents;
        return documents;
      }
      status = documents.status();
    }
    logger_->Warning("the lengths of documents cannot be read; they are found again",
                     {{"dataset", dir_.string()}, {"why", status}});
  }
  if (!excluded.empty()) {
    return FailedPrecondition(fmt::format(
        "exclude.files: the documents of dataset {} by {}: {} were not found while these files "
        "were good: {}; find them with whole files first, or do without {}",
        dir_.string(), mark.key(), mark.token, fmt::join(excluded, ", "), mark.key()));
  }
  MILLRACE_ASSIGN_OR_RETURN(auto documents, ReadMarked(mark, layout));
  known = documents;
  Status written = NotFound("there is no folder for them");
  for (const std::filesystem::path& folder : column_folders_) {
    written = WriteColumn(folder, key, documents->lengths());
    if (written.ok()) break;
  }
  if (!written.ok()) {
    logger_->Warning("the lengths of documents cannot be kept; the next process finds them again",
                     {{"dataset", dir_.string()}, {"why", written}});
  }
  return documents;
}

Result<std::shared_ptr<const MarkedDocuments>> TokensDataset::ReadMarked(
    const DocumentMark& mark, const RawLayout& layout) const {
  logger_->Info("looking for documents", {{"dataset", dir_.string()},
                                          {"by", mark.key()},
                                          {"token", mark.token},
                                          {"tokens", layout.all_tokens()}});
  const auto began = std::chrono::steady_clock::now();
  // All files are mapped before the work is dealt, so that it goes by sizes that files really have.
  for (std::size_t data = 0; data < layout.tokens.size(); ++data) {
    if (layout.tokens[data] > 0) MILLRACE_RETURN_IF_ERROR(OpenData(data).status());
  }
  const auto read = [this](std::size_t data, std::uint64_t begin,
                           std::uint64_t bytes) -> Result<std::span<const std::byte>> {
    MILLRACE_ASSIGN_OR_RETURN(const MappedFile* const file, OpenData(data));
    file->WillRead(begin, bytes);
    return file->bytes().subspan(begin, bytes);
  };
  auto lengths =
      FindMarkedLengths(mark, layout, threads_, read, [this] { return stop_.stop_requested(); });
  if (!lengths.ok()) {
    // The key of the mark comes first, so that the place is found where it was written.
    if (lengths.status().code() != StatusCode::kInvalidArgument) {
      return lengths.status().WithContext("dataset " + dir_.string());
    }
    return InvalidArgument("source.tokens." + lengths.status().message());
  }
  // A file may have lost bytes meanwhile: then the lengths mean nothing.
  for (const DamagedFile& damage : Damages()) {
    return DataLoss(fmt::format("dataset {}: {}: {}", dir_.string(), damage.name, damage.what));
  }
  MILLRACE_ASSIGN_OR_RETURN(auto documents, MarkedDocuments::Make(*std::move(lengths), layout));
  logger_->Info(
      "documents found",
      {{"dataset", dir_.string()},
       {"documents", documents->size()},
       {"seconds",
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count()}});
  return documents;
}

}  // namespace millrace
