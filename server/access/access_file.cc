#include "server/access/access_file.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "common/base/suggestion.h"
#include "common/security/file_snapshot.h"
#include "common/security/token.h"
#include "common/system/read_text_file.h"
#include "server/yaml/yaml_reader.h"

namespace millrace {
namespace {

constexpr Duration kLookPeriod = std::chrono::seconds(1);
constexpr std::size_t kDigestDigits = 64;

/// The roles that a token may give: workers and dispatchers have to have certificates, since they
/// prove to others who they are.
constexpr PeerRoles kOfTokens{PeerRole::kTrainer, PeerRole::kOperator, PeerRole::kViewer};

class RulesReader {
 public:
  explicit RulesReader(std::string_view name) : name_(name) {}

  Result<AccessRules> Read(const YamlNode& root) {
    if (root.kind == YamlNode::Kind::kNull) return AccessRules();
    MILLRACE_RETURN_IF_ERROR(CheckKeys(root, {"names", "tokens"}));
    AccessRules rules;
    for (const YamlEntry& entry : root.entries) {
      MILLRACE_RETURN_IF_ERROR(entry.key == "names" ? ReadNames(*entry.value, rules)
                                                    : ReadTokens(*entry.value, rules));
    }
    return rules;
  }

 private:
  Status Error(const YamlMark& mark, std::string_view message) const {
    return InvalidArgument(fmt::format("{}:{}:{}: {}", name_, mark.line, mark.column, message));
  }

  /// Checks that the node is a map with no other keys.
  Status CheckKeys(const YamlNode& node, const std::vector<std::string>& keys) const {
    if (node.kind != YamlNode::Kind::kMap) {
      return Error(node.mark, fmt::format("expected a map of {}, got {}", fmt::join(keys, ", "),
                                          node.Describe()));
    }
    for (const YamlEntry& entry : node.entries) {
      if (std::find(keys.begin(), keys.end(), entry.key) != keys.end()) continue;
      return Error(entry.mark, fmt::format("unknown key '{}'{}, expected one of {}", entry.key,
                                           Suggestion(entry.key, keys), fmt::join(keys, ", ")));
    }
    return OkStatus();
  }

  Status ReadNames(const YamlNode& node, AccessRules& rules) const {
    if (node.kind != YamlNode::Kind::kMap) {
      return Error(node.mark, "names: expected a map of name to rights, got " + node.Describe());
    }
    for (const YamlEntry& entry : node.entries) {
      MILLRACE_RETURN_IF_ERROR(CheckKeys(*entry.value, {"role", "datasets", "plugins"}));
      MILLRACE_ASSIGN_OR_RETURN(rules.names[entry.key], ReadIdentity(entry.key, *entry.value));
    }
    return OkStatus();
  }

  Status ReadTokens(const YamlNode& node, AccessRules& rules) const {
    if (node.kind != YamlNode::Kind::kList) {
      return Error(node.mark, "tokens: expected a list, got " + node.Describe());
    }
    for (const YamlPtr& item : node.items) {
      MILLRACE_RETURN_IF_ERROR(CheckKeys(*item, {"name", "sha256", "role", "datasets", "plugins"}));
      MILLRACE_ASSIGN_OR_RETURN(const std::string name, ReadField(*item, "name"));
      MILLRACE_ASSIGN_OR_RETURN(const std::string digest, ReadField(*item, "sha256"));
      const bool is_digest = digest.size() == kDigestDigits &&
                             digest.find_first_not_of("0123456789abcdef") == std::string::npos;
      if (!is_digest) {
        return Error(item->mark,
                     fmt::format("sha256 of token '{}': expected 64 hex digits, in small letters, "
                                 "as `millrace certs --token` prints them",
                                 name));
      }
      MILLRACE_ASSIGN_OR_RETURN(Identity identity, ReadIdentity(name, *item));
      if (!kOfTokens.HasAll(identity.roles)) {
        return Error(item->mark,
                     fmt::format("token '{}' has the role {}: expected {}; others need "
                                 "a certificate",
                                 name, identity.roles.ToString(), kOfTokens.ToString()));
      }
      if (!rules.tokens.emplace(digest, std::move(identity)).second) {
        return Error(item->mark, fmt::format("token '{}' is there twice", name));
      }
    }
    return OkStatus();
  }

  static const YamlNode* Find(const YamlNode& map, std::string_view key) {
    for (const YamlEntry& entry : map.entries) {
      if (entry.key == key) return entry.value.get();
    }
    return nullptr;
  }

  Result<std::string> ReadField(const YamlNode& map, std::string_view key) const {
    const YamlNode* const value = Find(map, key);
    if (value == nullptr || value->kind != YamlNode::Kind::kScalar || value->scalar.empty()) {
      return Error(map.mark, fmt::format("a token needs {}: expected a text", key));
    }
    return value->scalar;
  }

  Result<Identity> ReadIdentity(const std::string& name, const YamlNode& map) const {
    Identity identity{.proved = true, .name = name};
    const YamlNode* const role = Find(map, "role");
    if (role == nullptr) return Error(map.mark, fmt::format("'{}' needs a role", name));
    MILLRACE_ASSIGN_OR_RETURN(identity.roles, ReadRoles(*role));
    if (const YamlNode* const datasets = Find(map, "datasets")) {
      if (datasets->kind != YamlNode::Kind::kList) {
        return Error(datasets->mark,
                     "datasets: expected a list of ids, got " + datasets->Describe());
      }
      identity.datasets.emplace();
      for (const YamlPtr& id : datasets->items) {
        if (id->kind != YamlNode::Kind::kScalar) {
          return Error(id->mark, "datasets: expected an id, got " + id->Describe());
        }
        identity.datasets->insert(id->scalar);
      }
    }
    if (const YamlNode* const plugins = Find(map, "plugins")) {
      if (plugins->scalar != "true" && plugins->scalar != "false") {
        return Error(plugins->mark, "plugins: expected true or false, got " + plugins->Describe());
      }
      identity.plugins = plugins->scalar == "true";
    }
    return identity;
  }

  Result<PeerRoles> ReadRoles(const YamlNode& node) const {
    PeerRoles roles;
    if (node.kind == YamlNode::Kind::kScalar) {
      if (node.scalar == "none") return roles;
      MILLRACE_RETURN_IF_ERROR(AddRole(node, roles));
      return roles;
    }
    if (node.kind != YamlNode::Kind::kList) {
      return Error(node.mark, "role: expected a role or a list of them, got " + node.Describe());
    }
    for (const YamlPtr& item : node.items) MILLRACE_RETURN_IF_ERROR(AddRole(*item, roles));
    return roles;
  }

  Status AddRole(const YamlNode& node, PeerRoles& roles) const {
    const std::optional<PeerRole> role = ParsePeerRole(node.scalar);
    if (!role) {
      return Error(node.mark,
                   "role: expected trainer, operator, viewer, worker, dispatcher or "
                   "none, got " +
                       node.Describe());
    }
    roles.Add(*role);
    return OkStatus();
  }

  const std::string_view name_;
};

Result<AccessRules> ReadRules(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  return ParseAccessRules(text, path);
}

}  // namespace

Result<AccessRules> ParseAccessRules(std::string_view text, std::string_view name) {
  MILLRACE_ASSIGN_OR_RETURN(const YamlPtr root, ReadYaml(text, name));
  return RulesReader(name).Read(*root);
}

AccessFile::AccessFile(std::string path, std::shared_ptr<const Clock> clock,
                       std::shared_ptr<Logger> log)
    : path_(std::move(path)), clock_(std::move(clock)), log_(std::move(log)) {}

Result<std::shared_ptr<AccessFile>> AccessFile::Open(const std::string& path,
                                                     std::shared_ptr<const Clock> clock,
                                                     std::shared_ptr<Logger> log) {
  const std::shared_ptr<AccessFile> file(new AccessFile(path, std::move(clock), std::move(log)));
  MutexLock lock(file->mutex_);
  file->look_ = FileSnapshot(path);
  MILLRACE_ASSIGN_OR_RETURN(AccessRules rules, ReadRules(path));
  file->rules_ = std::make_shared<const AccessRules>(std::move(rules));
  file->looked_at_ = file->clock_->Now();
  return file;
}

std::shared_ptr<const AccessRules> AccessFile::Current() {
  MutexLock lock(mutex_);
  if (clock_->Now() - looked_at_ >= kLookPeriod) LookAgain();
  return rules_;
}

void AccessFile::LookAgain() {
  looked_at_ = clock_->Now();
  std::string look = FileSnapshot(path_);
  if (look == look_) return;
  Result<AccessRules> rules = ReadRules(path_);
  if (!rules.ok()) {
    if (std::exchange(refused_, rules.status()) != rules.status()) {
      log_->Error("access file not read again; the rules before stay in force",
                  {{"why", rules.status()}});
    }
    return;
  }
  refused_ = OkStatus();
  look_ = std::move(look);
  log_->Info("access file read again",
             {{"file", path_}, {"names", rules->names.size()}, {"tokens", rules->tokens.size()}});
  rules_ = std::make_shared<const AccessRules>(*std::move(rules));
  ++version_;
}

std::uint64_t AccessFile::version() {
  MutexLock lock(mutex_);
  if (clock_->Now() - looked_at_ >= kLookPeriod) LookAgain();
  return version_;
}

Result<Identity> AccessFile::Identify(const Shown& shown) {
  const std::shared_ptr<const AccessRules> rules = Current();
  if (shown.certificate) {
    Identity identity = IdentityOfCertificate(shown);
    const auto named = rules->names.find(identity.name);
    return named == rules->names.end() ? identity : named->second;
  }
  if (shown.token.empty()) {
    return Status(StatusCode::kUnauthenticated,
                  "neither a certificate nor a token: expected tls.crt and tls.key, or token, in "
                  "the folder for TLS");
  }
  const auto token = rules->tokens.find(TokenDigest(shown.token));
  if (token != rules->tokens.end()) return token->second;
  return Status(StatusCode::kUnauthenticated,
                "unknown token: it is not in the server's access file, or is no more");
}

}  // namespace millrace
