#include "server/kinds/graph/format/watched_files.h"

#include <utility>

#include "server/files/sigbus_guard.h"

namespace millrace {

WatchedFiles::WatchedFiles(std::vector<WatchedFile> files, VerifiedFiles memory,
                           std::uint64_t bytes_at_once)
    : files_(std::move(files)) {
  contents_.emplace(files_, std::move(memory), bytes_at_once);
  unverified_ = contents_->unverified();
}

void WatchedFiles::Note(std::uint32_t number, std::string what) const {
  damaged_.try_emplace(number, DamagedFile{number, files_[number].name, std::move(what)});
  any_damaged_.store(true);
}

void WatchedFiles::NoteFaults() const {
  for (std::uint32_t f = 0; f < files_.size(); ++f) {
    const Status intact = files_[f].file.CheckIntact();
    if (!intact.ok()) Note(f, intact.message());
  }
}

std::vector<DamagedFile> WatchedFiles::Damages() const {
  // Faults are counted for the whole process, so any fault is a reason to look here.
  if (SigbusFaults() == 0 && !any_damaged_.load()) return {};
  MutexLock lock(mutex_);
  NoteFaults();
  std::vector<DamagedFile> all;
  for (const auto& entry : damaged_) all.push_back(entry.second);
  return all;
}

FileNews WatchedFiles::Check(const std::stop_token& stop) const {
  MutexLock one_looks(looking_);
  std::set<std::uint32_t> damaged;
  {
    MutexLock lock(mutex_);
    for (const auto& entry : damaged_) damaged.insert(entry.first);
  }
  FileNews news;
  std::map<std::uint32_t, std::string> replaced;
  // mutex_ is not held while files are looked at: a network file system may take its time.
  for (std::uint32_t f = 0; f < files_.size(); ++f) {
    if (damaged.count(f) != 0) continue;
    FileChange change = suspects_.Look(f, files_[f].file);
    if (change.kind == FileChange::Kind::kInPlace) {
      // Noted before files are hashed, so that batches in progress learn of it early.
      MutexLock lock(mutex_);
      Note(f, std::move(change.what));
    } else if (change.kind == FileChange::Kind::kReplaced) {
      replaced.emplace(f, std::move(change.what));
    }
  }
  const std::vector<SuspectFiles::Verdict> verdicts =
      suspects_.Reconcile([&](std::uint32_t number, const MappedFile& file) {
        return HashesTo(files_[number].digest, file, stop)
            .WithContext("was written to while it was in use");
      });

  for (const SuspectFiles::Verdict& verdict : verdicts) {
    if (!verdict.status.ok()) damaged.insert(verdict.number);
  }
  std::vector<ContentCheck::Verdict> bad;
  if (contents_) {
    bad = contents_->Advance(damaged, stop);
    news.verified = unverified_.exchange(contents_->unverified()) > 0 && unverified_ == 0;
  }

  MutexLock lock(mutex_);
  for (ContentCheck::Verdict& verdict : bad) Note(verdict.number, verdict.status.message());
  for (const SuspectFiles::Verdict& verdict : verdicts) {
    if (verdict.status.ok()) {
      news.touched.push_back(files_[verdict.number].name);
    } else {
      Note(verdict.number, verdict.status.message());
    }
  }
  NoteFaults();
  for (const auto& entry : damaged_) {
    if (told_.insert(entry.first).second) news.damaged.push_back(entry.second);
  }
  for (auto& entry : replaced) {
    if (!told_.insert(entry.first).second) continue;
    news.replaced.push_back({entry.first, files_[entry.first].name, std::move(entry.second)});
  }
  return news;
}

}  // namespace millrace
