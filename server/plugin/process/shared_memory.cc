#include "server/plugin/process/shared_memory.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/system/errno_status.h"

namespace millrace {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kFirstInput = std::uint64_t{64} << 10;

Result<FileDescriptor> MakeMemory(std::uint64_t bytes, int seals) {
  FileDescriptor file(::memfd_create("millrace plugin", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.get() < 0 || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, seals) != 0) {
    return ErrnoStatus("no shared memory can be made for a plugin", errno);
  }
  return file;
}

Result<std::unique_ptr<MappedBytes>> MapFile(int file, std::uint64_t bytes, int protection) {
  void* const data = ::mmap(nullptr, bytes, protection, MAP_SHARED, file, 0);
  if (data == MAP_FAILED) {
    return ErrnoStatus("mapping " + std::to_string(bytes) + " bytes of a plugin's memory", errno);
  }
  return std::make_unique<MappedBytes>(std::span(static_cast<std::byte*>(data), bytes));
}

}  // namespace

MappedBytes::~MappedBytes() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

Result<bool> InputMemory::Reserve(std::uint64_t bytes) {
  const std::uint64_t had = mapped_ == nullptr ? 0 : mapped_->bytes().size();
  if (bytes <= had && had != 0) return false;
  const std::uint64_t size = (std::max({bytes, 2 * had, kFirstInput}) + kPage - 1) / kPage * kPage;
  MILLRACE_ASSIGN_OR_RETURN(FileDescriptor file, MakeMemory(size, F_SEAL_SHRINK | F_SEAL_GROW));
  MILLRACE_ASSIGN_OR_RETURN(mapped_, MapFile(file.get(), size, PROT_READ | PROT_WRITE));
  file_ = std::move(file);
  return true;
}

Result<std::unique_ptr<ReplyMemory>> ReplyMemory::Make() {
  auto memory = std::make_unique<ReplyMemory>();
  MILLRACE_ASSIGN_OR_RETURN(memory->file_, MakeMemory(kPage, F_SEAL_SHRINK));
  MILLRACE_ASSIGN_OR_RETURN(memory->head_,
                            MapFile(memory->file_.get(), kPage, PROT_READ | PROT_WRITE));
  return memory;
}

std::uint64_t ReplyMemory::Word(std::size_t number) const {
  auto* const words = reinterpret_cast<std::uint64_t*>(head_->bytes().data());
  return std::atomic_ref<std::uint64_t>(words[number]).load();
}

void ReplyMemory::SetWord(std::size_t number, std::uint64_t value) {
  auto* const words = reinterpret_cast<std::uint64_t*>(head_->bytes().data());
  std::atomic_ref<std::uint64_t>(words[number]).store(value);
}

std::uint64_t ReplyMemory::FileBytes() const {
  struct stat status {};
  return ::fstat(file_.get(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

Result<std::shared_ptr<const MappedBytes>> ReplyMemory::Map() {
  const std::uint64_t size = FileBytes();
  if (size < kPage) return Internal("a plugin's memory cannot be read");
  if (whole_ == nullptr || whole_->bytes().size() != size) {
    MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<MappedBytes> whole,
                              MapFile(file_.get(), size, PROT_READ));
    whole_ = std::move(whole);
  }
  return whole_;
}

}  // namespace millrace
