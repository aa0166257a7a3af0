#include "server/kinds/coq/index/index_freshness.h"

#include <cstring>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <unordered_set>

#include <fcntl.h>

#include <fmt/core.h>

#include "common/base/hash.h"
#include "common/system/errno_status.h"
#include "common/system/mutex.h"
#include "common/system/parallel.h"
#include "server/files/file_io.h"
#include "server/files/mapped_file.h"
#include "server/kinds/coq/index/index_format.h"

namespace millrace {
namespace {

using PlaceByName = std::unordered_map<std::string_view, std::size_t>;

PlaceByName Places(const DatasetListing& listing) {
  PlaceByName places;
  for (std::size_t i = 0; i < listing.names.size(); ++i) places.emplace(listing.names[i], i);
  return places;
}

// Writes the present inodes, times and host into a complete copy of an index.
Status PatchHostRecords(const std::filesystem::path& file,
                        const std::vector<HostFileRecord>& host_files) {
  MILLRACE_ASSIGN_OR_RETURN(const FileDescriptor fd, OpenFile(file, O_RDWR));
  IndexHeader header;
  MILLRACE_RETURN_IF_ERROR(ReadAt(fd, std::as_writable_bytes(std::span(&header, 1)), 0));
  std::vector<SectionEntry> table(header.section_count);
  MILLRACE_RETURN_IF_ERROR(ReadAt(fd, std::as_writable_bytes(std::span(table)), sizeof(header)));
  const auto bytes = std::as_bytes(std::span(host_files));
  for (SectionEntry& entry : table) {
    if (entry.section != IndexSection::kHostFiles) continue;
    MILLRACE_RETURN_IF_ERROR(WriteAt(fd, bytes, entry.offset));
    entry.checksum = Xxh3_64(bytes);
  }
  const Digest128 host = HostId();
  header.host_id_high = host.high;
  header.host_id_low = host.low;
  header.checksum = HeaderChecksum(header, table);
  MILLRACE_RETURN_IF_ERROR(WriteAt(fd, std::as_bytes(std::span(table)), sizeof(header)));
  MILLRACE_RETURN_IF_ERROR(WriteAt(fd, std::as_bytes(std::span(&header, 1)), 0));
  return SyncFile(fd);
}

}  // namespace

HostFileRecord HostRecord(const FileIdentity& identity) {
  return {.inode = identity.inode,
          .modified_ns = identity.modified_ns,
          .changed_ns = identity.changed_ns};
}

bool SameHostRecord(const HostFileRecord& a, const HostFileRecord& b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

IndexFreshness CompareWithListing(const DatasetIndex& index, const DatasetListing& listing) {
  IndexFreshness freshness;
  std::unordered_set<std::string_view> left_out;
  for (const LeftOutRecord& record : index.left_out()) left_out.insert(index.left_out_name(record));
  for (const BadFile& file : listing.bad) {
    if (left_out.contains(file.name)) continue;
    freshness.stale = file.ToString();
    return freshness;
  }
  const PlaceByName places = Places(listing);
  const bool same_host = index.host_id() == HostId();
  for (std::uint32_t f = 0; f < index.files().size(); ++f) {
    const auto found = places.find(index.file_name(f));
    if (found == places.end()) {
      freshness.stale = fmt::format("{} is gone", index.file_name(f));
      return freshness;
    }
    const FileIdentity& identity = listing.identities[found->second];
    if (identity.size != index.files()[f].size) {
      freshness.stale = fmt::format("{} has {} bytes, had {}", index.file_name(f), identity.size,
                                    index.files()[f].size);
      return freshness;
    }
    if (!same_host || !SameHostRecord(HostRecord(identity), index.host_files()[f])) {
      freshness.touched.push_back(f);
    }
  }
  for (const std::string& name : listing.names) left_out.erase(name);
  for (const BadFile& file : listing.bad) left_out.erase(file.name);
  const std::size_t in_folder = listing.names.size() + listing.bad.size();
  const std::size_t known = index.files().size() + index.left_out().size() - left_out.size();
  if (in_folder != known) {
    freshness.stale = fmt::format("the folder has {} files, the index knows {}", in_folder, known);
  }
  return freshness;
}

Status HashesAsIndexed(const std::filesystem::path& dir, const DatasetIndex& index,
                       std::uint32_t file) {
  const FileRecord& record = index.files()[file];
  const std::string name(index.file_name(file));
  const auto mapped = MappedFile::Open(dir / name, AccessPattern::kSequential);
  if (!mapped.ok()) return mapped.status().WithContext(name);
  const bool same = Xxh3(mapped->bytes()) == Digest128{record.digest_high, record.digest_low};
  MILLRACE_RETURN_IF_ERROR(mapped->CheckIntact().WithContext(name));
  return same ? OkStatus() : DataLoss(name + " has other contents");
}

std::string HashTouched(const std::filesystem::path& dir, const DatasetIndex& index,
                        const std::vector<std::uint32_t>& touched, const BuildOptions& options) {
  Mutex mutex;
  std::string different;
  ParallelFor(options.threads, touched.size(), [&](std::size_t i) {
    if (Status stopped = CheckStop(options); !stopped.ok()) {
      MutexLock lock(mutex);
      different = stopped.message();
      return;
    }
    const Status same = HashesAsIndexed(dir, index, touched[i]);
    if (same.ok()) return;
    MutexLock lock(mutex);
    different = same.message();
  });
  return different;
}

Status RenewIndex(const DatasetIndex& index, const std::filesystem::path& from,
                  const std::filesystem::path& to, const DatasetListing& listing) {
  const PlaceByName places = Places(listing);
  std::vector<HostFileRecord> host_files;
  for (std::uint32_t f = 0; f < index.files().size(); ++f) {
    const auto found = places.find(index.file_name(f));
    if (found == places.end()) return Internal("an index is renewed that does not fit");
    host_files.push_back(HostRecord(listing.identities[found->second]));
  }
  const std::filesystem::path temporary = to.string() + ".tmp";
  std::error_code error;
  // A file at this path, possibly a link, must not be written through.
  std::filesystem::remove(temporary, error);
  std::filesystem::copy_file(from, temporary, std::filesystem::copy_options::none, error);
  Status status = error ? ErrnoStatus("cannot be copied from " + from.string(), error.value())
                        : PatchHostRecords(temporary, host_files);
  if (status.ok()) {
    std::filesystem::rename(temporary, to, error);
    if (!error) return SyncFolder(to.has_parent_path() ? to.parent_path() : ".");
    status = ErrnoStatus("cannot be renamed to " + to.string(), error.value());
  }
  std::filesystem::remove(temporary, error);
  return status.WithContext(temporary.string());
}

}  // namespace millrace
