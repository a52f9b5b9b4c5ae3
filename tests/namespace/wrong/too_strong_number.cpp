#include <reprise/reprise.h>

reprise::array<int> half(reprise::array<int> const& x) { return x * 0.5; }
