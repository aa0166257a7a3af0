// The report of `millrace size`: the arithmetic line by line for people, or all numbers as JSON.
//
// Pure functions; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "client/cli/size/sizing.h"

namespace millrace::cli {

/// The assumptions behind the numbers, in one or two sentences each.
std::vector<std::string> SizeAssumptions();

/// Several lines: the sample, then each result with the calculation that gives it, then the
/// assumptions. Ends with a newline.
std::string DescribeSize(const SizeRequest& request, const SizeFacts& facts,
                         const SizeAnswer& answer);

/// The same as one JSON object on one line, without a newline at the end: "request", "sample",
/// "facts", "answer" and "assumptions". Names end with their units; the report has the same
/// numbers. An unknown number is null.
std::string SizeJson(const SizeRequest& request, const SizeFacts& facts, const SizeAnswer& answer);

}  // namespace millrace::cli
