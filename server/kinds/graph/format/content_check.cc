#include "server/kinds/graph/format/content_check.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

namespace millrace {
namespace {

constexpr std::uint64_t kPieceBytes = std::uint64_t{4} << 20;

std::int64_t NowInNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

ContentCheck::ContentCheck(const std::vector<WatchedFile>& files, VerifiedFiles memory,
                           std::uint64_t bytes_at_once)
    : files_(files), memory_(std::move(memory)), bytes_at_once_(bytes_at_once) {
  for (const WatchedFile& watched : files_) {
    trusted_.push_back(memory_.Has(watched.digest, watched.file.identity()));
    total_ += watched.file.bytes().size();
    if (!trusted_.back()) left_ += watched.file.bytes().size();
  }
}

std::vector<FileVerdict> ContentCheck::Advance(const std::set<std::uint32_t>& damaged,
                                               const std::stop_token& stop) {
  std::vector<FileVerdict> bad;
  std::uint64_t room = bytes_at_once_;
  for (Skip(damaged); next_ < files_.size() && room > 0 && !stop.stop_requested(); Skip(damaged)) {
    const WatchedFile& watched = files_[next_];
    const std::span<const std::byte> rest = watched.file.bytes().subspan(hashed_);
    const std::uint64_t piece = std::min<std::uint64_t>({kPieceBytes, rest.size(), room});
    watched.file.WillRead(hashed_, piece);
    hash_.Update(rest.first(piece));
    hashed_ += piece;
    room -= piece;
    left_ -= piece;
    if (piece < rest.size()) continue;
    Status status = Finish(watched);
    if (!status.ok()) bad.push_back({next_, std::move(status)});
    Next();
  }
  return bad;
}

void ContentCheck::Skip(const std::set<std::uint32_t>& damaged) {
  for (; next_ < files_.size() && (trusted_[next_] || damaged.count(next_) != 0); Next()) {
    if (!trusted_[next_]) left_ -= files_[next_].file.bytes().size() - hashed_;
  }
}

void ContentCheck::Next() {
  ++next_;
  hashed_ = 0;
  hash_ = Xxh3Stream();
}

Status ContentCheck::Finish(const WatchedFile& watched) {
  MILLRACE_RETURN_IF_ERROR(watched.file.CheckIntact());
  const Digest128 digest = hash_.Finish();
  if (digest != watched.digest) {
    return DataLoss(fmt::format("its contents have digest {}, expected {}", digest.ToHex(),
                                watched.digest.ToHex()));
  }
  // A file that was touched meanwhile is hashed again when its path is looked at.
  if (watched.file.Changed()) return OkStatus();
  memory_.Add(watched.digest, watched.file.identity(), NowInNs());
  // If it cannot be remembered, the next process hashes it again.
  (void)memory_.Save();
  return OkStatus();
}

}  // namespace millrace
