#include "server/plugin/files/plugin_files.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <set>
#include <span>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/hash.h"
#include "common/system/errno_status.h"
#include "common/system/nonce.h"
#include "server/files/file_io.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

// More folders than this in each other come from a link that leads back.
constexpr int kMaxDepth = 32;
constexpr std::size_t kNamedFiles = 5;

struct Found {
  std::string name;
  std::uint64_t bytes = 0;
};

bool IsLeftOut(std::string_view name) {
  return name.starts_with('.') || name == "__pycache__" || name.ends_with(".pyc");
}

Status FindFiles(const fs::path& root, const std::string& folder, int depth,
                 std::vector<Found>& found) {
  if (depth > kMaxDepth) {
    return InvalidArgument(fmt::format(
        "{}: more than {} folders lie in each other; does a link lead back?", folder, kMaxDepth));
  }
  std::error_code error;
  fs::directory_iterator entry(root / folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string last = entry->path().filename().string();
    if (IsLeftOut(last)) continue;
    const std::string name = folder.empty() ? last : folder + "/" + last;
    struct stat status {};
    if (::stat(entry->path().c_str(), &status) != 0) {
      return ErrnoStatus(entry->path().string(), errno);
    }
    if (S_ISDIR(status.st_mode)) {
      MILLRACE_RETURN_IF_ERROR(FindFiles(root, name, depth + 1, found));
    } else if (S_ISREG(status.st_mode)) {
      found.push_back({name, static_cast<std::uint64_t>(status.st_size)});
    }
  }
  if (error) return ErrnoStatus((root / folder).string() + " cannot be listed", error.value());
  return OkStatus();
}

Status CheckSize(const fs::path& path, std::vector<Found> found, std::uint64_t max_bytes) {
  std::uint64_t bytes = 0;
  for (const Found& file : found) bytes += file.bytes;
  if (bytes <= max_bytes) return OkStatus();
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return std::pair(b.bytes, a.name) < std::pair(a.bytes, b.name);
  });
  std::string largest;
  for (std::size_t i = 0; i < std::min(found.size(), kNamedFiles); ++i) {
    largest += fmt::format("{}{} ({} bytes)", i == 0 ? "" : ", ", found[i].name, found[i].bytes);
  }
  return ResourceExhausted(fmt::format(
      "{} has {} files of {} bytes together; a plugin may have {} bytes. The largest are {}. "
      "Put the module in a folder of its own",
      path.string(), found.size(), bytes, max_bytes, largest));
}

/// The file may grow or shrink while it is read; what is read then is what counts.
Result<std::string> ReadContent(const fs::path& path, std::uint64_t max_bytes) {
  MILLRACE_ASSIGN_OR_RETURN(const FileDescriptor file, OpenFile(path, O_RDONLY | O_NONBLOCK));
  std::string content;
  char buffer[1 << 16];
  while (content.size() <= max_bytes) {
    const ssize_t n = ::read(file.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(path.string() + " cannot be read", errno);
    if (n == 0) return content;
    content.append(buffer, static_cast<std::size_t>(n));
  }
  return ResourceExhausted(fmt::format("{} has more than {} bytes", path.string(), max_bytes));
}

Status WriteFiles(const FileSet& files, const fs::path& folder) {
  for (const FileSet::File& file : files.files) {
    const fs::path path = folder / file.name;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error) return ErrnoStatus(path.parent_path().string(), error.value());
    MILLRACE_ASSIGN_OR_RETURN(const FileDescriptor written, ReplaceFile(path));
    MILLRACE_RETURN_IF_ERROR(
        WriteAt(written, std::as_bytes(std::span(file.content)), 0).WithContext(path.string()));
    // So that nobody changes what the digest names by accident.
    if (::fchmod(written.get(), 0444) != 0) return ErrnoStatus(path.string(), errno);
  }
  return OkStatus();
}

bool IsWhole(const fs::path& folder, const Digest128& digest) {
  const Result<FileSet> stored = ReadFileSet(folder);
  return stored.ok() && stored->Digest() == digest;
}

std::string RandomName(std::string_view prefix) {
  std::string name(prefix);
  for (const char c : MakeNonce()) name += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return name;
}

}  // namespace

Digest128 FileSet::Digest() const {
  Xxh3Stream stream;
  const auto add = [&stream](std::string_view text) {
    std::byte length[8];
    for (int i = 0; i < 8; ++i) length[i] = std::byte(text.size() >> (8 * i) & 0xff);
    stream.Update(length);
    stream.Update(std::as_bytes(std::span(text)));
  };
  for (const File& file : files) {
    add(file.name);
    add(file.content);
  }
  return stream.Finish();
}

Result<FileSet> ReadFileSet(const fs::path& path, std::uint64_t max_bytes) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    return NotFound(fmt::format("{} is no folder{}", path.string(),
                                error ? ": " + error.message() : std::string()));
  }
  std::vector<Found> found;
  MILLRACE_RETURN_IF_ERROR(FindFiles(path, "", 0, found));
  MILLRACE_RETURN_IF_ERROR(CheckSize(path, found, max_bytes));
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return a.name < b.name; });
  FileSet files;
  for (const Found& file : found) {
    MILLRACE_ASSIGN_OR_RETURN(std::string content, ReadContent(path / file.name, max_bytes));
    files.files.push_back({file.name, std::move(content)});
  }
  return files;
}

Status CheckHasModule(const FileSet& files, std::string_view name) {
  const std::string file = std::string(name) + ".py";
  const std::string package = std::string(name) + "/__init__.py";
  std::set<std::string> modules;
  for (const FileSet::File& one : files.files) {
    if (one.name == file || one.name == package) return OkStatus();
    const std::size_t slash = one.name.find('/');
    if (slash == std::string::npos && one.name.ends_with(".py")) {
      modules.insert(one.name.substr(0, one.name.size() - 3));
    } else if (slash != std::string::npos && one.name.substr(slash) == "/__init__.py") {
      modules.insert(one.name.substr(0, slash));
    }
  }
  return NotFound(fmt::format("has neither {} nor {}; {}", file, package,
                              modules.empty()
                                  ? std::string("there is no module at all")
                                  : fmt::format("its modules are {}", fmt::join(modules, ", "))));
}

Result<fs::path> StoreFileSet(const FileSet& files, const fs::path& folder) {
  const Digest128 digest = files.Digest();
  const fs::path stored = folder / digest.ToHex();
  if (IsWhole(stored, digest)) return stored;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return ErrnoStatus(folder.string() + " cannot be made", error.value());
  const fs::path made = folder / RandomName(".new-");
  Status status = OkStatus();
  if (::mkdir(made.c_str(), 0755) != 0) return ErrnoStatus(made.string(), errno);
  status = WriteFiles(files, made);
  // Another process may store the same files, or replace damaged ones, at any moment.
  for (int turn = 0; status.ok() && turn < 8; ++turn) {
    if (::rename(made.c_str(), stored.c_str()) == 0) return stored;
    if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR) {
      status = ErrnoStatus(stored.string(), errno);
    } else if (IsWhole(stored, digest)) {
      fs::remove_all(made, error);
      return stored;
    } else {
      const fs::path damaged = folder / RandomName(".damaged-");
      ::rename(stored.c_str(), damaged.c_str());
      fs::remove_all(damaged, error);
    }
  }
  fs::remove_all(made, error);
  if (!status.ok()) return status;
  return Aborted(stored.string() + ": others keep changing this folder");
}

}  // namespace millrace
