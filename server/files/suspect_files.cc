#include "server/files/suspect_files.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include <fmt/core.h>

#include "common/base/hash.h"

namespace millrace {

Status HashesTo(const Digest128& expected, const MappedFile& file, const std::stop_token& stop) {
  constexpr std::size_t kPiece = std::size_t{16} << 20;
  Xxh3Stream hash;
  file.Advise(AccessPattern::kSequential);
  std::span<const std::byte> rest = file.bytes();
  while (!rest.empty() && !stop.stop_requested()) {
    const std::size_t length = std::min(kPiece, rest.size());
    hash.Update(rest.first(length));
    rest = rest.subspan(length);
  }
  file.Advise(AccessPattern::kRandom);
  if (!rest.empty()) return Cancelled("is not hashed: this process is stopping");
  MILLRACE_RETURN_IF_ERROR(file.CheckIntact());
  const Digest128 digest = hash.Finish();
  if (digest == expected) return OkStatus();
  return DataLoss(fmt::format("has digest {}, expected {}", digest.ToHex(), expected.ToHex()));
}

FileChange SuspectFiles::Check(std::uint32_t number, const MappedFile& file) {
  const auto known = suspects_.find(number);
  FileChange change =
      file.ChangeFrom(known == suspects_.end() ? file.identity() : known->second.known);
  if (change.kind != FileChange::Kind::kTouched) return change;
  Suspect& suspect = suspects_[number];
  if (suspect.file == nullptr) suspect = {.file = &file, .known = file.identity()};
  if (!std::exchange(suspect.waits, true)) queue_.push_back(number);
  return change;
}

std::vector<FileVerdict> SuspectFiles::Reconcile(const Compare& compare) {
  std::vector<FileVerdict> verdicts;
  std::uint64_t bytes = 0;
  while (!queue_.empty() && bytes < bytes_at_once_) {
    const std::uint32_t number = queue_.front();
    Suspect& suspect = suspects_.at(number);
    std::optional<Status> status = ReconcileOne(number, suspect, compare);
    if (status && status->code() == StatusCode::kCancelled) break;
    queue_.pop_front();
    suspect.waits = false;
    bytes += suspect.file->bytes().size();
    if (status) verdicts.push_back({number, *std::move(status)});
  }
  return verdicts;
}

std::optional<Status> SuspectFiles::ReconcileOne(std::uint32_t number, Suspect& suspect,
                                                 const Compare& compare) {
  // The file may have waited for long. If anything else has happened to it, the next check
  // finds that.
  const FileChange before = suspect.file->ChangeFrom(suspect.known);
  if (before.kind != FileChange::Kind::kTouched) return std::nullopt;
  Status status = compare(number, *suspect.file);
  if (!status.ok()) return status;
  const FileChange after = suspect.file->ChangeFrom(suspect.known);
  if (after.kind != FileChange::Kind::kTouched || after.now != before.now) return std::nullopt;
  if (suspect.hashed != before.now) {
    suspect.hashed = before.now;
    return std::nullopt;
  }
  suspect.known = before.now;
  return status;
}

}  // namespace millrace
