#include "server/kinds/records/records_dataset.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "server/kinds/records/format/record_framing.h"

namespace millrace {
namespace {

/// Ways are gone side by side, because each step waits for memory.
constexpr std::size_t kSideBySide = 32;
constexpr std::uint64_t kMost32 = std::numeric_limits<std::uint32_t>::max();

/// The files as they are now.
std::vector<IndexedFile> FilesOf(const RecordsIndex& index) {
  std::vector<IndexedFile> files;
  for (const RecordsFile& file : index.files()) {
    files.push_back(file.file);
    if (file.damage) files.back().digest = file.damage->content;
  }
  return files;
}

}  // namespace

RecordsDataset::RecordsDataset(std::filesystem::path dir, std::shared_ptr<const RecordsIndex> index)
    : dir_(std::move(dir)),
      index_(std::move(index)),
      files_(dir_, FilesOf(*index_), index_->mapped()) {}

std::vector<DatasetFile> RecordsDataset::Files() const {
  std::vector<DatasetFile> files;
  for (const RecordsFile& file : index_->files()) {
    files.push_back({file.file.name, file.file.size, file.file.digest});
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

bool RecordsDataset::LeavesToSources(std::string_view file) const {
  const auto& files = index_->files();
  return std::any_of(files.begin(), files.end(), [file](const RecordsFile& one) {
    return one.damage && one.file.name == file;
  });
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
  for (std::size_t at = 0; at < ids.size(); at += kSideBySide) {
    const std::size_t count = std::min(kSideBySide, ids.size() - at);
    MILLRACE_RETURN_IF_ERROR(FindSome(ids.subspan(at, count), std::span(found).subspan(at, count)));
  }
  return OkStatus();
}

Status RecordsDataset::FindSome(std::span<const ExampleId> ids,
                                std::span<PlacedRecord> found) const {
  /// The way from the kept offset of a group to a record.
  struct Way {
    std::uint64_t group;
    std::uint64_t begin;                                     // the kept offset
    std::uint32_t skip;                                      // steps that it has
    std::uint32_t known;                                     // of them, those that were remembered
    std::array<std::uint32_t, WalkedGroups::kRecords> ends;  // of the others
  };
  static_assert(WalkedGroups::kRecords == RecordsIndex::kStride);
  std::array<Way, kSideBySide> ways;  // the first ids.size() are set
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const RecordsIndex::Place place = index_->Find(ids[i].value());
    MILLRACE_ASSIGN_OR_RETURN(const MappedFile* const file, files_.Open(place.file));
    found[i] = {place.file, place.number - place.skip, place.offset, file->bytes()};
    ways[i].group = place.group;
    ways[i].begin = place.offset;
    ways[i].skip = place.skip;
  }
  std::uint32_t most = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    PlacedRecord& record = found[i];
    const WalkedGroups::Steps steps = walked_.Find(ways[i].group, ways[i].skip);
    ways[i].known = steps.count;
    record.number += steps.count;
    record.offset += steps.bytes;
    most = std::max(most, ways[i].skip - steps.count);
  }
  for (std::uint32_t round = 0; round < most; ++round) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      Way& way = ways[i];
      if (way.skip - way.known <= round) continue;
      PlacedRecord& record = found[i];
      const FramedRecord here = ReadRecord(record.in, record.offset, /*check_data=*/false);
      if (here.fault != RecordFault::kSound) return Damaged(record, Describe(here.fault));
      record.offset = here.next;
      ++record.number;
      way.ends[round] = static_cast<std::uint32_t>(here.next - way.begin);
    }
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Way& way = ways[i];
    // Steps that lead too far for the table are taken anew each time.
    if (way.skip == way.known || found[i].offset - way.begin > kMost32) continue;
    walked_.Add(way.group, way.known, std::span(way.ends).first(way.skip - way.known));
  }
  return OkStatus();
}

Result<std::span<const std::byte>> RecordsDataset::Read(const PlacedRecord& record) const {
  const FramedRecord here = ReadRecord(record.in, record.offset);
  if (here.fault == RecordFault::kSound) return here.data;
  return Damaged(record, Describe(here.fault));
}

Result<std::optional<std::span<const std::byte>>> RecordsDataset::ReadSound(
    const PlacedRecord& record) const {
  const FramedRecord here = ReadRecord(record.in, record.offset);
  if (here.fault == RecordFault::kSound) return std::optional(here.data);
  if (here.fault == RecordFault::kDataChecksum) return std::optional<std::span<const std::byte>>();
  return Damaged(record, Describe(here.fault));
}

std::optional<std::uint64_t> RecordsDataset::SizeOf(const PlacedRecord& record) const {
  const FramedRecord here = ReadRecord(record.in, record.offset, /*check_data=*/false);
  if (here.fault == RecordFault::kSound) return here.data.size();
  static_cast<void>(Damaged(record, Describe(here.fault)));
  return std::nullopt;
}

}  // namespace millrace
