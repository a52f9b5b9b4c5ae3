#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include <reprise/reprise.h>

using namespace reprise;
using namespace std;

namespace reprise_first {
#include "both_using.h"
}
float reprise_then_std() { return reprise_first::both_namespaces(); }
