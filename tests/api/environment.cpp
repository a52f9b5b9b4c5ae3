// Each test binary keeps its programs to itself: no disk cache unless a test asks for one.
#include <cstdlib>

namespace {
[[maybe_unused]] int const off = setenv("REPRISE_CACHE", "off", 0);
}
