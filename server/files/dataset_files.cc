#include "server/files/dataset_files.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <system_error>

#include <unistd.h>

#include <fmt/core.h>

#include "common/base/utf8.h"
#include "common/system/errno_status.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

class Lister {
 public:
  Lister(const fs::path& dir, IsDataFile is_data) : dir_(dir), is_data_(is_data) {}

  DatasetListing Run() && {
    while (!folders_.empty()) VisitNext();
    return std::move(listing_);
  }
  bool FindsAny() && {
    while (!folders_.empty() && !found()) VisitNext();
    return found();
  }

 private:
  bool found() const { return !listing_.names.empty() || !listing_.bad.empty(); }

  void VisitNext() {
    const std::string folder = std::move(folders_.back());
    folders_.pop_back();
    Visit(folder, folders_);
  }

  void Visit(const std::string& folder, std::vector<std::string>& folders) {
    std::error_code error;
    fs::directory_iterator entry(dir_ / folder, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
      const std::string last = entry->path().filename().string();
      if (IsHidden(last)) continue;
      const std::string name = folder.empty() ? last : folder + "/" + last;
      std::error_code ignored;
      if (entry->is_directory(ignored)) {
        (entry->is_symlink(ignored) ? listing_.linked_folders : folders).push_back(name);
      } else if (is_data_(last) && MayBeFile(*entry)) {
        AddFile(name);
      }
    }
    if (error) listing_.bad.push_back({folder, "the folder cannot be listed: " + error.message()});
  }

  /// Whether it is a regular file, or a link to nothing, or one of which nothing can be said.
  static bool MayBeFile(const fs::directory_entry& entry) {
    std::error_code ignored;
    return entry.is_regular_file(ignored) ||
           (!entry.is_other(ignored) && !entry.is_directory(ignored));
  }

  void AddFile(const std::string& name) {
    if (!IsUtf8(name)) {
      listing_.bad.push_back({name, "the name is not UTF-8"});
      return;
    }
    const fs::path path = dir_ / name;
    const Result<FileIdentity> identity = IdentifyFile(path);
    if (!identity.ok()) {
      listing_.bad.push_back({name, identity.status().message()});
      return;
    }
    listing_.names.push_back(name);
    listing_.identities.push_back(*identity);
  }

  const fs::path& dir_;
  const IsDataFile is_data_;
  // Folders to visit. This is a list instead of recursion, because the folder decides how deep it
  // is.
  std::vector<std::string> folders_ = {""};
  DatasetListing listing_;
};

/// Orders the good files by their names.
template <class Less>
void SortBy(const Less& less, DatasetListing& listing) {
  std::vector<std::size_t> order(listing.names.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return less(listing.names[a], listing.names[b]); });
  DatasetListing sorted;
  for (const std::size_t i : order) {
    sorted.names.push_back(std::move(listing.names[i]));
    sorted.identities.push_back(listing.identities[i]);
  }
  listing.names = std::move(sorted.names);
  listing.identities = std::move(sorted.identities);
}

}  // namespace

std::string BadFile::ToString() const { return Escaped(name) + ": " + reason; }

std::string Escaped(std::string_view text) {
  const bool utf8 = IsUtf8(text);
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool shown = byte >= 0x20 && byte != 0x7F && byte != '\\' && (byte < 0x80 || utf8);
    escaped += shown ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
  }
  return escaped;
}

Status BadFilesStatus(std::string_view what, std::vector<BadFile> bad) {
  std::sort(bad.begin(), bad.end(),
            [](const BadFile& a, const BadFile& b) { return NameLess(a.name, b.name); });
  std::string message =
      fmt::format("{}: {} bad file{}", what, bad.size(), bad.size() == 1 ? "" : "s");
  for (const BadFile& file : bad) message += "\n  " + file.ToString();
  return DataLoss(std::move(message));
}

bool IsHidden(std::string_view last) { return last.starts_with('.'); }

Status CheckFolder(const fs::path& dir) {
  std::error_code error;
  const fs::file_status status = fs::status(dir, error);
  if (!fs::exists(status)) return NotFound(fmt::format("no folder '{}'", dir.string()));
  if (!fs::is_directory(status)) {
    return InvalidArgument(
        fmt::format("{} is no folder; give the folder of a dataset", dir.string()));
  }
  fs::directory_iterator probe(dir, error);
  if (error) {
    return ErrnoStatus(fmt::format("folder {} cannot be listed", dir.string()), error.value());
  }
  return OkStatus();
}

bool IsBinFile(std::string_view last) {
  constexpr std::string_view kSuffix = ".bin";
  return last.size() > kSuffix.size() && last.ends_with(kSuffix);
}

bool HasDatasetFile(const fs::path& dir, IsDataFile is_data) {
  return Lister(dir, is_data).FindsAny();
}

Result<DatasetListing> ListDataset(const fs::path& dir, IsDataFile is_data, std::string_view what) {
  MILLRACE_RETURN_IF_ERROR(CheckFolder(dir));
  DatasetListing listing = Lister(dir, is_data).Run();
  if (listing.names.empty() && listing.bad.empty()) {
    std::string unseen;
    if (!listing.linked_folders.empty()) {
      unseen = fmt::format(" (links to folders, such as {}, are not followed)",
                           Escaped(listing.linked_folders.front()));
    }
    return InvalidArgument(
        fmt::format("no {} below {}{}; give the folder of a dataset", what, dir.string(), unseen));
  }
  SortBy(NameLess, listing);
  return listing;
}

DatasetListing OrderedByBytes(DatasetListing listing) {
  SortBy(std::less<>(), listing);
  listing.linked_folders.clear();
  return listing;
}

std::string DescribeLinkedFolders(const fs::path& dir) {
  constexpr std::size_t kListed = 20;
  std::vector<std::string> links =
      Lister(dir, [](std::string_view) { return false; }).Run().linked_folders;
  std::sort(links.begin(), links.end(), NameLess);
  std::string text;
  for (std::size_t i = 0; i < std::min(links.size(), kListed); ++i) {
    text += fmt::format("  not followed, a link to a folder: {}\n", Escaped(links[i]));
  }
  if (links.size() > kListed) {
    text += fmt::format("  and {} more links to folders\n", links.size() - kListed);
  }
  return text;
}

bool NameLess(std::string_view a, std::string_view b) {
  // Same as comparing lists of components, because here a separator sorts before every byte of a
  // name.
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    const auto rank = [](char c) { return c == '/' ? -1 : int{static_cast<unsigned char>(c)}; };
    return rank(x) < rank(y);
  });
}

}  // namespace millrace
