// Converts numbers and positions to and from the wire.
//
// Free functions; thread-safe.
#pragma once

#include <cstdint>

#include "common/base/ids.h"
#include "common/epoch/position.h"
#include "millrace/v1/common.pb.h"

namespace millrace {

/// An unset message gives the number 0.0, whose is_set() is false.
Number FromProto(const v1::Number& number);
void ToProto(Number number, v1::Number* to);
/// The wire has one message for all numbers.
template <class Tag>
void ToProto(IssuedId<Tag> id, v1::Number* to) {
  ToProto(id.number(), to);
}

Position FromProto(const v1::Position& position);
void ToProto(Position position, v1::Position* to);

/// The position of step `step` of a run; steps count from 0.
Position PositionOf(const v1::Run& run, std::uint64_t step = 0);

}  // namespace millrace
