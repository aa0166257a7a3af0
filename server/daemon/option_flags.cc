#include "server/daemon/option_flags.h"

#include "common/command_line/parameter_flag.h"
#include "server/daemon/option_table.h"

namespace millrace {

Result<OptionTexts> OptionFlags::Texts() const {
  OptionTexts all = texts;
  for (const std::string& dataset : datasets) MILLRACE_RETURN_IF_ERROR(AddDataset(dataset, all));
  for (const std::string& plugin : plugins) MILLRACE_RETURN_IF_ERROR(AddPlugin(plugin, all));
  return all;
}

void AddOptionFlags(CommandLine& command, Role role, OptionFlags& flags) {
  command.AddOption("--dataset", &flags.datasets, "ID=DIR; repeat for more");
  command.AddOption("--plugin", &flags.plugins,
                    "NAME=FOLDER: pipelines may name what the Python module NAME in FOLDER has in "
                    "its __all__; repeat for more");
  for (const Option& option : OptionTable()) {
    if (!option.IsOf(role)) continue;
    // A switch that is off by default needs no value: its flag alone turns it on.
    const bool may_stand_alone = option.otherwise.shown == "false";
    const auto set = [&flags, name = option.parameter.name,
                      may_stand_alone](const std::string& value) {
      flags.texts.values[name] = {may_stand_alone && value.empty() ? "true" : value, ""};
    };
    CommandOption flag = command.AddOption(option.Flag(), set, option.Help());
    flag.TakeLast().TypeName(TypeNameOf(option.parameter));
    if (may_stand_alone) flag.MayStandAlone();
  }
}

}  // namespace millrace
