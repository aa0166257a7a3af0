// Converts how a process tunes itself to the wire.
//
// Free functions; thread-safe.
#pragma once

#include <span>
#include <string>

#include "common/tune/tuner.h"
#include "millrace/v1/dispatcher.pb.h"

namespace millrace {

/// Adds settings and the decisions of their tuner; no more than a dispatcher takes.
void ToProto(std::span<const tune::Setting> settings, const tune::Tuner& tuner, Time now,
             v1::Tuning& to);

/// A decision in one line, as tune::ToLine.
std::string TuneLine(const v1::TuneDecision& decision);

}  // namespace millrace
