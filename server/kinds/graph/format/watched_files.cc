#include "server/kinds/graph/format/watched_files.h"

namespace millrace {

WatchedFiles::WatchedFiles(std::vector<WatchedFile> files, VerifiedFiles memory,
                           std::uint64_t bytes_at_once)
    : files_(std::move(files)) {
  contents_.emplace(files_, std::move(memory), bytes_at_once);
  unverified_ = contents_->unverified();
}

FileWatch::Files WatchedFiles::MappedNow() const {
  Files files;
  for (std::uint32_t f = 0; f < files_.size(); ++f) files.emplace(f, &files_[f].file);
  return files;
}

std::vector<FileVerdict> WatchedFiles::CheckMore(const std::set<std::uint32_t>& damaged,
                                                 const std::stop_token& stop,
                                                 FileNews& news) const {
  if (!contents_) return {};
  std::vector<FileVerdict> bad = contents_->Advance(damaged, stop);
  news.verified = unverified_.exchange(contents_->unverified()) > 0 && unverified_ == 0;
  return bad;
}

}  // namespace millrace
