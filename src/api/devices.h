// The composition root: which backend a context gets. The one place that knows all of them.
#pragma once

#include <memory>

#include <reprise/context.h>

#include "trace/engine.h"

namespace reprise::api {

// Throws device_error, saying what was looked for, when there is no such device.
std::unique_ptr<record::engine> make_engine(context_options const& o);

}  // namespace reprise::api
