#include "server/kinds/records/index/records_index.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "common/base/hash.h"
#include "millrace/v1/records_index.pb.h"
#include "server/files/file_io.h"
#include "server/kinds/records/format/record_framing.h"

namespace millrace {
namespace {

/// The first bytes of the file, little endian.
struct RecordsIndexHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t stride;
  std::uint64_t file_bytes;
  std::uint64_t description_bytes;  // of v1.RecordsIndex, which follows
  std::uint64_t checksum;           // XXH3-64 of everything after this header
};
static_assert(sizeof(RecordsIndexHeader) == 40 && std::endian::native == std::endian::little);

constexpr std::uint64_t kOffsetBytes = sizeof(std::uint64_t);
/// A dataset has no more bytes than this.
constexpr std::uint64_t kMostIndexBytes = std::uint64_t{1} << 62;
/// The bytes of a record besides its data.
constexpr std::uint64_t kRecordFrameBytes = kRecordHeaderBytes + kRecordFooterBytes;

std::uint64_t BeginOfOffsets(std::uint64_t description_bytes) {
  const std::uint64_t end = sizeof(RecordsIndexHeader) + description_bytes;
  return (end + kOffsetBytes - 1) / kOffsetBytes * kOffsetBytes;
}

std::optional<Digest128> DigestFrom(const std::string& bytes) {
  const Result<Digest128> digest = Digest128::FromBytes(bytes);
  return digest.ok() ? std::optional(*digest) : std::nullopt;
}

void IdentityToProto(const FileIdentity& from, v1::RecordsFileIdentity& to) {
  to.set_size(from.size);
  to.set_inode(from.inode);
  to.set_modified_ns(from.modified_ns);
  to.set_changed_ns(from.changed_ns);
}

FileIdentity IdentityFrom(const v1::RecordsFileIdentity& from) {
  return {.size = from.size(),
          .device = 0,
          .inode = from.inode(),
          .modified_ns = from.modified_ns(),
          .changed_ns = from.changed_ns()};
}

v1::RecordsIndex ToProto(const RecordsIndexContent& content) {
  v1::RecordsIndex proto;
  proto.set_host(HostId().ToBytes());
  for (const RecordsFile& from : content.files) {
    v1::RecordsFile& to = *proto.add_files();
    to.set_name(from.file.name);
    to.set_digest(from.file.digest.ToBytes());
    FileIdentity identity = from.file.identity.value_or(FileIdentity{});
    identity.size = from.file.size;
    IdentityToProto(identity, *to.mutable_identity());
    to.set_records(from.records);
    to.set_largest(from.largest);
    to.set_others(from.others);
    if (from.frames) to.set_frames(from.frames->ToBytes());
    if (from.damage) {
      to.mutable_damage()->set_records(from.damage->count);
      to.mutable_damage()->set_first(from.damage->first);
      to.mutable_damage()->set_content(from.damage->content.ToBytes());
    }
    for (const FeatureCounts& feature : from.features) {
      v1::RecordsFeature& counts = *to.add_features();
      counts.set_name(feature.name);
      counts.set_bytes(feature.bytes);
      counts.set_floats(feature.floats);
      counts.set_integers(feature.integers);
    }
  }
  for (const OmittedFile& from : content.left_out) {
    v1::RecordsLeftOut& to = *proto.add_left_out();
    to.set_name(from.file.name);
    to.set_reason(from.file.reason);
    if (from.identity) IdentityToProto(*from.identity, *to.mutable_identity());
  }
  return proto;
}

/// Empty if the description cannot be that of an index.
std::optional<RecordsIndexContent> FromProto(const v1::RecordsIndex& proto, bool same_host) {
  RecordsIndexContent content;
  std::uint64_t bytes = 0;
  for (const v1::RecordsFile& from : proto.files()) {
    RecordsFile& to = content.files.emplace_back();
    const std::optional<Digest128> digest = DigestFrom(from.digest());
    if (!digest || from.name().empty()) return std::nullopt;
    to.file.name = from.name();
    to.file.size = from.identity().size();
    to.file.digest = *digest;
    if (same_host) to.file.identity = IdentityFrom(from.identity());
    to.records = from.records();
    to.largest = from.largest();
    to.others = from.others();
    to.frames = DigestFrom(from.frames());
    if (from.has_damage()) {
      const std::optional<Digest128> sound = DigestFrom(from.damage().content());
      if (!sound || from.damage().records() > from.records()) return std::nullopt;
      to.damage = {from.damage().records(), from.damage().first(), *sound};
    }
    for (const v1::RecordsFeature& feature : from.features()) {
      to.features.push_back(
          {feature.name(), feature.bytes(), feature.floats(), feature.integers()});
    }
    const bool in_order = content.files.size() == 1 ||
                          content.files[content.files.size() - 2].file.name < to.file.name;
    if (!in_order || to.records > to.file.size / kRecordFrameBytes) return std::nullopt;
    // So no sum of sizes, and of what is less, overflows.
    if (to.file.size > kMostIndexBytes - bytes) return std::nullopt;
    bytes += to.file.size;
  }
  for (const v1::RecordsLeftOut& from : proto.left_out()) {
    OmittedFile& to = content.left_out.emplace_back();
    to.file = {from.name(), from.reason()};
    if (same_host && from.has_identity()) to.identity = IdentityFrom(from.identity());
  }
  return content;
}

Digest128 DigestOf(std::span<const RecordsFile> files) {
  std::vector<IndexedFile> indexed;
  for (const RecordsFile& file : files) indexed.push_back(file.file);
  return DigestOfFiles("", indexed);
}

/// Whether the kept offsets of a file can be those of its records: the first record is the first
/// thing in the file, and each run of records has room behind it.
bool OffsetsFit(std::span<const std::byte> offsets, std::uint64_t file_bytes) {
  std::uint64_t before = 0;
  for (std::size_t at = 0; at < offsets.size(); at += kOffsetBytes) {
    std::uint64_t offset;
    std::memcpy(&offset, offsets.data() + at, kOffsetBytes);
    if (at == 0 ? offset != 0 : offset <= before) return false;
    if (offset >= file_bytes) return false;
    before = offset;
  }
  return true;
}

}  // namespace

std::vector<FeatureCounts> JoinFeatures(std::span<const RecordsFile> files) {
  std::map<std::string, FeatureCounts> joined;
  for (const RecordsFile& file : files) {
    for (const FeatureCounts& feature : file.features) {
      FeatureCounts& counts = joined[feature.name];
      counts.name = feature.name;
      counts.bytes += feature.bytes;
      counts.floats += feature.floats;
      counts.integers += feature.integers;
    }
  }
  std::vector<FeatureCounts> all;
  for (auto& entry : joined) all.push_back(std::move(entry.second));
  return all;
}

Result<std::shared_ptr<const RecordsIndex>> RecordsIndex::Open(const std::filesystem::path& path) {
  const auto damaged = [&path](std::string_view what) {
    return DataLoss(fmt::format("index {}: {}; build it again", path.string(), what));
  };
  Result<MappedFile> mapped = MappedFile::Open(path, AccessPattern::kRandom);
  if (!mapped.ok()) return mapped.status().WithContext("index " + path.string());
  const std::span<const std::byte> bytes = mapped->bytes();
  RecordsIndexHeader header;
  if (bytes.size() < sizeof(header)) return damaged("is cut off");
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.magic, kRecordsIndexMagic, sizeof(header.magic)) != 0) {
    return damaged("is no index of records");
  }
  const bool known =
      header.version == kRecordsIndexVersion || header.version == kDamagedRecordsIndexVersion;
  if (!known || header.stride != kStride) {
    return damaged(fmt::format("has version {}, this build reads {} and {}", header.version,
                               kRecordsIndexVersion, kDamagedRecordsIndexVersion));
  }
  const std::span<const std::byte> rest = bytes.subspan(sizeof(header));
  if (header.file_bytes != bytes.size() || header.description_bytes > rest.size() ||
      header.description_bytes > std::numeric_limits<int>::max() ||
      header.checksum != Xxh3_64(rest)) {
    return damaged("is damaged");
  }
  v1::RecordsIndex proto;
  if (!proto.ParseFromArray(rest.data(), static_cast<int>(header.description_bytes))) {
    return damaged("is damaged");
  }
  const std::shared_ptr<RecordsIndex> index(new RecordsIndex());
  index->same_host_ = proto.host() == HostId().ToBytes();
  auto content = FromProto(proto, index->same_host_);
  if (!content) return damaged("is damaged");
  index->content_ = *std::move(content);
  std::uint64_t records = 0;
  std::uint64_t offsets = 0;
  for (const RecordsFile& file : index->files()) {
    index->first_records_.push_back(records);
    index->first_offsets_.push_back(offsets);
    records += file.records;
    offsets += KeptOffsets(file.records);
  }
  index->first_records_.push_back(records);
  index->first_offsets_.push_back(offsets);
  const std::uint64_t begin = BeginOfOffsets(header.description_bytes);
  if (begin > bytes.size() || (bytes.size() - begin) / kOffsetBytes != offsets) {
    return damaged("is damaged");
  }
  for (std::size_t f = 0; f < index->files().size(); ++f) {
    const std::uint64_t first = index->first_offsets_[f];
    const std::uint64_t count = index->first_offsets_[f + 1] - first;
    if (!OffsetsFit(bytes.subspan(begin + first * kOffsetBytes, count * kOffsetBytes),
                    index->files()[f].file.size)) {
      return damaged("is damaged");
    }
  }
  index->features_ = JoinFeatures(index->files());
  index->digest_ = DigestOf(index->files());
  index->offsets_ = bytes.data() + begin;
  index->mapped_ = std::make_shared<const MappedFile>(*std::move(mapped));
  MILLRACE_RETURN_IF_ERROR(index->mapped_->CheckIntact());
  return std::shared_ptr<const RecordsIndex>(index);
}

Status RecordsIndex::Write(const std::filesystem::path& path, const RecordsIndexContent& content,
                           std::span<const std::vector<std::uint64_t>> offsets) {
  std::string bytes(sizeof(RecordsIndexHeader), '\0');
  if (!ToProto(content).AppendToString(&bytes)) {
    return ResourceExhausted(
        fmt::format("index {}: the names of {} files and their features do not fit in an index",
                    path.string(), content.files.size()));
  }
  RecordsIndexHeader header = {};
  std::memcpy(header.magic, kRecordsIndexMagic, sizeof(header.magic));
  const bool any_damage =
      std::any_of(content.files.begin(), content.files.end(),
                  [](const RecordsFile& file) { return file.damage.has_value(); });
  header.version = any_damage ? kDamagedRecordsIndexVersion : kRecordsIndexVersion;
  header.stride = kStride;
  header.description_bytes = bytes.size() - sizeof(header);
  bytes.resize(BeginOfOffsets(header.description_bytes), '\0');
  for (const std::vector<std::uint64_t>& of_file : offsets) {
    bytes.append(reinterpret_cast<const char*>(of_file.data()), of_file.size() * kOffsetBytes);
  }
  header.file_bytes = bytes.size();
  header.checksum = Xxh3_64(std::as_bytes(std::span(bytes).subspan(sizeof(header))));
  std::memcpy(bytes.data(), &header, sizeof(header));

  return WriteWholeFile(path, path.string() + ".tmp", std::as_bytes(std::span(bytes)));
}

std::uint64_t RecordsIndex::others() const {
  std::uint64_t others = 0;
  for (const RecordsFile& file : files()) others += file.others;
  return others;
}

std::uint32_t RecordsIndex::FileOf(std::uint64_t record) const {
  const auto after = std::upper_bound(first_records_.begin(), first_records_.end(), record);
  return static_cast<std::uint32_t>(after - first_records_.begin()) - 1;
}

RecordsIndex::Place RecordsIndex::Find(std::uint64_t record) const {
  const std::uint32_t file = FileOf(record);
  const std::uint64_t number = record - first_records_[file];
  const std::uint64_t group = first_offsets_[file] + number / kStride;
  std::uint64_t offset = 0;
  std::memcpy(&offset, offsets_ + group * kOffsetBytes, kOffsetBytes);
  return {file, offset, static_cast<std::uint32_t>(number % kStride), number, group};
}

std::vector<std::uint64_t> RecordsIndex::OffsetsOf(std::uint32_t file) const {
  std::vector<std::uint64_t> offsets(first_offsets_[file + 1] - first_offsets_[file]);
  if (!offsets.empty()) {
    std::memcpy(offsets.data(), offsets_ + first_offsets_[file] * kOffsetBytes,
                offsets.size() * kOffsetBytes);
  }
  return offsets;
}

}  // namespace millrace
