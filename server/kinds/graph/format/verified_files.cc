#include "server/kinds/graph/format/verified_files.h"

#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>

#include <fmt/format.h>

#include "common/system/errno_status.h"
#include "server/files/file_io.h"

namespace millrace {
namespace {

// Some file systems give times in whole seconds, or in two.
constexpr std::int64_t kUnchangedNs = 4'000'000'000;
// A dataset has some dozen files.
constexpr std::size_t kMaxLines = 100'000;
constexpr std::uint64_t kMaxListBytes = kMaxLines * 100;

std::string FirstLine() { return fmt::format("millrace_verified 1 {}", HostId().ToHex()); }

Status WriteText(const std::filesystem::path& place, const std::string& text) {
  std::error_code error;
  std::filesystem::create_directories(place.parent_path(), error);
  const std::filesystem::path partial = place.string() + ".partial";
  {
    MILLRACE_ASSIGN_OR_RETURN(const FileDescriptor file, ReplaceFile(partial));
    MILLRACE_RETURN_IF_ERROR(
        WriteAt(file, std::as_bytes(std::span(text)), 0).WithContext(partial.string()));
  }
  std::filesystem::rename(partial, place, error);
  return error ? ErrnoStatus(place.string() + " cannot be written", error.value()) : OkStatus();
}

}  // namespace

VerifiedFiles::VerifiedFiles(std::vector<std::filesystem::path> places)
    : places_(std::move(places)) {
  for (const std::filesystem::path& place : places_) {
    if (Read(place)) return;
  }
}

bool VerifiedFiles::Read(const std::filesystem::path& place) {
  // Whoever owns the folder can put anything here: a pipe that never ends, a file without lines.
  const Result<FileIdentity> identity = IdentifyFile(place);
  if (!identity.ok() || identity->size > kMaxListBytes) return false;
  std::ifstream in(place);
  std::string line;
  if (!std::getline(in, line) || line != FirstLine()) return false;
  std::set<Line> lines;
  while (lines.size() < kMaxLines && std::getline(in, line)) {
    std::istringstream fields(line);
    std::string hex;
    Line read;
    fields >> hex >> std::get<1>(read) >> std::get<2>(read) >> std::get<3>(read);
    const Result<Digest128> digest = Digest128::FromHex(hex);
    if (!fields || !digest.ok()) return false;
    std::get<0>(read) = *digest;
    lines.insert(read);
  }
  lines_ = std::move(lines);
  return true;
}

bool VerifiedFiles::Has(const Digest128& digest, const FileIdentity& file) const {
  return lines_.count({digest, file.size, file.inode, file.modified_ns}) != 0;
}

void VerifiedFiles::Add(const Digest128& digest, const FileIdentity& file, std::int64_t now_ns) {
  if (now_ns - file.modified_ns < kUnchangedNs) return;
  changed_ |= lines_.insert({digest, file.size, file.inode, file.modified_ns}).second;
}

Status VerifiedFiles::Save() {
  if (!changed_) return OkStatus();
  std::string text = FirstLine() + "\n";
  for (const Line& line : lines_) {
    text += fmt::format("{} {} {} {}\n", std::get<0>(line).ToHex(), std::get<1>(line),
                        std::get<2>(line), std::get<3>(line));
  }
  Status status = NotFound("no place for it");
  for (const std::filesystem::path& place : places_) {
    status = WriteText(place, text);
    if (status.ok()) {
      changed_ = false;
      break;
    }
  }
  return status;
}

}  // namespace millrace
