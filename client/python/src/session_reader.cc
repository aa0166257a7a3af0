// A session of the C++ client, for Python.

#include <memory>
#include <string>

#include "client/python/src/options.h"
#include "client/python/src/reader.h"
#include "client/session.h"
#include "common/system/stderr_logger.h"

namespace nb = nanobind;

namespace millrace::python {
namespace {

class SessionReader final : public Reader {
 public:
  explicit SessionReader(nb::dict options) {
    SessionOptions session;
    TakeSessionOptions(options, session);
    std::string log_level = "warning";
    TakeOption(options, "log_level", &log_level);
    session.logger = MakeStderrLogger("session", ValueOrRaise(ParseLogLevel(log_level)), false);
    RequireNoMore(options);
    Open(ValueOrRaise(WithoutGil([&] { return Session::Create(session); })));
  }
};

}  // namespace

void BindSessionReader(nb::module_& module) {
  nb::class_<SessionReader, Reader>(module, "SessionReader", "A session with a dispatcher.")
      .def(
          "__init__",
          [](SessionReader* self, const nb::dict& options) {
            new (self) SessionReader(nb::dict(options));
          },
          nb::arg("options"));
}

}  // namespace millrace::python
