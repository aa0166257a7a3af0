// `millrace generate`: writes a made-up dataset.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "client/cli/commands.h"
#include "client/cli/numbers.h"
#include "client/cli/progress.h"
#include "common/base/parse_number.h"
#include "server/catalog/product_kinds.h"

namespace millrace::cli {
namespace {

/// The kind that is made up if none is told.
constexpr const char* kUsualKind = "coq";

struct GenerateArguments {
  std::filesystem::path dir;
  std::string kind = kUsualKind;
  std::map<std::string, std::uint64_t> numbers;  // those given
};

/// InvalidArgument if a number was given that the kind does not take.
Status CheckNumbers(const DatasetKind& kind, const GenerateArguments& arguments) {
  const std::vector<GenerateOption> options = kind.generate_options();
  for (const auto& [name, value] : arguments.numbers) {
    const auto option = std::find_if(options.begin(), options.end(),
                                     [&name = name](const auto& o) { return o.name == name; });
    if (option == options.end()) {
      return InvalidArgument(fmt::format("--{}: kind {} has no such option", name, kind.name()));
    }
    if (value < option->min || value > option->max) {
      return InvalidArgument(fmt::format("--{}: expected a number from {} to {}, got {}", name,
                                         option->min, option->max, value));
    }
  }
  return OkStatus();
}

Status Generate(const GenerateArguments& arguments) {
  MILLRACE_ASSIGN_OR_RETURN(const auto kind, ProductKinds().Named(arguments.kind));
  MILLRACE_RETURN_IF_ERROR(CheckNumbers(*kind, arguments));
  GenerateRequest request;
  request.numbers = arguments.numbers;
  const auto began = std::chrono::steady_clock::now();
  std::string report;
  {
    // The progress bar begins with the first nodes. If the folder cannot be used, the error is then
    // the only line printed.
    std::once_flag begun;
    std::optional<Progress> progress;
    request.progress = [&](std::uint64_t nodes, std::uint64_t total) {
      std::call_once(begun, [&] { progress.emplace("generating", "nodes", total); });
      progress->Add(nodes);
    };
    MILLRACE_ASSIGN_OR_RETURN(report, kind->Generate(arguments.dir, request));
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::fputs((report + fmt::format("seconds       {:.2f}\n", seconds)).c_str(), stdout);
  return OkStatus();
}

/// An option of one kind or several: the help says which, unless it is that of the usual kind.
struct SharedOption {
  GenerateOption option;
  std::string help;
};

std::map<std::string, SharedOption> OptionsOfAllKinds() {
  std::map<std::string, SharedOption> options;
  const DatasetKinds kinds = ProductKinds();
  for (const auto& kind : kinds.all()) {
    for (GenerateOption& option : kind->generate_options()) {
      const std::string help = kind->name() == kUsualKind
                                   ? option.help
                                   : fmt::format("{}: {}", kind->name(), option.help);
      auto [known, added] = options.try_emplace(option.name, SharedOption{option, help});
      if (added) continue;
      known->second.help += "; " + help;
      // CheckNumbers looks at the range of the kind alone.
      known->second.option.min = std::min(known->second.option.min, option.min);
      known->second.option.max = std::max(known->second.option.max, option.max);
      if (known->second.option.usual != option.usual) known->second.option.usual.reset();
    }
  }
  return options;
}

void AddWordOption(CommandLine& command, const SharedOption& shared,
                   const std::function<void(std::uint64_t)>& take) {
  const std::vector<std::string>& words = shared.option.words;
  const auto take_word = [words, take](const std::string& word) {
    take(static_cast<std::uint64_t>(std::find(words.begin(), words.end(), word) - words.begin()));
  };
  CommandOption option = command.AddOption("--" + shared.option.name, take_word, shared.help)
                             .OneOf(words)
                             .TypeName(fmt::format("{{{}}}", fmt::join(words, "|")));
  if (shared.option.usual) option.Default(words.at(*shared.option.usual));
}

}  // namespace

void AddGenerateCommand(Tool& tool) {
  const auto arguments = std::make_shared<GenerateArguments>();
  CommandLine& command =
      tool.Add("generate", "write a made-up dataset with the shapes of real ones",
               "  millrace generate data\n"
               "  millrace generate data --nodes 10000000 --seed 7\n"
               "  millrace generate data --files 20 --definitions 3000 "
               "--proof-states 10000 --nodes 500000\n",
               [arguments] { return Generate(*arguments); });
  command.AddOption("dir", &arguments->dir, "folder to write to; made if it does not exist")
      .Required()
      .TypeName("DIR");
  command.AddOption("--kind", &arguments->kind, "kind of the dataset").ShowDefault();
  for (const auto& [name, shared] : OptionsOfAllKinds()) {
    const auto take = [arguments, name = name](std::uint64_t number) {
      arguments->numbers[name] = number;
    };
    if (shared.option.flag) {
      command.AddFlag(
          "--" + name, [take] { take(1); }, shared.help);
      continue;
    }
    if (!shared.option.words.empty()) {
      AddWordOption(command, shared, take);
      continue;
    }
    CommandOption option =
        command
            .AddOption(
                "--" + name,
                [take](const std::string& number) { take(*ParseNumber<std::uint64_t>(number)); },
                shared.help)
            .Check(WholeNumber(shared.option.min, shared.option.max))
            .TypeName("UINT");
    if (shared.option.usual) option.Default(std::to_string(*shared.option.usual));
  }
}

}  // namespace millrace::cli
