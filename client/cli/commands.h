// Every command of `millrace`: one declaration and one call each.
#pragma once

#include "client/cli/command.h"

namespace millrace::cli {

void AddBatchCommand(Tool& tool);
void AddCertsCommand(Tool& tool);
void AddCheckCommand(Tool& tool);
void AddCheckLogCommand(Tool& tool);
void AddConsumeCommand(Tool& tool);
void AddDigestCommand(Tool& tool);
void AddDrainCommand(Tool& tool);
void AddGenerateCommand(Tool& tool);
void AddHealthCommand(Tool& tool);
void AddImportCommand(Tool& tool);
void AddIndexCommand(Tool& tool);
void AddInspectCommand(Tool& tool);
void AddJobsCommand(Tool& tool);
void AddSizeCommand(Tool& tool);
void AddStatusCommand(Tool& tool);
void AddTopCommand(Tool& tool);
void AddTraceCommand(Tool& tool);
void AddTuneCommand(Tool& tool);
void AddUndrainCommand(Tool& tool);
void AddVerifyCommand(Tool& tool);
void AddWarmCommand(Tool& tool);
void AddWhereCommand(Tool& tool);

inline void AddAllCommands(Tool& tool) {
  AddBatchCommand(tool);
  AddCertsCommand(tool);
  AddCheckCommand(tool);
  AddCheckLogCommand(tool);
  AddConsumeCommand(tool);
  AddDigestCommand(tool);
  AddDrainCommand(tool);
  AddGenerateCommand(tool);
  AddHealthCommand(tool);
  AddImportCommand(tool);
  AddIndexCommand(tool);
  AddInspectCommand(tool);
  AddJobsCommand(tool);
  AddSizeCommand(tool);
  AddStatusCommand(tool);
  AddTopCommand(tool);
  AddTraceCommand(tool);
  AddTuneCommand(tool);
  AddUndrainCommand(tool);
  AddVerifyCommand(tool);
  AddWarmCommand(tool);
  AddWhereCommand(tool);
}

}  // namespace millrace::cli
