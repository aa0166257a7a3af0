#include "server/source/generate.h"

#include <system_error>

#include <fmt/format.h>

#include "common/system/errno_status.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

Status PrepareFolder(const fs::path& dir) {
  std::error_code error;
  fs::create_directories(dir, error);
  if (error)
    return ErrnoStatus(fmt::format("folder {} cannot be made", dir.string()), error.value());
  const bool empty = fs::is_empty(dir, error);
  if (error)
    return ErrnoStatus(fmt::format("folder {} cannot be read", dir.string()), error.value());
  if (empty) return OkStatus();
  return FailedPrecondition(
      fmt::format("folder {} is not empty; choose another one", dir.string()));
}

/// The folder was empty, so all that is in it was written here. An error of removing is ignored:
/// the first error matters more.
void RemoveContent(const fs::path& dir) {
  std::error_code ignored;
  for (fs::directory_iterator entry(dir, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    fs::remove_all(entry->path(), ignored);
  }
}

}  // namespace

Status GenerateInto(const fs::path& dir, const std::function<Status()>& write) {
  MILLRACE_RETURN_IF_ERROR(PrepareFolder(dir));
  const Status status = write();
  if (!status.ok()) RemoveContent(dir);
  return status;
}

}  // namespace millrace
