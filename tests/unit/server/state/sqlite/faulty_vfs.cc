#include "tests/unit/server/state/sqlite/faulty_vfs.h"

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>

namespace millrace::test {

namespace fs = std::filesystem;

struct FaultyVfs::State {
  struct Fault {
    int after = -1;  // calls until the fault; -1: no fault
    int code = SQLITE_OK;
    bool for_ever = false;
  };

  sqlite3_vfs vfs{};
  sqlite3_vfs* real = nullptr;
  std::array<Fault, 5> faults;
  int failed = 0;
  bool remembers = false;
  std::map<std::string, std::string> synced;  // path -> content at the last sync

  /// SQLITE_OK, or the code with which this call fails.
  int Pass(Call call) {
    Fault& fault = faults.at(static_cast<std::size_t>(call));
    if (fault.after < 0) return SQLITE_OK;
    if (fault.after > 0) {
      --fault.after;
      return SQLITE_OK;
    }
    if (!fault.for_ever) fault.after = -1;
    ++failed;
    return fault.code;
  }
};

namespace {

/// An open file as SQLite sees it. The real file comes after it in the same memory.
struct File {
  sqlite3_file base;
  void* owner;  // a FaultyVfs::State
  const char* path;
  sqlite3_file* real;
};

File* Of(sqlite3_file* file) { return reinterpret_cast<File*>(file); }
sqlite3_file* Real(sqlite3_file* file) { return Of(file)->real; }

std::string Content(const char* path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  std::string content(static_cast<std::size_t>(std::max<std::streamoff>(in.tellg(), 0)), '\0');
  in.seekg(0);
  in.read(content.data(), static_cast<std::streamsize>(content.size()));
  return content;
}

}  // namespace

/// The functions that SQLite calls.
struct FaultyVfsCalls {
  using S = FaultyVfs::State;
  using Call = FaultyVfs::Call;

  static S& StateOf(sqlite3_file* file) { return *static_cast<S*>(Of(file)->owner); }

  static int Close(sqlite3_file* f) { return Real(f)->pMethods->xClose(Real(f)); }
  static int Read(sqlite3_file* f, void* to, int bytes, sqlite3_int64 at) {
    if (const int code = StateOf(f).Pass(Call::kRead); code != SQLITE_OK) return code;
    return Real(f)->pMethods->xRead(Real(f), to, bytes, at);
  }
  static int Write(sqlite3_file* f, const void* from, int bytes, sqlite3_int64 at) {
    const int code = StateOf(f).Pass(Call::kWrite);
    if (code == SQLITE_OK) return Real(f)->pMethods->xWrite(Real(f), from, bytes, at);
    Real(f)->pMethods->xWrite(Real(f), from, bytes / 2, at);
    return code;
  }
  static int Truncate(sqlite3_file* f, sqlite3_int64 bytes) {
    if (const int code = StateOf(f).Pass(Call::kTruncate); code != SQLITE_OK) return code;
    return Real(f)->pMethods->xTruncate(Real(f), bytes);
  }
  static int Sync(sqlite3_file* f, int flags) {
    if (const int code = StateOf(f).Pass(Call::kSync); code != SQLITE_OK) return code;
    const int code = Real(f)->pMethods->xSync(Real(f), flags);
    if (code == SQLITE_OK && StateOf(f).remembers)
      StateOf(f).synced[Of(f)->path] = Content(Of(f)->path);
    return code;
  }
  static int FileSize(sqlite3_file* f, sqlite3_int64* bytes) {
    return Real(f)->pMethods->xFileSize(Real(f), bytes);
  }
  static int Lock(sqlite3_file* f, int level) { return Real(f)->pMethods->xLock(Real(f), level); }
  static int Unlock(sqlite3_file* f, int level) {
    return Real(f)->pMethods->xUnlock(Real(f), level);
  }
  static int CheckReservedLock(sqlite3_file* f, int* out) {
    return Real(f)->pMethods->xCheckReservedLock(Real(f), out);
  }
  static int FileControl(sqlite3_file* f, int op, void* arg) {
    return Real(f)->pMethods->xFileControl(Real(f), op, arg);
  }
  static int SectorSize(sqlite3_file* f) { return Real(f)->pMethods->xSectorSize(Real(f)); }
  static int Characteristics(sqlite3_file* f) {
    return Real(f)->pMethods->xDeviceCharacteristics(Real(f));
  }
  static int ShmMap(sqlite3_file* f, int page, int bytes, int extend, void volatile** out) {
    return Real(f)->pMethods->xShmMap(Real(f), page, bytes, extend, out);
  }
  static int ShmLock(sqlite3_file* f, int offset, int n, int flags) {
    return Real(f)->pMethods->xShmLock(Real(f), offset, n, flags);
  }
  static void ShmBarrier(sqlite3_file* f) { Real(f)->pMethods->xShmBarrier(Real(f)); }
  static int ShmUnmap(sqlite3_file* f, int remove) {
    return Real(f)->pMethods->xShmUnmap(Real(f), remove);
  }

  static int Open(sqlite3_vfs* vfs, const char* path, sqlite3_file* f, int flags, int* out) {
    auto* state = static_cast<S*>(vfs->pAppData);
    File* file = Of(f);
    file->base.pMethods = nullptr;
    if (const int code = state->Pass(Call::kOpen); code != SQLITE_OK) return code;
    file->owner = state;
    file->path = path;  // SQLite keeps the text while the file is open
    file->real = reinterpret_cast<sqlite3_file*>(file + 1);
    const int code = state->real->xOpen(state->real, path, file->real, flags, out);
    if (file->real->pMethods == nullptr) return code;
    static const sqlite3_io_methods methods = {2,
                                               Close,
                                               Read,
                                               Write,
                                               Truncate,
                                               Sync,
                                               FileSize,
                                               Lock,
                                               Unlock,
                                               CheckReservedLock,
                                               FileControl,
                                               SectorSize,
                                               Characteristics,
                                               ShmMap,
                                               ShmLock,
                                               ShmBarrier,
                                               ShmUnmap,
                                               nullptr,
                                               nullptr};
    file->base.pMethods = &methods;
    return code;
  }
  static int Delete(sqlite3_vfs* vfs, const char* path, int sync) {
    auto* state = static_cast<S*>(vfs->pAppData);
    state->synced.erase(path);
    return state->real->xDelete(state->real, path, sync);
  }
};

FaultyVfs::FaultyVfs(Power power) : state_(new State) {
  state_->remembers = power == Power::kMayGo;
  state_->real = sqlite3_vfs_find(nullptr);
  state_->vfs = *state_->real;  // functions that are not about files stay the same
  state_->vfs.pNext = nullptr;
  state_->vfs.zName = "millrace-faulty";
  state_->vfs.pAppData = state_;
  state_->vfs.szOsFile = static_cast<int>(sizeof(File)) + state_->real->szOsFile;
  state_->vfs.xOpen = FaultyVfsCalls::Open;
  state_->vfs.xDelete = FaultyVfsCalls::Delete;
  sqlite3_vfs_register(&state_->vfs, 1);
}

FaultyVfs::~FaultyVfs() {
  sqlite3_vfs_unregister(&state_->vfs);
  sqlite3_vfs_register(state_->real, 1);
  delete state_;
}

void FaultyVfs::Fail(Call call, int after, int code, bool for_ever) {
  state_->failed = 0;
  state_->faults.at(static_cast<std::size_t>(call)) = {after, code, for_ever};
}

void FaultyVfs::Heal() { state_->faults = {}; }

int FaultyVfs::failed() const { return state_->failed; }

void FaultyVfs::CutPower(const fs::path& from, const fs::path& to) const {
  for (const auto& [path, content] : state_->synced) {
    if (fs::path(path).parent_path() != from) continue;
    std::ofstream(to / fs::path(path).filename(), std::ios::binary) << content;
  }
}

}  // namespace millrace::test
