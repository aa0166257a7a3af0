#include "server/daemon/option_flags.h"

#include <CLI/CLI.hpp>

#include "server/daemon/option_table.h"

namespace millrace {

Result<OptionTexts> OptionFlags::Texts() const {
  OptionTexts all = texts;
  for (const std::string& dataset : datasets) MILLRACE_RETURN_IF_ERROR(AddDataset(dataset, all));
  for (const std::string& plugin : plugins) MILLRACE_RETURN_IF_ERROR(AddPlugin(plugin, all));
  return all;
}

void AddOptionFlags(CLI::App& command, Role role, OptionFlags& flags) {
  command.add_option("--dataset", flags.datasets, "ID=DIR; repeat for more");
  command.add_option("--plugin", flags.plugins,
                     "NAME=FOLDER: pipelines may name what the Python module NAME in FOLDER has in "
                     "its __all__; repeat for more");
  for (const Option& option : OptionTable()) {
    if (!option.IsOf(role)) continue;
    // A switch that is off by default needs no value: its flag alone turns it on.
    const bool may_stand_alone = option.value.is_switch && option.otherwise.shown == "false";
    const auto set = [&flags, name = option.name, may_stand_alone](const std::string& value) {
      flags.texts.values[name] = {may_stand_alone && value.empty() ? "true" : value, ""};
    };
    CLI::Option* const flag =
        command.add_option_function<std::string>(option.Flag(), set, option.Help())->take_last();
    if (may_stand_alone) flag->expected(0, 1);
  }
}

}  // namespace millrace
