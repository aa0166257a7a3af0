// `millrace import`: brings data of other frameworks into a dataset of records or a graph dataset.
// The frameworks are Python, so the work is done by the Python package, in whose place this program
// ends.

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/core.h>

#include "client/cli/commands.h"
#include "common/system/errno_status.h"

namespace millrace::cli {
namespace {

/// Runs the package with the arguments that follow. The folder of work may hold modules of any
/// name, so that the package is looked for without it. 2 is the exit code of a request that cannot
/// be met.
constexpr const char* kRunPackage = R"(import sys
sys.path[:] = [folder for folder in sys.path if folder]
try:
    import millrace._import.main
except ModuleNotFoundError as error:
    if error.name not in ("millrace", "millrace._import", "millrace._import.main"):
        raise
    old = "a newer one than" if error.name != "millrace" else "which is not in"
    print(f"millrace: millrace import needs the Python package, {old} {sys.executable}: install it "
          "with pip install ./client/python, or name a Python that has it in MILLRACE_PYTHON",
          file=sys.stderr)
    sys.exit(2)
sys.exit(millrace._import.main.main(sys.argv[1:]))
)";

/// The Python whose package this program came with, if it is installed as one of a package:
/// PREFIX/lib/pythonX.Y/site-packages/millrace/bin/millrace. Empty otherwise.
std::string PythonOfThisPackage() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path package = program.parent_path().parent_path();
  const std::filesystem::path library = package.parent_path().parent_path();
  const std::filesystem::path python =
      library.parent_path().parent_path() / "bin" / library.filename();
  if (error || !std::filesystem::exists(package / "_import", error)) return "";
  return access(python.c_str(), X_OK) == 0 ? python.string() : "";
}

std::string FindPython() {
  // The package's own entry point names its Python here.
  const char* named = std::getenv("MILLRACE_PYTHON");
  if (named != nullptr && *named != '\0') return named;
  const std::string own = PythonOfThisPackage();
  return own.empty() ? "python3" : own;
}

/// Returns only if there is no Python.
Status Import(const std::vector<std::string>& given) {
  std::string python = FindPython();
  std::string option = "-c";
  std::string program = kRunPackage;
  std::vector<std::string> rest = given;
  std::vector<char*> arguments = {python.data(), option.data(), program.data()};
  for (std::string& argument : rest) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  execvp(python.c_str(), arguments.data());
  return ErrnoStatus(
      fmt::format("millrace import needs the Python package, and {} cannot be run: name a Python "
                  "that has the package in MILLRACE_PYTHON",
                  python),
      errno);
}

}  // namespace

void AddImportCommand(Tool& tool) {
  const auto rest = std::make_shared<std::vector<std::string>>();
  CommandLine& command =
      tool.Add("import", "Bring data into records, edges into graphs, or texts into tokens", "",
               [rest] { return Import(*rest); });
  // The package reads the arguments, and has the help.
  command.TakeRest(*rest);
}

}  // namespace millrace::cli
