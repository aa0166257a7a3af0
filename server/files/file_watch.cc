#include "server/files/file_watch.h"

#include <utility>

#include "server/files/sigbus_guard.h"

namespace millrace {

void FileWatch::Note(std::uint32_t number, std::string what) const {
  damaged_.try_emplace(number, DamagedFile{number, NameOf(number), std::move(what)});
  any_damaged_.store(true);
}

void FileWatch::NoteDamage(std::uint32_t number, std::string what) const {
  MutexLock lock(mutex_);
  Note(number, std::move(what));
}

void FileWatch::NoteFaults(const Files& files) const {
  for (const auto& [number, file] : files) {
    const Status intact = file->CheckIntact();
    if (!intact.ok()) Note(number, intact.message());
  }
}

std::vector<DamagedFile> FileWatch::Damages() const {
  // Faults are counted for the whole process, so any fault is a reason to check these files.
  if (SigbusFaults() == 0 && !any_damaged_.load()) return {};
  const Files files = MappedNow();
  MutexLock lock(mutex_);
  NoteFaults(files);
  std::vector<DamagedFile> all;
  for (const auto& entry : damaged_) all.push_back(entry.second);
  return all;
}

FileNews FileWatch::Check(const std::stop_token& stop) const {
  MutexLock one_checks(checking_);
  const Files files = MappedNow();
  std::set<std::uint32_t> damaged;
  {
    MutexLock lock(mutex_);
    for (const auto& entry : damaged_) damaged.insert(entry.first);
  }
  FileNews news;
  std::map<std::uint32_t, std::string> replaced;
  // mutex_ is not held while files are checked: a network file system may take its time.
  for (const auto& [number, file] : files) {
    if (damaged.contains(number)) continue;
    FileChange change = suspects_.Check(number, *file);
    if (change.kind == FileChange::Kind::kInPlace) {
      // Noted before files are hashed, so that batches in progress learn of it early.
      NoteDamage(number, std::move(change.what));
    } else if (change.kind == FileChange::Kind::kReplaced) {
      replaced.emplace(number, std::move(change.what));
    }
  }
  const std::vector<FileVerdict> verdicts =
      suspects_.Reconcile([&](std::uint32_t number, const MappedFile& file) {
        return CompareBytes(number, file, stop).WithContext("was written to while it was in use");
      });
  for (const FileVerdict& verdict : verdicts) {
    if (!verdict.status.ok()) damaged.insert(verdict.number);
  }
  const std::vector<FileVerdict> more = CheckMore(damaged, stop, news);

  MutexLock lock(mutex_);
  for (const FileVerdict& verdict : more) Note(verdict.number, verdict.status.message());
  for (const FileVerdict& verdict : verdicts) {
    if (verdict.status.ok()) {
      news.touched.push_back(NameOf(verdict.number));
    } else {
      Note(verdict.number, verdict.status.message());
    }
  }
  NoteFaults(files);
  for (const auto& entry : damaged_) {
    if (told_.insert(entry.first).second) news.damaged.push_back(entry.second);
  }
  for (auto& [number, what] : replaced) {
    if (told_.insert(number).second) {
      news.replaced.push_back({number, NameOf(number), std::move(what)});
    }
  }
  return news;
}

}  // namespace millrace
