#include "server/dataset/records/records_dataset.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "server/dataset/records/format/record_framing.h"

namespace millrace {
namespace {

std::vector<IndexedFile> FilesOf(const RecordsIndex& index) {
  std::vector<IndexedFile> files;
  for (const RecordsFile& file : index.files()) files.push_back(file.file);
  return files;
}

}  // namespace

RecordsDataset::RecordsDataset(std::filesystem::path dir, std::shared_ptr<const RecordsIndex> index)
    : dir_(std::move(dir)),
      index_(std::move(index)),
      files_(dir_, FilesOf(*index_), index_->mapped()) {}

std::vector<DatasetFile> RecordsDataset::Files() const {
  std::vector<DatasetFile> files;
  for (const IndexedFile& file : files_.files()) {
    files.push_back({file.name, file.size, file.digest});
  }
  return files;
}

std::vector<BadFile> RecordsDataset::LeftOut(std::size_t most) const {
  std::vector<BadFile> files;
  const auto& left_out = index_->left_out();
  for (std::size_t i = 0; i < std::min(left_out.size(), most); ++i) {
    files.push_back(left_out[i].file);
  }
  return files;
}

std::string RecordsDataset::Where(const PlacedRecord& record) const {
  return fmt::format("file {}, record {} at byte {}", files_.files()[record.file].name,
                     record.number, record.offset);
}

Status RecordsDataset::Damaged(const PlacedRecord& record, std::string_view what) const {
  files_.NoteDamage(record.file,
                    fmt::format("at byte {}: record {}: {}", record.offset, record.number, what));
  return DataLoss(fmt::format("dataset {}: {}: {}; it was written to while it was in use",
                              dir_.string(), Where(record), what));
}

Status RecordsDataset::Find(std::span<const ExampleId> ids,
                            std::vector<PlacedRecord>& found) const {
  found.resize(ids.size());
  std::uint32_t most = 0;
  std::vector<std::uint32_t> skips(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const RecordsIndex::Place place = index_->Find(ids[i].value());
    MILLRACE_ASSIGN_OR_RETURN(const MappedFile* const file, files_.Open(place.file));
    found[i] = {place.file, place.number - place.skip, place.offset, file->bytes()};
    if (place.offset < found[i].in.size()) __builtin_prefetch(found[i].in.data() + place.offset);
    skips[i] = place.skip;
    most = std::max(most, place.skip);
  }
  for (std::uint32_t round = 0; round < most; ++round) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (skips[i] <= round) continue;
      PlacedRecord& record = found[i];
      const FramedRecord here = ReadRecord(record.in, record.offset, /*check_data=*/false);
      if (here.fault != RecordFault::kSound) return Damaged(record, Describe(here.fault));
      record.offset = here.next;
      ++record.number;
      if (here.next < record.in.size()) __builtin_prefetch(record.in.data() + here.next);
    }
  }
  return OkStatus();
}

Result<std::span<const std::byte>> RecordsDataset::Read(const PlacedRecord& record) const {
  const FramedRecord here = ReadRecord(record.in, record.offset);
  if (here.fault == RecordFault::kSound) return here.data;
  return Damaged(record, Describe(here.fault));
}

std::optional<std::uint64_t> RecordsDataset::SizeOf(const PlacedRecord& record) const {
  const FramedRecord here = ReadRecord(record.in, record.offset, /*check_data=*/false);
  if (here.fault == RecordFault::kSound) return here.data.size();
  static_cast<void>(Damaged(record, Describe(here.fault)));
  return std::nullopt;
}

}  // namespace millrace
