// A second translation unit with the same inline functions as main.cpp: one definition of each.
#include <reprise/reprise.h>

#include "program.h"

float one_definition() { return use_of_the_library(); }
