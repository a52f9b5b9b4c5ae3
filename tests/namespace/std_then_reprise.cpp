#include <reprise/reprise.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

using namespace std;
using namespace reprise;

namespace std_first {
#include "both_using.h"
}
float std_then_reprise() { return std_first::both_namespaces(); }
