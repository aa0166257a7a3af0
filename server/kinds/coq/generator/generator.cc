#include "server/kinds/coq/generator/generator.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <vector>

#include <fmt/core.h>
#include <kj/exception.h>

#include "common/system/mutex.h"
#include "common/system/parallel.h"
#include "server/kinds/coq/generator/content.h"
#include "server/kinds/coq/generator/message.h"
#include "server/kinds/coq/generator/outline.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

Status FolderError(const std::error_code& error, std::string_view what, const fs::path& path) {
  std::string message = fmt::format("cannot {} {}: {}", what, path.string(), error.message());
  if (error == std::errc::permission_denied || error == std::errc::read_only_file_system ||
      error == std::errc::operation_not_permitted) {
    return PermissionDenied(std::move(message));
  }
  if (error == std::errc::no_space_on_device) return ResourceExhausted(std::move(message));
  return FailedPrecondition(std::move(message));
}

/// Deletes the files of an earlier generated dataset. Refuses if `dir` has other data files.
Status RemoveGenerated(const fs::path& dir) {
  const fs::path top = dir / generator::kTopFolder;
  std::error_code error;
  if (fs::is_symlink(top, error)) {
    return FailedPrecondition(
        fmt::format("{} is a link; remove it or choose another folder", top.string()));
  }
  std::vector<fs::path> old;
  for (fs::recursive_directory_iterator it(dir, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() != ".bin") continue;
    if (!generator::Outline::IsName(it->path().lexically_relative(dir).string())) {
      return FailedPrecondition(
          fmt::format("{} was not generated, and a dataset in {} would contain it; choose another "
                      "folder",
                      it->path().string(), dir.string()));
    }
    old.push_back(it->path());
  }
  if (error) return FolderError(error, "read folder", dir);
  for (const fs::path& file : old) {
    if (!fs::remove(file, error) && error) return FolderError(error, "delete", file);
  }
  return OkStatus();
}

/// Makes `dir` a folder without data files.
Status PrepareFolder(const fs::path& dir, bool force) {
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) return FolderError(error, "make folder", dir);
  const bool empty = fs::is_empty(dir, error);
  if (error) return FolderError(error, "read folder", dir);
  if (empty) return OkStatus();
  if (force) return RemoveGenerated(dir);
  return FailedPrecondition(fmt::format(
      "folder {} is not empty; choose another one, or replace the dataset that was generated there "
      "with --force",
      dir.string()));
}

class CoqGeneration {
 public:
  CoqGeneration(const fs::path& dir, const GeneratorOptions& options)
      : dir_(dir), options_(options), outline_(options), written_(outline_.files(), 0) {}

  Status Start(GeneratorReport* report) {
    MILLRACE_RETURN_IF_ERROR(MakeFolders());
    ParallelFor(options_.threads, outline_.files(), [this](std::size_t number) {
      if (failed_.load(std::memory_order_relaxed)) return;
      Status status = WriteCaught(static_cast<std::uint32_t>(number));
      if (!status.ok()) Fail(std::move(status));
    });
    MutexLock lock(mutex_);
    if (!first_error_.ok()) {
      RemoveWritten();
      return first_error_;
    }
    *report = report_;
    return OkStatus();
  }

 private:
  Status MakeFolders() {
    std::error_code error;
    for (std::uint32_t i = 0; i < outline_.files(); i += generator::kPackageFiles) {
      const fs::path folder = (dir_ / outline_.Name(i)).parent_path();
      fs::create_directories(folder, error);
      if (error) return FolderError(error, "make folder", folder);
    }
    return OkStatus();
  }

  Status WriteCaught(std::uint32_t number) {
    try {
      return Write(number);
    } catch (const kj::Exception& e) {
      return Internal(
          fmt::format("cannot encode {}: {}", outline_.Name(number), e.getDescription().cStr()));
    } catch (const std::bad_alloc&) {
      return ResourceExhausted(
          fmt::format("not enough memory for {} ({} nodes); ask for more files or fewer threads",
                      outline_.Name(number), outline_.file(number).nodes));
    }
  }

  Status Write(std::uint32_t number) {
    generator::FileContent content(outline_, number);
    generator::BuildContent(outline_, &content);
    const auto message = generator::MakeMessage(outline_, content, options_.segments);
    MILLRACE_ASSIGN_OR_RETURN(const std::uint64_t bytes,
                              generator::WriteMessage(*message, dir_ / outline_.Name(number)));
    written_[number] = 1;
    {
      MutexLock lock(mutex_);
      report_.files += 1;
      report_.nodes += content.graph.nodes().size();
      report_.edges += content.graph.edges().size();
      report_.definitions += content.extras.size();
      report_.proof_states += content.examples;
      report_.bytes += bytes;
    }
    if (options_.progress) options_.progress(content.graph.nodes().size());
    return OkStatus();
  }

  void Fail(Status status) {
    MutexLock lock(mutex_);
    if (first_error_.ok()) first_error_ = std::move(status);
    failed_.store(true, std::memory_order_relaxed);
  }

  // Removes what was written, because half a dataset would look like a damaged one. Errors of
  // removing are ignored: the first error matters more.
  void RemoveWritten() {
    std::error_code ignored;
    for (std::uint32_t i = 0; i < outline_.files(); ++i) {
      if (written_[i] != 0) fs::remove(dir_ / outline_.Name(i), ignored);
    }
    for (std::uint32_t i = 0; i < outline_.files(); i += generator::kPackageFiles) {
      fs::remove((dir_ / outline_.Name(i)).parent_path(), ignored);  // fails unless it is empty
    }
    fs::remove(dir_ / generator::kTopFolder, ignored);
  }

  const fs::path dir_;
  const GeneratorOptions options_;
  const generator::Outline outline_;
  std::vector<char> written_;  // one for each file, set by the thread that writes the file
  std::atomic<bool> failed_{false};
  Mutex mutex_;
  GeneratorReport report_ MILLRACE_GUARDED_BY(mutex_);
  Status first_error_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace

Status GenerateDataset(const fs::path& dir, const GeneratorOptions& options,
                       GeneratorReport* report) {
  MILLRACE_ASSIGN_OR_RETURN(const GeneratorOptions complete, CompleteGeneratorOptions(options));
  MILLRACE_RETURN_IF_ERROR(PrepareFolder(dir, options.force));
  return CoqGeneration(dir, complete).Start(report);
}

}  // namespace millrace
