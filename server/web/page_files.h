// The files of the page (server/web/page), which the build puts into the program.
//
// Immutable; thread-safe.
#pragma once

#include <span>
#include <string_view>

namespace millrace {

struct PageFile {
  std::string_view path;  // "/page.js"
  std::string_view bytes;
};

std::span<const PageFile> PageFiles();

}  // namespace millrace
