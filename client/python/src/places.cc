// The cursors and the step arithmetic of common/epoch, for Python.

#include <string>

#include <nanobind/stl/string.h>

#include "client/python/src/errors.h"
#include "client/python/src/options.h"
#include "client/python/src/reader.h"
#include "common/epoch/cursor.h"
#include "common/epoch/position.h"

namespace nb = nanobind;

namespace millrace::python {
namespace {

/// The places in one order of examples, and its steps for one world size. Immutable.
class Places {
 public:
  Places(const Fingerprint& order, const StepArithmetic& steps) : order_(order), steps_(steps) {}

  std::string Cursor(std::uint64_t epoch, std::uint64_t example) const {
    return millrace::Cursor{{{order_, {epoch, example}}}}.ToString();
  }
  nb::tuple Position(nb::handle cursor) const {
    std::string text;
    if (!nb::try_cast(cursor, text)) {
      RaiseUnexpected("cursor", "v2,FINGERPRINT:EPOCH:EXAMPLE, as Session.cursor gives it", cursor);
    }
    return Tuple(ValueOrRaise(millrace::Cursor::PlaceIn(order_, text)));
  }
  nb::tuple At(nb::handle wanted_epoch, nb::handle wanted_step) const {
    const auto epoch = ReadOption<std::uint64_t>("epoch", wanted_epoch);
    const auto step = ReadOption<std::uint64_t>("step", wanted_step);
    return Tuple(ValueOrRaise(steps_.StepAt(epoch, step)));
  }
  nb::tuple Next(std::uint64_t epoch, std::uint64_t example) const {
    if (steps_.StepsFrom(example) == 0) {
      Raise(OutOfRange("example " + std::to_string(example) + ": no step lies there"));
    }
    return Tuple(steps_.Next({epoch, example}));
  }
  std::uint64_t Step(std::uint64_t example) const { return steps_.Step({0, example}); }
  std::uint64_t StepsLeft(std::uint64_t example) const { return steps_.StepsFrom(example); }

 private:
  static nb::tuple Tuple(const millrace::Position& at) {
    return nb::make_tuple(at.epoch, at.example);
  }

  const Fingerprint order_;
  const StepArithmetic steps_;
};

}  // namespace

nb::object MakePlaces(const BatchSpec& spec) {
  return nb::cast(Places(spec.order_fingerprint, ValueOrRaise(StepArithmetic::Create(spec.steps))));
}

void BindPlaces(nb::module_& module) {
  nb::class_<Places>(module, "Places",
                     "The places in one order of examples, and its steps for one world size. A "
                     "position is (epoch, examples before the next step).")
      .def("cursor", &Places::Cursor, nb::arg("epoch"), nb::arg("example"),
           "The cursor of a position: one line of text.")
      .def("position", &Places::Position, nb::arg("cursor").none(),
           "The position of a cursor of this order.")
      .def("at", &Places::At, nb::arg("epoch").none(), nb::arg("step").none(),
           "The position of a step of an epoch.")
      .def("next", &Places::Next, nb::arg("epoch"), nb::arg("example"),
           "The position after the step at a position.")
      .def("step", &Places::Step, nb::arg("example"),
           "The number of the step that lies at an example, counted from the epoch's start.")
      .def("steps_left", &Places::StepsLeft, nb::arg("example"),
           "The number of steps from an example to the end of its epoch.");
}

}  // namespace millrace::python
