// `millrace generate`: writes a made-up dataset.

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "client/cli/commands.h"
#include "client/cli/progress.h"
#include "common/command_line/parameter_flag.h"
#include "common/parameters/params.h"
#include "server/catalog/product_kinds.h"

namespace millrace::cli {
namespace {

/// The kind that is made up if none is told.
constexpr const char* kUsualKind = "coq";

struct GenerateArguments {
  std::filesystem::path dir;
  std::string kind = kUsualKind;
  std::map<std::string, std::string> texts;  // those given, by names of parameters
};

/// The values of the texts. InvalidArgument for one that the kind does not take.
Result<Params> ReadTexts(const DatasetKind& kind, const std::map<std::string, std::string>& texts) {
  const std::vector<Parameter> parameters = kind.generate_parameters();
  std::map<std::string, ParamValue> values;
  for (const auto& [name, text] : texts) {
    const Parameter* const parameter = FindParameter(parameters, name);
    if (parameter == nullptr) {
      return InvalidArgument(fmt::format("--{}: kind {} has no such option", name, kind.name()));
    }
    auto value = ReadText(*parameter, text);
    if (!value.ok()) return value.status().WithContext("--" + name);
    values.emplace(name, *std::move(value));
  }
  return Params(std::move(values));
}

Status Generate(const GenerateArguments& arguments) {
  MILLRACE_ASSIGN_OR_RETURN(const auto kind, ProductKinds().Named(arguments.kind));
  GenerateRequest request;
  MILLRACE_ASSIGN_OR_RETURN(request.params, ReadTexts(*kind, arguments.texts));
  const auto began = std::chrono::steady_clock::now();
  std::string report;
  {
    // The progress bar begins with the first call. If the folder cannot be used, the error is then
    // the only line printed.
    std::once_flag begun;
    std::optional<Progress> progress;
    request.progress = [&](std::uint64_t done, std::uint64_t total) {
      std::call_once(begun, [&] { progress.emplace("generating", "nodes", total); });
      progress->Add(done);
    };
    MILLRACE_ASSIGN_OR_RETURN(report, kind->Generate(arguments.dir, request));
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::fputs((report + fmt::format("seconds       {:.2f}\n", seconds)).c_str(), stdout);
  return OkStatus();
}

/// A parameter of one kind or several. Its bounds are left to the kind that is made up.
struct SharedParameter {
  Parameter parameter;
  std::string group;  // of --help: the kind that alone has it; empty: several have it
};

std::map<std::string, SharedParameter> ParametersOfAllKinds() {
  std::map<std::string, SharedParameter> all;
  const DatasetKinds kinds = ProductKinds();
  for (const auto& kind : kinds.all()) {
    for (Parameter& parameter : kind->generate_parameters()) {
      const std::string group = fmt::format("Options of --kind {}", kind->name());
      const auto [known, added] =
          all.try_emplace(parameter.name, SharedParameter{parameter, group});
      if (added) continue;
      known->second.group.clear();
      if (known->second.parameter.default_value != parameter.default_value) {
        known->second.parameter.default_value = ParamValue();
      }
      if (known->second.parameter.help == parameter.help) continue;
      known->second.parameter.help += fmt::format("; {}: {}", kind->name(), parameter.help);
    }
  }
  return all;
}

}  // namespace

void AddGenerateCommand(Tool& tool) {
  const auto arguments = std::make_shared<GenerateArguments>();
  CommandLine& command =
      tool.Add("generate", "Write a made-up dataset with the shapes of real ones",
               "  millrace generate data\n"
               "  millrace generate data --nodes 10000000 --seed 7\n"
               "  millrace generate data --files 20 --definitions 3000 "
               "--proof-states 10000 --nodes 500000\n",
               [arguments] { return Generate(*arguments); });
  command.AddOption("dir", &arguments->dir, "folder to write to; made if it does not exist")
      .Required()
      .TypeName("DIR");
  command.AddOption("--kind", &arguments->kind, "kind of the dataset").ShowDefault();
  for (const auto& [name, shared] : ParametersOfAllKinds()) {
    const Parameter& parameter = shared.parameter;
    const std::string flag = "--" + name;
    const auto take = [arguments, name = name](const std::string& text) {
      arguments->texts[name] = text;
    };
    const bool is_flag = parameter.types.front() == ParamType::kBool;
    CommandOption option =
        is_flag ? command.AddFlag(
                      flag, [take] { take("true"); }, parameter.help)
                : command.AddOption(flag, take, parameter.help).TypeName(TypeNameOf(parameter));
    if (parameter.has_default() && !is_flag) {
      option.Default(PlainText(parameter, parameter.default_value));
    }
    if (!shared.group.empty()) option.Group(shared.group);
  }
}

}  // namespace millrace::cli
