// The Python program that runs plugins (server/plugin/python). It is part of this library, so that
// a daemon needs no further file.
#pragma once

#include "server/plugin/files/plugin_files.h"

namespace millrace {

/// The file of the program that is to be run.
inline constexpr const char* kPluginProgram = "_millrace_plugin.py";

/// All files of the program. Written by CMake (embed_program.cmake).
FileSet PluginProgram();

}  // namespace millrace
