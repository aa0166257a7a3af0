#include "server/plugin/process/process_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include <fmt/core.h>

#include "common/base/parse_number.h"
#include "server/files/file_io.h"
#include "server/plugin/process/child_process.h"

namespace millrace {

std::int64_t KilobyteLine(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (!line.starts_with(name)) continue;
    const std::size_t begin = line.find_first_of("0123456789");
    if (begin == std::string_view::npos) return -1;
    const std::size_t end = line.find_first_not_of("0123456789", begin);
    const auto number = ParseNumber<std::uint32_t>(
        line.substr(begin, end == std::string_view::npos ? std::string_view::npos : end - begin));
    return number.ok() ? std::int64_t{*number} << 10 : -1;
  }
  return -1;
}

std::uint64_t ShareOfMemory(pid_t process) {
  const std::string path = fmt::format("/proc/{}/smaps_rollup", process);
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> text{};
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  const std::int64_t share =
      size <= 0 ? -1 : KilobyteLine({text.data(), static_cast<std::size_t>(size)}, "Pss_Anon:");
  return share >= 0 ? static_cast<std::uint64_t>(share) : PrivateMemory(process);
}

}  // namespace millrace
