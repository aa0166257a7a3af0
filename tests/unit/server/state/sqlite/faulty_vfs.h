// SQLite's file system with faults: calls that fail, and power cuts. It is the default one for as
// long as it lives, so that the store under test opens its files through it unchanged.
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

  /// `power` says whether the power will be cut: every sync costs a reading of the file then.
  enum class Power { kStays, kMayGo };
  explicit FaultyVfs(Power power = Power::kStays);
  ~FaultyVfs();
  FaultyVfs(const FaultyVfs&) = delete;
  FaultyVfs& operator=(const FaultyVfs&) = delete;

  /// The `after`-th call of this kind from now on (0: the next one) fails with the SQLite code
  /// `code`; with `for_ever`, so do all after it. A write that fails leaves its first half.
  void Fail(Call call, int after, int code, bool for_ever = false);
  void Heal();
  /// Calls that failed since Fail.
  int failed() const;

  /// What a power cut leaves of the files in `from`, in the folder `to`: of every file what its
  /// last sync found there. REQUIRES: Power::kMayGo.
  void CutPower(const std::filesystem::path& from, const std::filesystem::path& to) const;

 private:
  friend struct FaultyVfsCalls;
  struct State;
  State* const state_;
};

}  // namespace millrace::test
