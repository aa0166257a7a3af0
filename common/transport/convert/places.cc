#include "common/transport/convert/places.h"

namespace millrace {

Number FromProto(const v1::Number& number) { return {number.term(), number.n()}; }

void ToProto(Number number, v1::Number* to) {
  to->set_term(number.term);
  to->set_n(number.n);
}

Position FromProto(const v1::Position& position) { return {position.epoch(), position.example()}; }

void ToProto(Position position, v1::Position* to) {
  to->set_epoch(position.epoch);
  to->set_example(position.example);
}

Position PositionOf(const v1::Run& run, std::uint64_t step) {
  return {run.epoch(), run.position() + step * run.stride()};
}

}  // namespace millrace
