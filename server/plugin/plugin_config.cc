#include "server/plugin/plugin_config.h"

#include <cerrno>
#include <cstdlib>
#include <set>
#include <system_error>

#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "common/base/json_text.h"
#include "common/json/json.h"
#include "common/system/errno_status.h"
#include "server/plugin/files/plugin_files.h"

namespace millrace {
namespace {

constexpr int kMaxProcesses = 4096;

bool IsPythonName(std::string_view text) {
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return false;
  for (const char c : text) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!good && c != '_') return false;
  }
  return true;
}

bool IsProgram(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

Status CheckName(std::string_view name) {
  if (!IsPythonName(name)) {
    return InvalidArgument(
        fmt::format("the plugin {}: expected the name of a Python module: letters, digits and _",
                    JsonText(name)));
  }
  return OkStatus();
}

Status CheckTensors(const std::vector<PluginTensor>& tensors, bool are_arguments) {
  std::set<std::string> names;
  for (const PluginTensor& tensor : tensors) {
    if (tensor.name.empty() || (are_arguments && !IsPythonName(tensor.name))) {
      return InvalidArgument(fmt::format("{} cannot be the name of {}", JsonText(tensor.name),
                                         are_arguments ? "an argument" : "a tensor"));
    }
    if (!names.insert(tensor.name).second) {
      return InvalidArgument(fmt::format("{} comes twice", tensor.name));
    }
    MILLRACE_RETURN_IF_ERROR(CheckTensorType(tensor.type).WithContext(tensor.name));
  }
  return OkStatus();
}

}  // namespace

Result<PluginConfig> ParsePlugin(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals + 1 == text.size()) {
    return InvalidArgument(fmt::format("{}: expected NAME=PATH", JsonText(text)));
  }
  PluginConfig plugin;
  plugin.name = text.substr(0, equals);
  plugin.path = std::string(text.substr(equals + 1));
  MILLRACE_RETURN_IF_ERROR(CheckName(plugin.name));
  return plugin;
}

Status CheckPlugin(const PluginConfig& plugin) {
  MILLRACE_RETURN_IF_ERROR(CheckName(plugin.name));
  const std::string where = fmt::format("the plugin {}", plugin.name);
  if (plugin.processes < 1 || plugin.processes > kMaxProcesses) {
    return InvalidArgument(
        fmt::format("{}: processes: {}, expected 1 to {}", where, plugin.processes, kMaxProcesses));
  }
  if (plugin.start_timeout <= Duration::zero()) {
    return InvalidArgument(where + ": start_timeout: expected more than 0");
  }
  for (const auto& [name, value] : plugin.env) {
    if (name.empty() || name.find('=') != std::string::npos || name.find('\0') != name.npos ||
        value.find('\0') != value.npos) {
      return InvalidArgument(
          fmt::format("{}: env: {} cannot be the name of a variable", where, JsonText(name)));
    }
  }
  MILLRACE_RETURN_IF_ERROR(FindPython(plugin.python).status().WithContext(where));
  const Result<FileSet> files = ReadFileSet(plugin.path);
  if (!files.ok()) return files.status().WithContext(where);
  return CheckHasModule(*files, plugin.name).WithContext(where + ": " + plugin.path.string());
}

Result<std::string> FindPython(const std::string& python) {
  if (python.find('/') != std::string::npos) {
    if (IsProgram(python)) return python;
    const int error = ::access(python.c_str(), X_OK) == 0 ? EACCES : errno;
    return ErrnoStatus(fmt::format("python {} is no program that can be run", python), error);
  }
  const char* const path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path;
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    const std::string found = std::string(folder) + "/" + python;
    if (!folder.empty() && !python.empty() && IsProgram(found)) return found;
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
  }
  return NotFound(fmt::format("python {}: no folder of PATH has such a program", JsonText(python)));
}

std::vector<std::string> PluginEnvironment(const PluginConfig& plugin) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string_view::npos) continue;
    variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  for (const char* name : {"PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONPYCACHEPREFIX"}) {
    variables.erase(name);
  }
  for (const char* name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"}) {
    variables[name] = "1";
  }
  variables["CUDA_VISIBLE_DEVICES"] = "";
  variables["PYTHONHASHSEED"] = "0";
  variables["PYTHONDONTWRITEBYTECODE"] = "1";
  for (const auto& [name, value] : plugin.env) variables[name] = value;
  std::vector<std::string> environment;
  for (const auto& [name, value] : variables) environment.push_back(name + "=" + value);
  return environment;
}

Result<PluginObject> ParsePluginObject(std::string_view text) {
  const std::size_t colon = text.find(':');
  PluginObject object;
  object.module = text.substr(0, colon);
  if (colon != std::string_view::npos) object.name = text.substr(colon + 1);
  if (!IsPythonName(object.module) || !IsPythonName(object.name)) {
    return InvalidArgument(
        fmt::format("{}: expected \"module:name\", both without a dot", JsonText(text)));
  }
  return object;
}

Status CheckPluginObject(const PluginObject& object, const PluginConfig& plugin) {
  const std::string where = object.ToString();
  if (object.module != plugin.name) {
    return InvalidArgument(fmt::format("{}: this is not of the plugin {}", where, plugin.name));
  }
  MILLRACE_RETURN_IF_ERROR(ParsePluginObject(where).status());
  if (object.timeout <= Duration::zero()) {
    return InvalidArgument(where + ": timeout: expected more than 0");
  }
  const Result<Json> args = Json::Parse(object.args);
  if (!args.ok() || !args->is_object()) {
    return InvalidArgument(fmt::format("{}: args: expected names and values", where));
  }
  const bool is_source = object.kind == PluginObject::Kind::kSource;
  if (is_source && (object.per_batch || !object.inputs.empty() || !object.outputs.empty())) {
    return InvalidArgument(where + ": a source has no inputs, and says its outputs itself");
  }
  if (!is_source && (object.outputs.empty() || object.inputs.empty())) {
    return InvalidArgument(where + ": a function needs inputs and outputs");
  }
  if (object.per_batch && !object.drop.empty()) {
    return InvalidArgument(where + ": drop: a call for a whole batch drops no examples");
  }
  for (const auto& [name, value] : args->AsObject()) {
    const bool taken =
        is_source ? name == "folder" && !object.folder.empty() : name == "rng" || name == "rngs";
    bool is_input = false;
    for (const PluginTensor& input : object.inputs) is_input |= input.name == name;
    if (!IsPythonName(name) || taken || is_input) {
      return InvalidArgument(fmt::format("{}: args: {} cannot be the name of an argument{}", where,
                                         JsonText(name),
                                         IsPythonName(name) ? ": it is given already" : ""));
    }
  }
  MILLRACE_RETURN_IF_ERROR(CheckTensors(object.inputs, true).WithContext(where + ": inputs"));
  return CheckTensors(object.outputs, false).WithContext(where + ": outputs");
}

}  // namespace millrace
