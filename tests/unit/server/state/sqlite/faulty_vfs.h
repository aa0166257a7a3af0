// SQLite's file system with faults: calls that fail, and power cuts. An object is SQLite's default
// file system while it lives, so that the store under test uses it unchanged.
//
// Thread-compatible.
#pragma once

#include <filesystem>
#include <string>

namespace millrace::test {

struct FaultyVfsCalls;

class FaultyVfs {
 public:
  enum class Call { kOpen, kRead, kWrite, kSync, kTruncate };

  /// kMayGo: the power may be cut, so every sync also reads the file, which takes time.
  enum class Power { kStays, kMayGo };
  explicit FaultyVfs(Power power = Power::kStays);
  ~FaultyVfs();
  FaultyVfs(const FaultyVfs&) = delete;
  FaultyVfs& operator=(const FaultyVfs&) = delete;

  /// Makes a later call of this kind fail with the SQLite code `code`: the next one if `after` is
  /// 0, otherwise the one after so many calls. With `for_ever`, all calls after it fail too. A
  /// write that fails still writes its first half.
  void Fail(Call call, int after, int code, bool for_ever = false);
  void Heal();
  /// How many calls have failed since Fail.
  int failed() const;

  /// Writes into the folder `to` what a power cut leaves of the files in `from`: the content of
  /// each at its last sync. REQUIRES: Power::kMayGo.
  void CutPower(const std::filesystem::path& from, const std::filesystem::path& to) const;

 private:
  friend struct FaultyVfsCalls;
  struct State;
  State* const state_;
};

}  // namespace millrace::test
