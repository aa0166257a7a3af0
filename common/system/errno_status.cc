#include "common/system/errno_status.h"

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

namespace millrace {

Status ErrnoStatus(std::string_view what, int error) {
  std::string message = std::string(what) + ": " + std::system_category().message(error);
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return NotFound(std::move(message));
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
      return InvalidArgument(std::move(message));
    case EACCES:
    case EPERM:
    case EROFS:
      return PermissionDenied(std::move(message));
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EFBIG:
      return ResourceExhausted(std::move(message));
    default:
      return Unavailable(std::move(message));
  }
}

}  // namespace millrace
