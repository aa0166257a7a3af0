#include "server/files/sigbus_guard.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <string>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

namespace millrace {
namespace {

// Holds one registered range. Slots are never freed, because the handler reads them while other
// threads release and take them. `version` is odd while a slot changes. The handler skips such a
// slot: it cannot be the slot of the fault, because its owner is busy changing it.
struct Slot {
  std::atomic<bool> taken{false};
  std::atomic<std::uint32_t> version{0};
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
  std::atomic<std::uint64_t> damage{0};  // offset of the first fault, plus 1; 0: no fault
};

struct Table {
  Slot slots[GuardedRange::kMaxRanges];
  std::atomic<std::size_t> used{0};   // slots from this number on were never taken
  std::atomic<std::size_t> lower{0};  // the search for a free slot begins here
  std::atomic<std::uint64_t> faults{0};
  std::uintptr_t page_bytes = 0;   // set when the guard is installed
  struct sigaction previous = {};  // the action before the guard was installed
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

constinit Table table;

void Raise(std::atomic<std::size_t>& value, std::size_t least) {
  std::size_t now = value.load();
  while (now < least && !value.compare_exchange_weak(now, least)) {
  }
}

void SetRange(Slot& slot, std::uintptr_t begin, std::uintptr_t end) {
  slot.version.fetch_add(1);
  slot.begin.store(begin);
  slot.end.store(end);
  slot.version.fetch_add(1);
}

// Async-signal-safe, and so is everything that it calls. On Linux, mmap is a bare system call.
bool PutZeros(std::uintptr_t address) {
  const std::size_t used = table.used.load();
  for (std::size_t i = 0; i < used; ++i) {
    Slot& slot = table.slots[i];
    const std::uint32_t version = slot.version.load();
    const std::uintptr_t begin = slot.begin.load();
    const std::uintptr_t end = slot.end.load();
    if (version % 2 != 0 || version != slot.version.load()) continue;
    if (address < begin || address >= end) continue;
    // Marked before the pages are replaced, so that a thread that reads a zero finds the mark.
    std::uint64_t none = 0;
    slot.damage.compare_exchange_strong(none, 1 + (address - begin));
    table.faults.fetch_add(1);
    // Up to the end of the range, so that a file has at most two maps, however often it faults.
    const std::uintptr_t page = address / table.page_bytes * table.page_bytes;
    return ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
  }
  return false;
}

// Does what SIGBUS did before the guard was installed.
void Forward(int signal, siginfo_t* info, void* context) {
  const struct sigaction& previous = table.previous;
  if ((previous.sa_flags & SA_SIGINFO) != 0) return previous.sa_sigaction(signal, info, context);
  if (previous.sa_handler == SIG_DFL || (previous.sa_handler == SIG_IGN && info->si_code > 0)) {
    // A fault happens again when this function returns. A signal that a process sent has to be sent
    // again.
    struct sigaction plain = {};
    plain.sa_handler = SIG_DFL;
    ::sigaction(SIGBUS, &plain, nullptr);
    if (info->si_code <= 0) ::raise(SIGBUS);
    return;
  }
  if (previous.sa_handler != SIG_IGN) previous.sa_handler(signal);
}

void OnSigbus(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  // si_addr is only valid if the kernel raised the signal.
  const bool fault = info->si_code > 0;
  if (!fault || !PutZeros(reinterpret_cast<std::uintptr_t>(info->si_addr))) {
    Forward(signal, info, context);
  }
  errno = error;
}

}  // namespace

void InstallSigbusGuard() {
  static std::once_flag once;
  std::call_once(once, [] {
    table.page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    ::sigaction(SIGBUS, nullptr, &table.previous);
    struct sigaction action = {};
    action.sa_sigaction = &OnSigbus;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, nullptr);
  });
}

std::uint64_t SigbusFaults() { return table.faults.load(); }

Result<GuardedRange> GuardedRange::Register(std::span<const std::byte> bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t end = (begin + bytes.size() + page - 1) / page * page;
  const std::size_t from = table.lower.load();
  for (std::size_t i = 0; i < kMaxRanges; ++i) {
    const std::size_t place = (from + i) % kMaxRanges;
    Slot& slot = table.slots[place];
    if (slot.taken.load(std::memory_order_relaxed) || slot.taken.exchange(true)) continue;
    table.lower.store(place + 1 == kMaxRanges ? 0 : place + 1);
    slot.damage.store(0);
    SetRange(slot, begin, end);
    Raise(table.used, place + 1);
    GuardedRange range;
    range.slot_ = place;
    return range;
  }
  return ResourceExhausted("this process has " + std::to_string(kMaxRanges) +
                           " files mapped, its limit");
}

GuardedRange::GuardedRange(GuardedRange&& other) noexcept
    : slot_(std::exchange(other.slot_, kNoSlot)) {}

GuardedRange& GuardedRange::operator=(GuardedRange&& other) noexcept {
  if (this != &other) {
    Release();
    slot_ = std::exchange(other.slot_, kNoSlot);
  }
  return *this;
}

void GuardedRange::Release() {
  if (slot_ == kNoSlot) return;
  Slot& slot = table.slots[slot_];
  SetRange(slot, 0, 0);
  slot.taken.store(false);
  // Low slots are used first, so that the handler has few to look at. If two threads release slots
  // at once, one slot may be missed here. The search finds it when it comes round again.
  if (slot_ < table.lower.load()) table.lower.store(slot_);
  slot_ = kNoSlot;
}

std::optional<std::uint64_t> GuardedRange::damaged_at() const {
  if (slot_ == kNoSlot) return std::nullopt;
  const std::uint64_t damage = table.slots[slot_].damage.load();
  if (damage == 0) return std::nullopt;
  return damage - 1;
}

}  // namespace millrace
