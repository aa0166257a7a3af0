// The likely meaning of a mistyped word.
//
// Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace millrace {

/// The candidate that a mistyped word most likely means; empty if no candidate is close.
std::string Nearest(std::string_view word, const std::vector<std::string>& candidates);

/// Returns " (did you mean x?)", or "".
std::string Suggestion(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace millrace
