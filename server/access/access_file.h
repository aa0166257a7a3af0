// The access file, with the rights of named peers, and the tokens:
//
//   names:
//     alice: {role: trainer, datasets: [stdlib], plugins: false}
//     mallory: {role: none}
//   tokens:
//     - {name: bob, sha256: 9f86d0…, role: trainer, datasets: [stdlib]}
//
// A name is the name of a certificate. It gets the role of the file in place of the certificate's
// role; a name that is not in the file has the rights of its certificate. `role` is one role or a
// list of them, or `none`; for a token: trainer, operator or viewer. Without `datasets`, all may be
// read; without `plugins`, they may be used.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "common/access/access_policy.h"
#include "common/base/log.h"
#include "common/base/result.h"
#include "common/system/clock.h"
#include "common/system/mutex.h"

namespace millrace {

/// The content of an access file. Immutable; thread-safe.
struct AccessRules {
  std::map<std::string, Identity> names;
  std::map<std::string, Identity> tokens;  // by their digests (TokenDigest)
};

/// Reads the text of an access file. InvalidArgument "<name>:<line>:<column>: …".
Result<AccessRules> ParseAccessRules(std::string_view text, std::string_view name);

/// The policy of an access file. It checks at most once a second whether the file has changed. If
/// the changed file cannot be read, the earlier rules stay in force, and the log says why.
/// Thread-safe.
class AccessFile final : public AccessPolicy {
 public:
  /// Errors of the file system and of ParseAccessRules.
  static Result<std::shared_ptr<AccessFile>> Open(const std::string& path,
                                                  std::shared_ptr<const Clock> clock,
                                                  std::shared_ptr<Logger> log);

  Result<Identity> Identify(const Shown& shown) override;
  /// Always: a token may be added while the server runs.
  bool takes_tokens() const override { return true; }
  std::uint64_t version() override;

 private:
  AccessFile(std::string path, std::shared_ptr<const Clock> clock, std::shared_ptr<Logger> log);
  std::shared_ptr<const AccessRules> Current();
  void LookAgain() MILLRACE_REQUIRES(mutex_);

  const std::string path_;
  const std::shared_ptr<const Clock> clock_;
  const std::shared_ptr<Logger> log_;
  Mutex mutex_;
  std::shared_ptr<const AccessRules> rules_ MILLRACE_GUARDED_BY(mutex_);
  std::uint64_t version_ MILLRACE_GUARDED_BY(mutex_) = 1;  // how often the rules were read
  std::string look_ MILLRACE_GUARDED_BY(mutex_);           // of the file in force (FileSnapshot)
  Time looked_at_ MILLRACE_GUARDED_BY(mutex_);
  Status refused_ MILLRACE_GUARDED_BY(mutex_);  // why the present file is not in force
};

}  // namespace millrace
