// Copies a dataset into memory.

#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/system/host.h"
#include "server/kinds/graph/format/graph_dataset.h"
#include "server/kinds/graph/format/verify.h"

namespace millrace {
namespace {

/// Copies begin at multiples of this, as mapped files do.
constexpr std::uint64_t kCopyAlignment = 4096;

std::uint64_t CopyBytes(const WatchedFile& file) {
  return (file.file.bytes().size() + kCopyAlignment - 1) / kCopyAlignment * kCopyAlignment;
}

Result<HugeMemory> MemoryFor(const std::vector<WatchedFile>& files) {
  std::uint64_t needed = 0;
  for (const WatchedFile& file : files) needed += CopyBytes(file);
  const AvailableMemory available = ReadAvailableMemory();
  if (needed > available.bytes) {
    return ResourceExhausted(
        fmt::format("cannot be copied into memory (in_memory): it needs {} bytes, and the {} has "
                    "only {} left",
                    needed, available.from, available.bytes));
  }
  return HugeMemory::Allocate(needed);
}

}  // namespace

Result<std::shared_ptr<const GraphDataset>> GraphDataset::OpenInMemory(
    const std::filesystem::path& dir, const GraphCopyOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<GraphDataset> dataset, OpenMapped(dir, {}));
  const std::vector<WatchedFile>& files = dataset->files().files();
  auto memory = MemoryFor(files);
  if (!memory.ok()) return memory.status().WithContext("dataset " + dir.string());
  ProgressCount progress(options.progress, GraphBytes(*dataset));
  VerifyGraphOptions copying;
  copying.threads = options.threads;
  copying.stop = options.stop;
  copying.verified = options.verified;
  copying.progress = [&progress](std::uint64_t bytes) { progress.Add(bytes); };
  std::span<std::byte> rest = memory->bytes();
  for (const WatchedFile& file : files) {
    copying.copies.push_back(rest.first(file.file.bytes().size()));
    rest = rest.subspan(CopyBytes(file));
  }
  MILLRACE_RETURN_IF_ERROR(VerifyGraph(*dataset, copying));
  memory->Protect();
  for (auto& [name, array] : dataset->arrays_) {
    for (std::size_t f = 0; f < files.size(); ++f) {
      const std::span<const std::byte> mapped = files[f].file.bytes();
      if (array.data < mapped.data() || array.data >= mapped.data() + mapped.size()) continue;
      array.data = copying.copies[f].data() + (array.data - mapped.data());
      break;
    }
  }
  dataset->copies_ = *std::move(memory);
  dataset->files_ = std::make_unique<const WatchedFiles>(std::vector<WatchedFile>());
  return std::shared_ptr<const GraphDataset>(dataset);
}

}  // namespace millrace
